"""The three kinds of job: train, collect, certify.

Each takes its specification, the folders of the jobs that it needs, and the folder to fill. All
compute on one thread, so that a job gives the same numbers beside however many others.
"""

import json
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tightrope.errors import InputError

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
    """Every certificate of one policy: its requests times its repetitions."""
    import torch

    from tightrope.certificates import as_text, to_document
    from tightrope.rollouts import load
    from tightrope.studies.table import row

    torch.set_num_threads(1)
    trained, collected = needs
    episodes = load(collected / "rollouts.safetensors")
    rows = []
    for number, (certificate, repetition) in enumerate(_certificates(spec, trained, episodes)):
        name = f"{number:04d}.json"
        (out / name).write_text(as_text(to_document(certificate)))
        rows.append(row(certificate, spec["policy"], repetition, name))
    (out / "rows.json").write_text(json.dumps(rows, indent=1, sort_keys=True) + "\n")


def _certificates(spec: Spec, trained: Path, episodes: Any) -> Any:
    """Requests of the same data together: repetitions and schemes share their fits."""
    from tightrope.certificates import Options, Rollout, certify_many
    from tightrope.certificates.request import request
    from tightrope.rollouts import join

    pilot, validation, test = spec["layout"]
    source = _policy(trained, spec)
    groups: dict[tuple[int, int], list[Any]] = {}
    for each in spec["requests"]:
        asked = request(
            source,
            spec["environment"] or None,
            Options.of({**each["options"], "test_episodes": test, "seed": 0}),
            Rollout(),
        )
        key = (int(asked.options.pilot_episodes), int(asked.options.episodes))
        groups.setdefault(key, []).append((asked, each["seeds"]))
    for (own_pilot, own_validation), members in groups.items():
        parts = [episodes[:own_pilot]] if own_pilot else []
        parts += [episodes[pilot : pilot + own_validation], episodes[pilot + validation :]]
        seen = join([one for part in parts for one in part], episodes.subject)
        by_seeds: dict[tuple[int, ...], list[Any]] = {}
        for asked, seeds in members:
            by_seeds.setdefault(tuple(seeds), []).append(asked)
        for seeds, several in by_seeds.items():
            found = certify_many(
                seen,
                [asked.options for asked in several],
                seeds,
                training=several[0].training,
            )
            for line in found:
                yield from ((certificate, number) for number, certificate in enumerate(line))


def _policy(trained: Path, spec: Spec) -> Path:
    """The policy in the folder of a training, or of policies of one's own.

    Raises:
        InputError: it is gone.
    """
    path = trained / str(spec["file"])
    if not path.exists():
        raise InputError(f"expected a policy at {str(path)!r}, found none: delete {str(trained)!r}")
    return path
