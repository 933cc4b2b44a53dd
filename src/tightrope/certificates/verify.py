"""Verify a certificate: recompute every number from the episodes and what was fitted."""

import math
import re
from collections.abc import Iterator
from dataclasses import fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from tightrope.certificates.certificate import Certificate, FitRecord
from tightrope.certificates.diagnostics import LEVEL
from tightrope.certificates.document import to_document
from tightrope.certificates.folder import DOCUMENT, digest_problems, load_certificate, read_document
from tightrope.certificates.properties import Property, measure_properties, properties_of
from tightrope.certificates.recompute import choices, recompute
from tightrope.certificates.settings import Settings, settle
from tightrope.certificates.split import Split, split_episodes
from tightrope.certificates.statements.base import OUTWARD
from tightrope.errors import InputError, one_line
from tightrope.posteriors import Gaussians, Scaling, kl_divergence

if TYPE_CHECKING:
    from tightrope.posteriors import Ensemble

__all__ = ["verify"]

# Of recomputed numbers. Sums in another order (threads, another processor) move predictions by
# about 1e-7 at the most; the document's own digest catches smaller changes.
_RELATIVE, _ABSOLUTE = 1e-5, 1e-12
# Means of draws and differences of losses move as far as losses do, however small they are
# themselves. Measured between instruction sets: up to 3e-8. No limit is among them.
_LOSSES = re.compile(r"(other_)?portions\[\d+\]\.(mean|mean_plus|mean_minus)$|tightness$")
_MOVED = 3e-7
# Limits were rounded outward by OUTWARD when issued. What is stated is never better than the limit
# before that rounding, which leaves it to other processors, and worse by 3 OUTWARD at the most.
_LIMITS = ("value", "value_raw", "rms_raw")
_LIMIT = re.compile(rf"(statements\[\d+\]\.({'|'.join(_LIMITS)})|bound|bound_raw|rms_raw)$")
# Of a p-value, which is a count of permutations: rounding may move a few of 200 past a near tie.
# Whether it is a warning must agree.
_COUNTED = 0.05
_PREDICTED = ("mean-risk", "band", "monitor")
_NOT_RECOMPUTED = ("fits", "digests")  # checked on their own
_EXACT = (
    *("options", "settings", "return_range", "ledger", "subject"),
    *("confidence", "joint_confidence", "delta", "delta_prime"),
)
_EXACTLY = re.compile(r"statements\[\d+\]\.(confidence|joint_confidence)$")
_SHARES = re.compile(r"(statements\[\d+\]\.share|clipped_share)$")
# Between the first prior and the same regression repeated here in float64. Measured: at most 1e-11
# between instruction sets, threads and numbers of members. A forger who uses all of it lowers a
# KL of K nats by no more than 0.002 sqrt(K).
_PRIOR_NATS = 1e-6


def verify(folder: str | Path, *, properties: dict[str, Any] | None = None) -> list[str]:
    """What does not agree, in words; an empty list if everything does.

    A page beside the certificate is not looked at: it only shows what is verified here.

    Args:
        folder: of the certificate.
        properties: functions of its properties, by name; without them their recorded numbers are
            taken as they are, and only the limits are recomputed.

    Raises:
        InputError: there is no certificate to verify.
    """
    folder = Path(folder)
    if not folder.is_dir():
        raise InputError(f"expected the folder of a certificate, found {str(folder)!r}")
    if not (folder / DOCUMENT).is_file():
        raise InputError(f"expected a certificate at {str(folder / DOCUMENT)!r}, found none")
    try:
        record, problems = read_document(folder)
        stated = load_certificate(folder, verify=False)
    except InputError as error:
        return [str(error)]
    problems = [*problems, *digest_problems(folder, record)]
    try:
        problems += _property_problems(stated, properties_of(properties))
        if stated.fitted is None:
            again = _table_again(stated)
        else:
            found, again = _fitted_again(stated)
            problems += found
    except Exception as error:  # what a hostile document can make of any of these steps
        return [*problems, f"recomputation failed: {one_line(error)}"]
    documents = to_document(record), to_document(again)
    return [*problems, *_limit_problems(*documents), *_compare("", *documents)]


