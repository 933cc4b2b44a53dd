"""What the jobs of a study compute: train, collect, certify.

Each takes its specification, the folders of the jobs that it needs, and the folder to fill. All
compute on one thread, so that a job gives the same numbers beside however many others.
"""

import dataclasses
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from hashlib import blake2b
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from tightrope.errors import InputError
from tightrope.files import copy, delete, make_folder, write_text

if TYPE_CHECKING:
    from tightrope.certificates import Certificate
    from tightrope.certificates.fitting import FittedPredictor
    from tightrope.rollouts import Episodes, PolicySource

__all__ = ["certify", "collect_rollouts", "copied", "remembered", "shared_fits", "train"]

Spec = Mapping[str, Any]
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
    episodes = collect(source.policy, source.environment, spec["episodes"], spec["seed"], workers=1)
    save(episodes, out / ROLLOUTS)


def certify(spec: Spec, needs: Sequence[Path], out: Path) -> None:
    """The certificates of one repetition that can share fits, and their rows of the table."""
    import torch

    from tightrope.certificates import as_text, to_document
    from tightrope.rollouts import load
    from tightrope.studies.certificate_records import record_of

    torch.set_num_threads(1)
    rows: list[dict[str, Any]] = []
    for certificate in _certificates(spec, _source(needs[0], spec), load(needs[1] / ROLLOUTS)):
        name = f"{len(rows):04d}.json"
        write_text(out / name, as_text(to_document(certificate)))
        own = {"repetition": spec["repetition"], "certificate": name, **spec["policy"]}
        rows.append({**record_of(certificate), **own})
    write_text(out / "rows.json", json.dumps(rows, indent=1, sort_keys=True) + "\n")


def _certificates(
    spec: Spec, source: "PolicySource", episodes: "Episodes"
) -> "Iterator[Certificate]":
    from tightrope.certificates import Options, settle
    from tightrope.certificates.certify import issue
    from tightrope.certificates.settings import training_scaling
    from tightrope.posteriors import PRESETS
    from tightrope.rollouts import join

    fit, (pilots, validation, test) = shared_fits(), spec["layout"]
    for request in spec["requests"]:
        options = Options(**{**request, "test_episodes": test, "seed": spec["seed"]})
        preset = PRESETS[options.preset].shortened(spec["updates"], spec["width"])
        preset = dataclasses.replace(preset, layer_norm=spec["layer_norm"])
        training = training_scaling(options, source)
        settings = settle(options, source, preset=preset, training=training)
        # The first pilot, validation and test episodes of what was rolled out for all requests.
        starts = (0, pilots, pilots + validation)
        counts = (settings.pilot, settings.validation, settings.test)
        ranges = [range(first, first + n) for first, n in zip(starts, counts, strict=True)]
        used = [episodes[number] for each in ranges for number in each]
        chosen = join(used, episodes.subject)
        yield issue(chosen, settings, options=options, training=training, fit=fit)


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


def shared_fits() -> "Callable[..., FittedPredictor]":
    """What `issue` fits with, for several certificates of one policy; no fit is made twice."""
    from tightrope import posteriors
    from tightrope.certificates.fitting import fit_predictor

    return partial(
        fit_predictor,
        regress=remembered(posteriors.regress),
        fit_posterior=remembered(posteriors.fit_posterior),
    )


def remembered(function: Callable[..., Any]) -> Callable[..., Any]:
    """The same pure function, which computes nothing twice, by the content of its arguments.

    Callables among its options, such as progress, do not count.
    """
    known: dict[bytes, Any] = {}

    def call(*arguments: Any, **options: Any) -> Any:
        content = [(name, options[name]) for name in sorted(options)]
        key = _digest((arguments, [pair for pair in content if not callable(pair[1])]))
        if key not in known:
            known[key] = function(*arguments, **options)
        return known[key]

    return call


def _digest(value: Any) -> bytes:
    """Digest of a number, text or array, or of a dataclass, list or tuple of them."""
    if isinstance(value, np.ndarray):
        parts = [f"{value.dtype}{value.shape}".encode(), value.tobytes()]
    elif dataclasses.is_dataclass(value):
        names = [field.name for field in dataclasses.fields(value)]
        parts = [_digest((name, getattr(value, name))) for name in names]
    elif isinstance(value, list | tuple):
        parts = [_digest(each) for each in value]
    elif value is None or isinstance(value, bool | int | float | str):
        parts = [repr(value).encode()]
    else:
        raise TypeError(f"expected a number, text, array, dataclass or list, found {value!r}")
    return blake2b(b"".join([type(value).__qualname__.encode(), *parts])).digest()
