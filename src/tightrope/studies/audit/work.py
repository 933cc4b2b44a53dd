"""The job of an audit: some repetitions, each compared with the truth."""

import json
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from tightrope.studies.audit.processes import PROCESSES, Process
from tightrope.studies.audit.spec import TRUTH_EPISODES, Audit
from tightrope.studies.graph import child

if TYPE_CHECKING:
    from tightrope.certificates import Certificate, Options
    from tightrope.rollouts import Episodes

__all__ = ["RECORDS", "repeat_job"]

RECORDS = "records.json"


def repeat_job(spec: Mapping[str, Any], needs: Sequence[Path], out: Path) -> None:
    """Repetitions `first` to `last`: fresh episodes, fits, certificates, and what is true."""
    import torch

    from tightrope.posteriors import changed_presets, shortened
    from tightrope.studies.audit.tally import record
    from tightrope.studies.audit.truth import NewEpisodes, answers

    torch.set_num_threads(1)
    audit = Audit(**spec["audit"])
    subject: _Drawn | _RolledOut
    if spec["process"]:
        subject = _Drawn(PROCESSES[spec["process"]], audit)
    else:
        subject = _RolledOut(needs[0] / spec["file"], spec["environment"], needs[1], audit)
    short = partial(
        shortened,
        updates=None if audit.updates == "auto" else audit.updates,
        width=None if audit.width == "auto" else audit.width,
    )
    truth: NewEpisodes | None = None
    records = []
    for number in range(spec["first"], spec["last"]):
        seed = child(audit.seed, "repetition", number)
        with changed_presets(short), warnings.catch_warnings():
            warnings.filterwarnings("ignore", ".*lie outside the return range")
            warnings.filterwarnings("ignore", ".*will hardly be reached")
            found = subject.certificates(seed)
        for certificate in found:
            if truth is None:  # thinning is settled by now, and the same for all
                options = certificate.options
                truth = NewEpisodes.of(
                    subject.new(),
                    gamma=options.gamma,
                    thin=certificate.thin,
                    known=subject.known,
                )
            judged = record(certificate, answers(certificate, truth))
            records.append({"repetition": number, **judged})
    (out / RECORDS).write_text(json.dumps(records, indent=1) + "\n")


@dataclass(frozen=True)
class _Drawn:
    """A built-in process."""

    process: Process
    audit: Audit

    @property
    def known(self) -> Mapping[Any, float]:
        return self.process.known

    def certificates(self, seed: int) -> "list[Certificate]":
        from tightrope.certificates.issue import certify_many
        from tightrope.certificates.until import issue_until, sequential

        requests = self.audit.requests(self.process.options)
        if self.audit.until != "off":
            requests = [sequential(each).seeded(seed) for each in requests]
        count = self.audit.pilot_episodes + max(int(each.episodes) for each in requests)
        episodes = self.process.record(count, np.random.default_rng(seed))
        if self.audit.until != "off":
            return [issue_until(_Stream(each, episodes)) for each in requests]
        return [one for (one,) in certify_many(episodes, requests, [seed])]

    def new(self) -> "Episodes":
        asked = self.audit.truth_episodes
        count = TRUTH_EPISODES["process"] if asked == "auto" else asked
        return self.process.new(count, np.random.default_rng(child(self.audit.seed, "truth")))


@dataclass(frozen=True)
class _Stream:
    """Recorded episodes that are handed out as they are asked for."""

    options: "Options"
    recorded: "Episodes"
    training: None = None

    def collect(self, count: int, *, first: int = 0, progress: bool = False) -> "Episodes":
        """The next of them."""
        return self.recorded.span(first, first + count)


@dataclass(frozen=True)
class _RolledOut:
    """A policy in its environment."""

    policy: Path
    environment: str
    truth: Path
    audit: Audit

    @property
    def known(self) -> Mapping[Any, float]:
        return {}

    def certificates(self, seed: int) -> "list[Certificate]":
        from tightrope.certificates.issue import certify_many
        from tightrope.certificates.request import Rollout, request

        asked = [
            request(self.policy, self.environment or None, each.seeded(seed), Rollout(workers=1))
            for each in self.audit.requests({})
        ]
        if self.audit.until != "off":
            return [each.issue() for each in asked]
        found = certify_many(
            asked[0].episodes(),
            [each.options for each in asked],
            [seed],
            training=asked[0].training,
        )
        return [one for (one,) in found]

    def new(self) -> "Episodes":
        from tightrope.rollouts import load

        return load(self.truth / "rollouts.safetensors")
