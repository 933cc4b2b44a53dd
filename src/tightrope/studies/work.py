"""The three kinds of job: train, collect, certify.

Each takes its specification, the folders of the jobs that it needs, and the folder to fill. All
compute on one thread, so that a job gives the same numbers beside however many others.
"""

import json
import shutil
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tightrope.errors import InputError

if TYPE_CHECKING:
    from tightrope.certificates import Certificate, Settings
    from tightrope.rollouts import Episodes

__all__ = ["certify_job", "collect_job", "plain_settings", "train_job"]

Spec = Mapping[str, Any]
_LEFT = (".lock", "finished", "tensorboard")  # of a run, that a study has no use for


def train_job(spec: Spec, needs: Sequence[Path], out: Path) -> None:
    """Train; a folder per level, the log, and the specification of the run."""
    from tightrope.agents import train

    train(
        spec["agent"],
        spec["environment"],
        out,
        threads=1,
        checkpoint_every=5_000,
        steps=spec["levels"][-1],
        levels=tuple(spec["levels"]),
        seed=spec["seed"],
        **plain_settings(spec["settings"]),
    )
    for name in _LEFT:
        path = out / name
        shutil.rmtree(path) if path.is_dir() else path.unlink(missing_ok=True)


def plain_settings(recorded: Spec) -> dict[str, Any]:
    """Settings as the agents take them; JSON has no infinity."""
    return {name: float("inf") if value == "inf" else value for name, value in recorded.items()}


def collect_job(spec: Spec, needs: Sequence[Path], out: Path) -> None:
    """Roll out one level of what was trained, or a policy of one's own."""
    from tightrope.rollouts import collect, policy_source, save

    subject = policy_source(_policy(needs[0], spec), spec["environment"] or None)
    episodes = collect(
        subject.policy, subject.environment, spec["episodes"], spec["seed"], workers=1
    )
    save(episodes, out / "rollouts.safetensors")


def certify_job(spec: Spec, needs: Sequence[Path], out: Path) -> None:
    """Every certificate of one policy: its requests times its repetitions, with shared fits."""
    import torch

    from tightrope.certificates import as_text, to_document
    from tightrope.rollouts import load
    from tightrope.studies.certificate_records import CertificateRecord

    torch.set_num_threads(1)
    trained, collected = needs
    episodes = load(collected / "rollouts.safetensors")
    rows = []
    for number, (certificate, repetition) in enumerate(_certificates(spec, trained, episodes)):
        name = f"{number:04d}.json"
        (out / name).write_text(as_text(to_document(certificate)))
        record = CertificateRecord.of(certificate, spec["policy"], repetition, name)
        rows.append(asdict(record))
    (out / "rows.json").write_text(json.dumps(rows, indent=1, sort_keys=True) + "\n")


def _certificates(
    spec: Spec, trained: Path, episodes: "Episodes"
) -> "Iterator[tuple[Certificate, int]]":
    """Each with the number of its repetition, which decides its seed."""
    from tightrope.certificates import Options, settle
    from tightrope.certificates.certify import issue
    from tightrope.certificates.settings import training_scaling
    from tightrope.rollouts import policy_source
    from tightrope.studies.fits import shared_fits

    source = policy_source(_policy(trained, spec), spec["environment"] or None)
    fit = shared_fits()
    for request in spec["requests"]:
        asked = Options.of({**request["options"], "test_episodes": spec["layout"][-1]})
        training = training_scaling(asked, source)
        for repetition, seed in enumerate(request["seeds"]):
            options = asked.seeded(seed)
            settings = settle(options, source, training=training)
            used = _used(episodes, spec["layout"], settings)
            made = issue(used, settings, options=options, training=training, fit=fit)
            yield made, repetition


def _used(episodes: "Episodes", layout: Sequence[int], settings: "Settings") -> "Episodes":
    """The first pilot, validation and test episodes of what was rolled out for all requests."""
    from tightrope.rollouts import join

    starts = (0, layout[0], layout[0] + layout[1])
    counts = (settings.pilot, settings.validation, settings.test)
    parts = (range(start, start + count) for start, count in zip(starts, counts, strict=True))
    return join([episodes[number] for part in parts for number in part], episodes.subject)


def _policy(trained: Path, spec: Spec) -> Path:
    """The policy in the folder of a training, or of policies of one's own.

    Raises:
        InputError: it is gone.
    """
    path = trained / str(spec["file"])
    if not path.exists():
        raise InputError(f"expected a policy at {str(path)!r}, found none: delete {str(trained)!r}")
    return path