def _fitted_again(stated: Certificate) -> tuple[list[str], Certificate]:
    """What is wrong with a fit and its settings, and the certificate that follows from it."""
    from tightrope.certificates.fitting import FittedPredictor, regress_fitting_set

    problems = [*_settings_problems(stated)]
    scaling = stated.predictor.scaling
    training = scaling if scaling.source == "training" else None
    split = split_episodes(stated.rollouts, stated.settings, training)
    problems += _scaling_problems(scaling, split.scaling)
    # A regression on calibration-free episodes is not repeated; see docs/formats.md.
    exact = stated.settings.scheme.reproducible_prior
    ensemble = regress_fitting_set(split) if exact else None
    problems += _prior_problems(stated.posteriors, split, ensemble)
    problems += _fit_problems(stated.fits, split)
    left_out = None if ensemble is None else ensemble.left_out
    fitted = FittedPredictor(stated.predictor, stated.posteriors, left_out, stated.fits)
    chosen = {**choices(split, fitted)}
    if _regressed(split) and not exact:  # what left-out predictions chose is taken as it is stored
        chosen |= {s.name: s.chosen for s in stated.statements if s.kind in _PREDICTED}
    return problems, recompute(split, fitted, chosen, options=stated.options)


def _table_again(stated: Certificate) -> Certificate:
    """The certificate of the rows of a table of results."""
    seeded = stated.options.seeded(stated.settings.seed)
    settings = settle(seeded, stated.rollouts, properties=stated.settings.properties)
    split = split_episodes(stated.rollouts, settings)
    return recompute(split, None, options=stated.options)


def _settings_problems(stated: Certificate) -> Iterator[str]:
    """Whether the settings are what the options ask for, of these episodes."""
    settings, options = stated.settings, stated.options
    if settings.episodes != len(stated.rollouts):
        yield f"settings: {settings.episodes} episodes, found {len(stated.rollouts)} recorded"
    known: dict[str, Any] = {"seed": settings.seed, "test_episodes": settings.test}
    if settings.scheme.fixed:
        known["fit_episodes"] = settings.fit
    else:
        known["pilot_episodes"] = settings.pilot
    if settings.until is None:
        known["episodes"] = settings.validation
    preset = "paper" if options.paper else options.preset
    done = {**known, "device": settings.device, "preset": settings.preset.name}
    for name, value in done.items():
        asked = preset if name == "preset" else getattr(options, name)
        if asked not in ("auto", "fresh", value):
            yield f"settings: {value} where options ask for `{name}` {asked}"
    scaling = stated.predictor.scaling
    again = settle(
        replace(options, **known, device="cpu"),
        stated.rollouts,
        properties=settings.properties,
        preset=settings.preset,  # may be of the issuer's own
        training=scaling if scaling.source == "training" else None,
        rolled_out=settings.until is not None,
    )
    for entry in fields(Settings):
        one, other = getattr(settings, entry.name), getattr(again, entry.name)
        if entry.name != "device" and one != other:
            yield f"settings.{entry.name}: stated {one!r}, the options give {other!r}"


def _property_problems(stated: Certificate, given: tuple[Property, ...]) -> Iterator[str]:
    """Whether recorded properties are those that the functions give."""
    known = {each.name for each in stated.settings.properties}
    for one in given:
        if one.name not in known:
            yield f"property {one.name!r}: the certificate has none of this name"
            continue
        again = measure_properties(stated.rollouts, (one,)).properties[one.name]
        wrong = np.flatnonzero(again != stated.rollouts.properties[one.name])
        if len(wrong):
            yield (
                f"property {one.name!r}: {len(wrong)} recorded numbers are not the function's, the "
                f"first in episode {wrong[0]}"
            )


def _scaling_problems(stored: Scaling, recomputed: Scaling) -> Iterator[str]:
    for name in ("low", "high", "source", "clock"):
        found, again = getattr(stored, name), getattr(recomputed, name)
        if found != again:
            yield f"predictor.safetensors: {name} is {found}, the episodes give {again}"
    for name in ("mean", "deviation"):
        difference = abs(getattr(stored, name) - getattr(recomputed, name)).max()
        if not difference <= 1e-6 * (1 + abs(getattr(recomputed, name)).max()):
            yield f"predictor.safetensors: observation {name} differs from the fitting set's"


def _regressed(split: Split) -> bool:
    """Whether the predictor or its prior comes from a regression on the fitting set."""
    return split.settings.preset.regression is not None and split.fit is not None


