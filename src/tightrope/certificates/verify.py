"""Verify a certificate: recompute every number of it from the episodes and what was fitted."""

import math
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch

from tightrope.certificates.assess import assess, ledger_of
from tightrope.certificates.beforehand import Beforehand, plan_beforehand
from tightrope.certificates.certificate import Fit
from tightrope.certificates.checks import LEVEL
from tightrope.certificates.commitment import commitment_problems, held_digest
from tightrope.certificates.data import Data, View, prepare, view
from tightrope.certificates.document import fields_of, to_document
from tightrope.certificates.folder import DOCUMENT, digest_problems, read
from tightrope.certificates.issue import Fitted, first_regression, record
from tightrope.certificates.links import links
from tightrope.certificates.options import Options
from tightrope.certificates.signing import signature_problems
from tightrope.errors import InputError, one_line
from tightrope.posteriors import (
    PRESETS,
    Chain,
    Gaussians,
    Link,
    Regressed,
    Scaling,
    informed_prior,
    kl_divergence,
    random_prior,
    settled,
)
from tightrope.rollouts import Episodes
from tightrope.rollouts.collect import episode_seeds

__all__ = ["verify"]

# Of recomputed numbers. Sums in another order (threads, another processor) move float32
# predictions by about 1e-7; the document's own digest catches smaller changes.
_RELATIVE, _ABSOLUTE = 1e-5, 1e-9
# Differences of losses cancel: however small, they move as far as the losses themselves, which are
# at most 1. Measured between instruction sets: up to 3e-8. No bound is among them.
_DIFFERENCES = re.compile(r"(other_)?portions\[\d+\]\.(mean|mean_plus|mean_minus)$|tightness$")
_CANCELLED = 3e-7
# Of a p-value, which is a count of permutations: rounding may move a few of 200 past a near tie.
# Whether it is a warning must agree.
_COUNTED = 0.05
_NOT_RECOMPUTED = ("fits", "digests")  # checked on their own
_EXACT = ("options", "return_range", "ledger", "subject", "confidence", "delta", "delta_prime")
# Between the first prior and the same regression repeated here in float64. Measured: at most 1e-11
# between instruction sets, threads and numbers of members. A forger who uses all of it lowers a
# KL of K nats by no more than 0.002 sqrt(K).
_PRIOR_NATS = 1e-6


def verify(
    folder: str | Path, *, commitment: str | None = None, key: str | Path | None = None
) -> list[str]:
    """What does not agree, in words; an empty list if everything does.

    A page beside the certificate is not looked at: it only shows what is verified here.

    Args:
        folder: of the certificate.
        commitment: the digest that was held before the episodes existed, or the file of the
            commitment; a certificate that states one is held to it in any case.
        key: public Ed25519 key, a PEM file, of whoever must have signed the certificate.

    Raises:
        InputError: there is no certificate to verify, or no such key or commitment.
    """
    folder = Path(folder)
    if not folder.is_dir():
        raise InputError(f"expected the folder of a certificate, found {str(folder)!r}")
    held = None if commitment is None else held_digest(commitment)
    signed = [] if key is None else signature_problems(folder, key)
    try:
        document, chain, episodes = read(folder)
    except InputError as error:
        if not (folder / DOCUMENT).is_file():
            raise
        return [*signed, str(error)]
    problems = [*signed, *digest_problems(folder, document)]
    try:
        stated = fields_of(document)
        options: Options = stated["options"]
        if not isinstance(options.seed, int):
            raise InputError(f"expected a seed that was settled, found {options.seed!r}")
        problems += commitment_problems(episodes.subject, options, held)
        problems += _seed_problems(episodes)
        training = chain.scaling if chain.scaling.source == "training" else None
        data = prepare(episodes, options, training)
        seen = view(data, options)
        problems += _scaling_problems(chain.scaling, seen.scaling)
        # A regression on the first portion, which is free, is not repeated; see docs/formats.md.
        exact = options.division.exact
        regressed = first_regression(data, seen, options, options.seed) if exact else None
        problems += _chain_problems(chain, data, seen, options, regressed)
        problems += _fit_problems(
            stated["fits"], links(data, options), _regressed_rows(seen, options)
        )
        beforehand: Beforehand = stated["beforehand"]
        if exact or not _regressed_rows(seen, options):
            beforehand = plan_beforehand(regressed, data, seen, options, ledger_of(data, options))
        fitted = Fitted(chain, stated["fits"], beforehand)
        found = assess(chain, data, seen, options, fitted.beforehand)
        again = to_document(record(found, fitted, data, seen, options))
    except Exception as error:  # what a hostile document can make of any of these steps
        return [*problems, f"recomputation failed: {one_line(error)}"]
    return [*problems, *_compare("", document, again)]


