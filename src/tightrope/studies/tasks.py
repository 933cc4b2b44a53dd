"""What the jobs of a study compute: train, collect, certify.

Each takes its specification, the folders of the jobs that it needs, and the folder to fill. All
compute on one thread, so that a job gives the same numbers beside however many others.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tightrope.errors import InputError
from tightrope.files import copy, delete, make_folder, write_text

if TYPE_CHECKING:
    from tightrope.certificates import Certificate, Settings
    from tightrope.rollouts import Episodes, PolicySource

__all__ = ["ROWS", "certify", "collect_rollouts", "copied", "train"]

Spec = Mapping[str, Any]
ROWS = "rows.json"
ROLLOUTS = "rollouts.safetensors"
_LEFT = (".lock", "finished", "tensorboard")  # of a run, that a study has no use for
_KEPT = ("policy.json", "policy.safetensors", "policy.zip")


def train(spec: Spec, needs: Sequence[Path], out: Path) -> None:
    """Train; a folder per level, the log, and the specification of the run."""
    from tightrope.agents import train

    recorded = spec["settings"].items()
    chosen: dict[str, Any] = {k: float("inf") if v == "inf" else v for k, v in recorded}
    train(
        spec["agent"],
        spec["environment"],
        out,
        threads=1,
        checkpoint_every=5_000,
        steps=spec["levels"][-1],
        levels=tuple(spec["levels"]),
        seed=spec["seed"],
        **chosen,
    )
    for name in _LEFT:
        delete(out / name)


def copied(source: Path, spec: Spec, needs: Sequence[Path], out: Path) -> None:
    """Copy a policy, or the levels of a training without what only training needs."""
    for level in spec["levels"]:
        make_folder(out / level)
        for name in _KEPT:
            if (source / level / name).is_file():
                copy(source / level / name, out / level / name)
    if not spec["levels"]:
        copy(source, out / source.name)


def collect_rollouts(spec: Spec, needs: Sequence[Path], out: Path) -> None:
    """Roll out a policy."""
    import torch

    from tightrope.rollouts import collect, save

    torch.set_num_threads(1)
    source = _source(needs[0], spec)
    save(
        collect(source.policy, source.environment, spec["episodes"], spec["seed"], workers=1),
        out / ROLLOUTS,
    )


def certify(spec: Spec, needs: Sequence[Path], out: Path) -> None:
    """The certificates of one repetition that can share fits, and their rows of the table."""
    import torch

    from tightrope.certificates import as_text, to_document
    from tightrope.rollouts import load
    from tightrope.studies.certificate_records import CertificateRecord

    torch.set_num_threads(1)
    rows: list[dict[str, Any]] = []
    for certificate in _certificates(spec, _source(needs[0], spec), load(needs[1] / ROLLOUTS)):
        name = f"{len(rows):04d}.json"
        write_text(out / name, as_text(to_document(certificate)))
        row = CertificateRecord.of(certificate, spec["policy"], spec["repetition"], name)
        rows.append({**asdict(row), "preset": f"{row.preset}{_label(spec)}"})
    write_text(out / ROWS, json.dumps(rows, indent=1, sort_keys=True) + "\n")


def _label(spec: Spec) -> str:
    """What the table adds to the name of a preset that was changed."""
    return "" if spec["layer_norm"] else "-without-layer-norm"


def _certificates(
    spec: Spec, source: "PolicySource", episodes: "Episodes"
) -> "Iterator[Certificate]":
    from tightrope.certificates import Options, settle
    from tightrope.certificates.certify import issue
    from tightrope.certificates.settings import training_scaling
    from tightrope.posteriors import PRESETS
    from tightrope.studies.fits import shared_fits

    fit = shared_fits()
    for request in spec["requests"]:
        options = Options(**{**request, "test_episodes": spec["layout"][-1], "seed": spec["seed"]})
        preset = PRESETS[options.preset].shortened(spec["updates"], spec["width"])
        preset = replace(preset, layer_norm=spec["layer_norm"])
        training = training_scaling(options, source)
        settings = settle(options, source, preset=preset, training=training)
        used = _used(episodes, spec["layout"], settings)
        yield issue(used, settings, options=options, training=training, fit=fit)


def _used(episodes: "Episodes", layout: Sequence[int], settings: "Settings") -> "Episodes":
    """The first pilot, validation and test episodes of what was rolled out for all requests."""
    from tightrope.rollouts import join

    starts = (0, layout[0], layout[0] + layout[1])
    counts = (settings.pilot, settings.validation, settings.test)
    parts = (range(start, start + count) for start, count in zip(starts, counts, strict=True))
    return join([episodes[number] for part in parts for number in part], episodes.subject)


def _source(folder: Path, spec: Spec) -> "PolicySource":
    """The policy in the folder of a training, or of policies of one's own.

    Raises:
        InputError: it is gone.
    """
    from tightrope.rollouts import policy_source

    path = folder / str(spec["file"])
    if not path.exists():
        raise InputError(f"expected a policy at {str(path)!r}, found none: delete {str(folder)!r}")
    return policy_source(path, spec["environment"] or None)