def _fit_problems(fits: tuple[FitRecord, ...], split: Split) -> Iterator[str]:
    """What can be told of the fits' records without fitting again."""
    from tightrope.certificates.fitting import posterior_steps

    rows = len(split.fit_rows) if _regressed(split) and split.fit_rows is not None else 0
    expected = [("regression", rows)] if rows else []
    expected += [("posterior", step.stop - step.start) for step in posterior_steps(split)]
    kinds = [kind for kind, _ in expected]
    if [fit.kind for fit in fits] != kinds:
        yield f"fits: {', '.join(fit.kind for fit in fits)} stated, expected {', '.join(kinds)}"
        return
    for index, (fit, (_, count)) in enumerate(zip(fits, expected, strict=True)):
        if fit.rows != count:
            yield f"fits[{index}].rows: stated {fit.rows}, recomputed {count}"


def _prior_problems(
    posteriors: tuple[Gaussians, ...], split: Split, ensemble: "Ensemble | None"
) -> Iterator[str]:
    """What is known beforehand of a chain: its length, and its first prior."""
    from tightrope.certificates.fitting import first_prior, posterior_steps

    count, found = len(posterior_steps(split)), max(len(posteriors) - 1, 0)
    if found != count:
        scheme = split.settings.scheme.name
        yield f"predictor.safetensors: {found} posteriors, {scheme} has {count}"
    if not posteriors or (ensemble is None and _regressed(split)):
        return  # such a prior was fitted to the first portion, too
    first, again = posteriors[0], first_prior(split, ensemble)
    if not all(map(np.array_equal, first.log_variances, again.log_variances)):
        preset = split.settings.preset.name
        yield f"predictor.safetensors: the first prior has not the variances of {preset}"
    if ensemble is not None:
        moved = Gaussians(first.means, again.log_variances, first.layer_norm)
        same = kl_divergence(moved, again) <= _PRIOR_NATS
    else:  # drawn from the seed, without any arithmetic that could differ
        same = all(map(np.array_equal, first.means, again.means))
    if not same:
        yield "predictor.safetensors: the first prior's means do not follow from seed and pilot"


def _limit_problems(stated: dict[str, Any], again: dict[str, Any]) -> Iterator[str]:
    """Limits that are better than recomputed, or worse than their rounding explains."""
    ends = again["return_range"] or {"low": 0.0, "high": 1.0}
    width = ends["high"] - ends["low"]
    limits = [("bound", stated["bound"], again["bound"], 1.0, again["bound"] or 0.0)]
    pairs = zip(stated["statements"], again["statements"], strict=False)
    for index, (one, other) in enumerate(pairs):
        sign = 1.0 if other["direction"] == "at-most" else -1.0
        for key in _LIMITS:
            size = other[key] or 0.0
            if other["kind"] == "return" and key == "value":  # its zero is the low end of the range
                size = other["value_raw"] / width
            if other["kind"] == "mean-risk" and key == "rms_raw":  # a root
                size /= 2
            limits.append((f"statements[{index}].{key}", one[key], other[key], sign, size))
    for path, one, other, sign, size in limits:
        found = f"{path}: stated {one!r}, recomputed {other!r}"
        if one is None or other is None:
            if one is not other:
                yield found
            continue
        excess = sign * (one - other) / OUTWARD
        if excess < -abs(size) * (1 - 1e-4):
            yield f"{found}: better than the episodes give"
        elif not excess <= 2 * abs(size):
            yield found


def _compare(path: str, stated: Any, recomputed: Any) -> Iterator[str]:
    if path in _NOT_RECOMPUTED or _LIMIT.match(path):
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
    elif path == "checks.dependence" and _same_warning(stated, recomputed):
        if abs(stated - recomputed) > _COUNTED:
            yield f"{path}: stated {stated!r}, recomputed {recomputed!r}"
    elif not _agree(path, stated, recomputed):
        yield f"{path}: stated {stated!r}, recomputed {recomputed!r}"


def _same_warning(stated: Any, recomputed: Any) -> bool:
    """Whether two p-values warn alike; a table has none."""
    known = stated is not None and recomputed is not None
    return known and bool((stated <= LEVEL) == (recomputed <= LEVEL))


def _agree(path: str, stated: Any, recomputed: Any) -> bool:
    exactly = path.split(".")[0].split("[")[0] in _EXACT or _EXACTLY.match(path)
    if exactly or not (isinstance(stated, float) and isinstance(recomputed, float)):
        return type(stated) is type(recomputed) and bool(stated == recomputed)
    if _SHARES.match(path):
        return abs(stated - recomputed) <= 1e-9
    absolute = _MOVED if _LOSSES.match(path) else _ABSOLUTE
    return math.isclose(stated, recomputed, rel_tol=_RELATIVE, abs_tol=absolute)
