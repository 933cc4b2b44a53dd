"""Verify a certificate: recompute every number of it from the episodes and posteriors beside it."""

import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tightrope.certificates.assess import assess
from tightrope.certificates.certificate import (
    FILES,
    Certificate,
    Fit,
    document_digest,
    read,
)
from tightrope.certificates.data import prepare
from tightrope.certificates.issue import record
from tightrope.certificates.options import Options
from tightrope.errors import InputError
from tightrope.files import sha256
from tightrope.posteriors import Scaling

__all__ = ["verify"]

# Of recomputed numbers. Sums in another order (threads, another processor) move float32
# predictions by about 1e-7; the document's own digest catches smaller changes.
_RELATIVE, _ABSOLUTE = 1e-5, 1e-9
_NOT_RECOMPUTED = ("fits", "digests", "subject.versions")


def verify(folder: str | Path) -> list[str]:
    """What does not agree, in words; an empty list if everything does.

    Raises:
        InputError: there is no certificate to verify, or a file of it cannot be read.
    """
    folder = Path(folder)
    if not folder.is_dir():
        raise InputError(f"expected the folder of a certificate, found {str(folder)!r}")
    problems = []
    try:
        document, chain, episodes = read(folder)
    except InputError as error:
        if not (folder / "certificate.json").is_file():
            raise
        return [str(error)]
    for name, file in FILES.items():
        found, stated = sha256(folder / file), document["digests"].get(name)
        if found != stated:
            problems.append(f"{file}: digest is {found}, the certificate states {stated}")
    digest = document_digest(document)
    if digest != document["digests"].get("certificate"):
        problems.append("certificate.json: its digest does not match its contents")
    try:
        options = _options(document)
        scaling = chain.scaling if chain.scaling.source == "training" else None
        data = prepare(episodes, options, scaling)
        if scaling is None:
            problems += _scaling_problems(chain.scaling, data.scaling)
        fits = tuple(Fit(**fit) for fit in document["fits"])
        again = record(assess(chain, data, options), chain, data, options, fits)
    except (InputError, ValueError, IndexError, KeyError, TypeError) as error:
        return [*problems, f"recomputation failed: {' '.join(str(error).split())}"]
    problems += _differences(document, again)
    return problems


def _options(document: dict[str, Any]) -> Options:
    stated = document["return_range"]
    names = [name for name in Options.__dataclass_fields__ if name in document]
    given = {name: document[name] for name in names}
    counts = document["episodes"]
    return Options(
        **{
            **given,
            "return_range": (stated["low"], stated["high"]) if stated["source"] == "user" else None,
            "thin": document["thin"],
            "pilot_episodes": counts["pilot"],
            "episodes": counts["validation"],
            "test_episodes": counts["test"],
        }
    )


def _scaling_problems(stored: Scaling, recomputed: Scaling) -> Iterator[str]:
    if (stored.low, stored.high) != (recomputed.low, recomputed.high):
        yield (
            f"predictor.safetensors: range [{stored.low}, {stored.high}], but the "
            f"{recomputed.source} gives [{recomputed.low}, {recomputed.high}]"
        )
    for name in ("mean", "deviation"):
        difference = abs(getattr(stored, name) - getattr(recomputed, name)).max()
        if not difference <= 1e-6 * (1 + abs(getattr(recomputed, name)).max()):
            yield f"predictor.safetensors: observation {name} differs from the pilot's"


def _differences(stated: dict[str, Any], again: Certificate) -> Iterator[str]:
    recomputed = again.to_json()
    yield from _compare("", stated, recomputed)


def _compare(path: str, stated: Any, recomputed: Any) -> Iterator[str]:
    if path in _NOT_RECOMPUTED:
        return
    if isinstance(stated, dict) and isinstance(recomputed, dict):
        for key in sorted({*stated, *recomputed}):
            where = f"{path}.{key}" if path else key
            if key not in stated or key not in recomputed:
                yield f"{where}: {'missing' if key not in stated else 'not part of a certificate'}"
            else:
                yield from _compare(where, stated[key], recomputed[key])
    elif isinstance(stated, list) and isinstance(recomputed, list):
        if len(stated) != len(recomputed):
            yield f"{path}: {len(stated)} entries stated, {len(recomputed)} recomputed"
        for index, (left, right) in enumerate(zip(stated, recomputed, strict=False)):
            yield from _compare(f"{path}[{index}]", left, right)
    elif not _agree(stated, recomputed):
        yield f"{path}: stated {stated!r}, recomputed {recomputed!r}"


def _agree(stated: Any, recomputed: Any) -> bool:
    numbers = isinstance(stated, int | float) and isinstance(recomputed, int | float)
    if not numbers or isinstance(stated, bool) or isinstance(recomputed, bool):
        return type(stated) is type(recomputed) and bool(stated == recomputed)
    return math.isclose(stated, recomputed, rel_tol=_RELATIVE, abs_tol=_ABSOLUTE)
