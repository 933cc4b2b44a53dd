"""Verify a certificate: recompute every number of it from the episodes and posteriors beside it."""

import math
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch

from tightrope.certificates.assess import assess, links
from tightrope.certificates.certificate import (
    FILES,
    Fit,
    as_text,
    document_digest,
    read,
    stated_fits,
    stated_options,
)
from tightrope.certificates.data import Data, prepare
from tightrope.certificates.issue import record
from tightrope.certificates.options import Options
from tightrope.errors import InputError
from tightrope.files import sha256
from tightrope.posteriors import (
    Chain,
    Gaussians,
    Link,
    Scaling,
    initial_prior,
    kl_divergence,
    settled,
)

__all__ = ["verify"]

# Of recomputed numbers. Sums in another order (threads, another processor) move float32
# predictions by about 1e-7; the document's own digest catches smaller changes.
_RELATIVE, _ABSOLUTE = 1e-5, 1e-9
_NOT_RECOMPUTED = ("fits", "digests")
# What is derived from float32 predictions or long sums; everything else must agree exactly.
_DERIVED = re.compile(
    r"(bound|bound_raw|rms_raw|effective_n|(train|test|constant)_error|tightness)$"
    r"|(other_unit\.)?portions\[\d+\]\.(kl|mean|mean_plus|mean_minus|upper_plus|lower_minus|value|bound)$"
    r"|other_unit\.(bound|rms_raw)$|companions\[\d+\]\.(bound|estimate)$"
)
# Between the first prior and the same fit to the pilot repeated here. Measured: at most 2e-16
# between instruction sets, threads and numbers of members. A forger who uses all of it lowers a
# KL of K nats by no more than 0.002 sqrt(K).
_PRIOR_NATS = 1e-6


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
        path, stated = folder / file, document["digests"].get(name)
        found = sha256(path) if path.is_file() else None
        if found != stated:
            problems.append(f"{file}: digest is {found}, the certificate states {stated}")
    if (folder / "certificate.json").read_text() != as_text(document):
        problems.append("certificate.json: its text is not as tightrope writes it")
    digest = document_digest(document)
    if digest != document["digests"].get("certificate"):
        problems.append("certificate.json: its digest does not match its contents")
    try:
        options = stated_options(document)
        scaling = chain.scaling if chain.scaling.source == "training" else None
        data = prepare(episodes, options, scaling)
        if scaling is None:
            problems += _scaling_problems(chain.scaling, data.scaling)
        problems += _chain_problems(chain, data, options)
        fits = stated_fits(document)
        problems += _fit_problems(fits, links(data, options))
        again = record(assess(chain, data, options), chain, data, options, fits)
    except (ValueError, LookupError, TypeError, RuntimeError, MemoryError) as error:
        return [*problems, f"recomputation failed: {' '.join(str(error).split())}"]
    return [*problems, *_compare("", document, again.to_json())]


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


def _fit_problems(fits: tuple[Fit, ...], plan: list[Link]) -> Iterator[str]:
    """What follows of the fits' records without fitting again."""
    for index, (fit, link) in enumerate(zip(fits, plan, strict=True)):
        if fit.rows != link.stop - link.start:
            yield f"fits[{index}].rows: stated {fit.rows}, recomputed {link.stop - link.start}"
        if fit.converged != settled(fit.objective):
            yield f"fits[{index}].converged: stated {fit.converged}, the curve says otherwise"


def _chain_problems(chain: Chain, data: Data, options: Options) -> Iterator[str]:
    """What is known beforehand of a chain: its length, and its first prior."""
    count = len(links(data, options))
    if len(chain.gaussians) != count + 1:
        found = len(chain.gaussians) - 1
        yield f"predictor.safetensors: {found} posteriors, {options.scheme} has {count}"
    first = chain.gaussians[0]
    again = initial_prior(options.recipe, first.features, data.pilot, [options.seed])
    pairs = zip(first.log_variances, again.log_variances, strict=True)
    if not all(torch.equal(stored, recomputed) for stored, recomputed in pairs):
        yield f"predictor.safetensors: the first prior has not the variances of {options.preset}"
    if data.pilot is not None and options.recipe.pilot_steps:
        same = bool(
            kl_divergence(Gaussians(first.means, again.log_variances), again)[0] <= _PRIOR_NATS
        )
    else:  # drawn from the seed, without any arithmetic that could differ
        same = all(torch.equal(s, r) for s, r in zip(first.means, again.means, strict=True))
    if not same:
        yield "predictor.safetensors: the first prior's means do not follow from seed and pilot"


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
    elif not _agree(stated, recomputed, exactly=_DERIVED.match(path) is None):
        yield f"{path}: stated {stated!r}, recomputed {recomputed!r}"


def _agree(stated: Any, recomputed: Any, *, exactly: bool) -> bool:
    if exactly or not (isinstance(stated, float) and isinstance(recomputed, float)):
        return type(stated) is type(recomputed) and bool(stated == recomputed)
    return math.isclose(stated, recomputed, rel_tol=_RELATIVE, abs_tol=_ABSOLUTE)
