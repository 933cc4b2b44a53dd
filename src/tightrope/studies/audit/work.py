"""The job of an audit: some repetitions, each compared with the truth."""

import json
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from tightrope.studies.audit.generators import SYNTHETIC, TASKS, SyntheticTask
from tightrope.studies.audit.spec import TRUTH_EPISODES, Audit
from tightrope.studies.graph import child

if TYPE_CHECKING:
    from tightrope.certificates import Certificate, Settings
    from tightrope.rollouts import Episodes, PolicySource

__all__ = ["RECORDS", "repeat_job"]

RECORDS = "records.json"


def repeat_job(spec: Mapping[str, Any], needs: Sequence[Path], out: Path) -> None:
    """Repetitions `first` to `last`: fresh episodes, fits, certificates, and what is true."""
    import torch

    from tightrope.studies.audit.tally import record
    from tightrope.studies.audit.truth import NewEpisodes, truths

    torch.set_num_threads(1)
    audit = Audit(**spec["audit"])
    subject = _subject(spec, needs, audit)
    new: NewEpisodes | None = None
    records = []
    for number in range(spec["first"], spec["last"]):
        for certificate in _certificates(subject, audit, child(audit.seed, "repetition", number)):
            if new is None:  # thinning is settled by now, and the same for all
                gamma, thin = certificate.settings.gamma, certificate.thin
                new = NewEpisodes(subject.new(), gamma, thin, subject.known)
            judged = record(certificate, truths(certificate, new))
            records.append({"repetition": number, **judged})
    (out / RECORDS).write_text(json.dumps(records, indent=1) + "\n")


def _certificates(subject: "_Subject", audit: Audit, seed: int) -> "list[Certificate]":
    """A certificate of each scheme, all of them of the last ones of the same episodes."""
    from tightrope.certificates import settle
    from tightrope.certificates.certify import issue
    from tightrope.certificates.sequential import issue_until
    from tightrope.certificates.settings import training_scaling
    from tightrope.posteriors import PRESETS
    from tightrope.studies.fits import shared_fits

    preset = PRESETS[audit.preset].shortened(
        None if audit.updates == "auto" else audit.updates,
        None if audit.width == "auto" else audit.width,
    )
    asked = [options.seeded(seed) for options in audit.requests(subject.options)]
    trained = [training_scaling(options, subject.source) for options in asked]
    decided = [
        settle(options, subject.source, preset=preset, training=training)
        for options, training in zip(asked, trained, strict=True)
    ]
    most = max(settings.pilot + settings.most for settings in decided)
    collect = subject.stream(decided[0], most)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", ".*will hardly be reached")
        if audit.until != "off":
            return [issue_until(collect, decided[0], options=asked[0])]
        episodes, fit = collect(most, 0), shared_fits()
        return [
            issue(
                episodes.span(most - settings.episodes, most),
                settings,
                options=options,
                training=training,
                fit=fit,
            )
            for options, settings, training in zip(asked, decided, trained, strict=True)
        ]


@dataclass(frozen=True)
class _Subject:
    """What is audited.

    Attributes:
        source: what defaults are settled for.
        options: of its certificates.
        known: targets whose expectation or probability is known in closed form.
        stream: fresh episodes: from the settings and their largest number to a function from a
            number of episodes, and the first of them, to the episodes.
        new: the episodes that tell the truth.
    """

    source: "PolicySource"
    options: Mapping[str, Any]
    known: Mapping[Any, float]
    stream: "Callable[[Settings, int], Callable[[int, int], Episodes]]"
    new: "Callable[[], Episodes]"


def _subject(spec: Mapping[str, Any], needs: Sequence[Path], audit: Audit) -> _Subject:
    if spec["task"]:
        return _synthetic(TASKS[spec["task"]], audit)
    return _policy(needs[0] / spec["file"], spec["environment"] or None, needs[1])


def _synthetic(task: SyntheticTask, audit: Audit) -> _Subject:
    asked = audit.truth_episodes
    count = TRUTH_EPISODES["task"] if asked == "auto" else asked

    def stream(settings: "Settings", most: int) -> "Callable[[int, int], Episodes]":
        recorded = task.record(most, np.random.default_rng(settings.seed))
        return lambda size, first: recorded.span(first, first + size)

    new = partial(task.new, count, np.random.default_rng(child(audit.seed, "truth")))
    return _Subject(SYNTHETIC, task.options, task.known, stream, new)


def _policy(path: Path, environment: str | None, truth: Path) -> _Subject:
    from tightrope.certificates.certify import roll_out
    from tightrope.rollouts import Rollout, load, policy_source

    source = policy_source(path, environment)

    def stream(settings: "Settings", most: int) -> "Callable[[int, int], Episodes]":
        return lambda size, first: roll_out(source, settings, Rollout(workers=1), size, first=first)

    return _Subject(source, {}, {}, stream, lambda: load(truth / "rollouts.safetensors"))