def _seed_problems(episodes: Episodes) -> Iterator[str]:
    """Episodes that were committed to are the first ones of their seed, not chosen among more."""
    seed = episodes.subject.get("seed")
    if "commitment" not in episodes.subject or not isinstance(seed, int):
        return
    if episodes.seeds.tolist() != episode_seeds(seed, len(episodes)):
        yield f"rollouts.safetensors: its episodes are not those that follow from the seed {seed}"


def _scaling_problems(stored: Scaling, recomputed: Scaling) -> Iterator[str]:
    if (stored.low, stored.high, stored.source) != (
        recomputed.low,
        recomputed.high,
        recomputed.source,
    ):
        yield (
            f"predictor.safetensors: range [{stored.low}, {stored.high}], but the "
            f"{recomputed.source} gives [{recomputed.low}, {recomputed.high}]"
        )
    if stored.clock != recomputed.clock:
        yield (
            f"predictor.safetensors: {stored.clock or 'no clock'}, the episodes give "
            f"{recomputed.clock or 'none'}"
        )
    for name in ("mean", "deviation"):
        difference = abs(getattr(stored, name) - getattr(recomputed, name)).max()
        if not difference <= 1e-6 * (1 + abs(getattr(recomputed, name)).max()):
            yield f"predictor.safetensors: observation {name} differs from the free episodes'"


def _regressed_rows(seen: View, options: Options) -> int:
    """Rows that a regression on free data sees; 0 if there is none."""
    if PRESETS[options.preset].regression is None or seen.free is None:
        return 0
    return len(seen.free)


def _fit_problems(fits: tuple[Fit, ...], plan: list[Link], regressed: int) -> Iterator[str]:
    """What follows of the fits' records without fitting again."""
    expected = [("regression", regressed)] if regressed else []
    expected += [("posterior", link.stop - link.start) for link in plan]
    kinds = [kind for kind, _ in expected]
    if [fit.kind for fit in fits] != kinds:
        yield f"fits: {', '.join(fit.kind for fit in fits)} stated, expected {', '.join(kinds)}"
        return
    for index, (fit, (kind, rows)) in enumerate(zip(fits, expected, strict=True)):
        if fit.rows != rows:
            yield f"fits[{index}].rows: stated {fit.rows}, recomputed {rows}"
        if kind == "posterior" and (not fit.objective or fit.converged != settled(fit.objective)):
            yield f"fits[{index}].converged: stated {fit.converged}, the curve says otherwise"


def _chain_problems(
    chain: Chain, data: Data, seen: View, options: Options, regressed: Regressed | None
) -> Iterator[str]:
    """What is known beforehand of a chain: its length, and its first prior."""
    count, found = len(links(data, options)), max(len(chain.gaussians) - 1, 0)
    if found != count:
        yield f"predictor.safetensors: {found} posteriors, {options.scheme} has {count}"
    if not chain.gaussians:
        return
    preset = PRESETS[options.preset]
    first = chain.gaussians[0]
    assert isinstance(options.seed, int)
    if regressed is None and _regressed_rows(seen, options):
        return  # this prior was fitted to the first portion, too
    if regressed is not None:
        again = informed_prior(preset, [regressed.single])
    else:
        again = random_prior(preset, seen.scaling.features, [options.seed])
    pairs = zip(first.log_variances, again.log_variances, strict=True)
    if not all(torch.equal(stored, recomputed) for stored, recomputed in pairs):
        yield f"predictor.safetensors: the first prior has not the variances of {options.preset}"
    if regressed is not None:
        moved = Gaussians(first.means, again.log_variances)
        same = bool(kl_divergence(moved, again)[0] <= _PRIOR_NATS)
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
    elif path == "checks.dependence" and (stated <= LEVEL) == (recomputed <= LEVEL):
        if abs(stated - recomputed) > _COUNTED:
            yield f"{path}: stated {stated!r}, recomputed {recomputed!r}"
    elif not _agree(
        stated,
        recomputed,
        exactly=path.split(".")[0].split("[")[0] in _EXACT,
        absolute=_CANCELLED if _DIFFERENCES.match(path) else _ABSOLUTE,
    ):
        yield f"{path}: stated {stated!r}, recomputed {recomputed!r}"


def _agree(stated: Any, recomputed: Any, *, exactly: bool, absolute: float) -> bool:
    if exactly or not (isinstance(stated, float) and isinstance(recomputed, float)):
        return type(stated) is type(recomputed) and bool(stated == recomputed)
    return math.isclose(stated, recomputed, rel_tol=_RELATIVE, abs_tol=absolute)
