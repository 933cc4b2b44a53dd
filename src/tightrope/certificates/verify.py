"""Verify a certificate: recompute every number from the episodes and what was fitted."""

import math
import re
from collections.abc import Iterator
from dataclasses import fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from tightrope.certificates.certificate import Certificate, FitRecord, Record
from tightrope.certificates.diagnostics import LEVEL
from tightrope.certificates.document import to_document
from tightrope.certificates.folder import DOCUMENT, digest_problems, load_certificate, read_document
from tightrope.certificates.options import Options
from tightrope.certificates.properties import Property, measure_properties, properties_of
from tightrope.certificates.recompute import choices, recompute
from tightrope.certificates.settings import Settings, settle
from tightrope.certificates.split import Split, split_episodes
from tightrope.certificates.statements import Choices
from tightrope.certificates.statements.base import OUTWARD
from tightrope.certificates.table_certificate import certify_table
from tightrope.errors import InputError, one_line
from tightrope.posteriors import Gaussians, Scaling, kl_divergence

if TYPE_CHECKING:
    from tightrope.posteriors import Ensemble

__all__ = ["verify"]

# Of recomputed numbers. Sums in another order (threads, another processor) move predictions by
# about 1e-7 at the most; the document's own digest catches smaller changes.
_RELATIVE, _ABSOLUTE = 1e-5, 1e-9
# Differences of losses cancel: however small, they move as far as the losses themselves, which are
# at most 1. Measured between instruction sets: up to 3e-8. No bound is among them.
_DIFFERENCES = re.compile(r"(other_)?portions\[\d+\]\.(mean|mean_plus|mean_minus)$|tightness$")
_CANCELLED = 3e-7
# Limits were rounded outward by OUTWARD when issued: what is stated is never better than what is
# recomputed, and at most this much worse.
_LIMITS = re.compile(r"bound(_raw)?$|rms_raw$|statements\[\d+\]\.(value|value_raw|rms_raw)$")
_WORSE = 3 * OUTWARD
# Of a p-value, which is a count of permutations: rounding may move a few of 200 past a near tie.
# Whether it is a warning must agree.
_COUNTED = 0.05
_NOT_RECOMPUTED = ("fits", "digests")  # checked on their own
_EXACT = (
    *("options", "settings", "return_range", "ledger", "subject"),
    *("confidence", "joint_confidence", "delta", "delta_prime"),
)
_SHARES = re.compile(r"statements\[\d+\]\.(share|confidence|joint_confidence)$")
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
            return [*problems, *_table_problems(stated, record)]
        problems += _settings_problems(stated)
        scaling = stated.predictor.scaling
        training = scaling if scaling.source == "training" else None
        split = split_episodes(stated.rollouts, stated.settings, training)
        problems += _scaling_problems(scaling, split.scaling)
        from tightrope.certificates.fitting import FittedPredictor, regress_fitting_set

        # A regression on calibration-free episodes is not repeated; see docs/formats.md.
        exact = stated.settings.scheme.reproducible_prior
        ensemble = regress_fitting_set(split) if exact else None
        problems += _prior_problems(stated.posteriors, split, ensemble)
        problems += _fit_problems(stated.fits, split)
        left_out = None if ensemble is None else ensemble.left_out
        fitted = FittedPredictor(stated.predictor, stated.posteriors, left_out, stated.fits)
        reproducible = exact or not _regressed(split)
        chosen = choices(split, fitted) if reproducible else _stored_choices(stated)
        again = recompute(split, fitted, chosen, options=stated.options)
    except Exception as error:  # what a hostile document can make of any of these steps
        return [*problems, f"recomputation failed: {one_line(error)}"]
    return [*problems, *_compare("", to_document(record), to_document(again))]


def _table_problems(stated: Certificate, record: Record) -> Iterator[str]:
    """What does not follow from the rows of a table of results."""
    properties = tuple(
        Property(None, "at-most" if p.at_most else "at-least", p.limit, p.name)
        for p in stated.settings.properties
    )
    seeded = stated.options.seeded(stated.settings.seed)
    settings = settle(seeded, stated.rollouts, properties=properties)
    again = certify_table(stated.rollouts, settings, options=stated.options)
    yield from _compare("", to_document(record), to_document(again))


def _settings_problems(stated: Certificate) -> Iterator[str]:
    """Whether the settings are what the options ask for."""
    settings, options = stated.settings, stated.options
    if settings.episodes != len(stated.rollouts):
        yield f"settings: {settings.episodes} episodes, found {len(stated.rollouts)} recorded"
    counts: dict[str, Any] = {"seed": settings.seed, "device": settings.device}
    counts["device"] = "cpu" if options.device == "auto" else options.device
    if settings.until is None and not options.paper:
        counts["episodes"] = settings.validation
    counts["test_episodes"] = settings.test
    counts |= (
        {"fit_episodes": settings.fit}
        if settings.scheme.fixed
        else {"pilot_episodes": settings.pilot}
    )
    for name in ("episodes", "test_episodes", "fit_episodes", "pilot_episodes", "seed"):
        asked = getattr(options, name)
        if name in counts and asked not in ("auto", "fresh", counts[name]):
            yield f"settings: {counts[name]} where options ask for `{name}` {asked}"
    again = _settled(replace(options, **counts), stated)
    for entry in fields(Settings):
        name = entry.name
        if name in ("preset", "device", "validation", "pilot", "test", "fit"):
            continue  # a preset may be of the issuer's own; counts were compared above
        if getattr(again, name) != getattr(settings, name):
            yield (
                f"settings.{name}: stated {getattr(settings, name)!r}, the options give "
                f"{getattr(again, name)!r}"
            )


def _settled(options: Options, stated: Certificate) -> Settings:
    """What the options come to for these episodes."""
    properties = tuple(
        Property(None, "at-most" if p.at_most else "at-least", p.limit, p.name)
        for p in stated.settings.properties
    )
    scaling, preset = stated.predictor.scaling, stated.settings.preset
    training = scaling if scaling.source == "training" else None
    searched = stated.settings.until is not None
    asked = replace(options, until="off", max_episodes=500) if searched else options
    again = settle(asked, stated.rollouts, properties=properties, preset=preset, training=training)
    if not searched:
        return again
    return replace(
        again,
        scheme=stated.settings.scheme,
        until=stated.settings.until,
        max_episodes=options.max_episodes,
    )


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
            yield f"predictor.safetensors: observation {name} differs from the fitting set's"


def _regressed(split: Split) -> bool:
    """Whether the predictor or its prior comes from a regression on the fitting set."""
    return split.settings.preset.regression is not None and split.fit is not None


def _stored_choices(stated: Certificate) -> Choices:
    return {statement.name: statement.chosen for statement in stated.statements}


def _fit_problems(fits: tuple[FitRecord, ...], split: Split) -> Iterator[str]:
    """What can be told of the fits' records without fitting again."""
    from tightrope.certificates.fitting import posterior_steps
    from tightrope.posteriors import settled

    rows = len(split.fit_rows) if _regressed(split) and split.fit_rows is not None else 0
    expected = [("regression", rows)] if rows else []
    expected += [("posterior", step.stop - step.start) for step in posterior_steps(split)]
    kinds = [kind for kind, _ in expected]
    if [fit.kind for fit in fits] != kinds:
        yield f"fits: {', '.join(fit.kind for fit in fits)} stated, expected {', '.join(kinds)}"
        return
    for index, (fit, (kind, count)) in enumerate(zip(fits, expected, strict=True)):
        if fit.rows != count:
            yield f"fits[{index}].rows: stated {fit.rows}, recomputed {count}"
        if kind == "posterior" and (not fit.objective or fit.converged != settled(fit.objective)):
            yield f"fits[{index}].converged: stated {fit.converged}, its curve differs"


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
    exactly = path.split(".")[0].split("[")[0] in _EXACT
    if exactly or not (isinstance(stated, float) and isinstance(recomputed, float)):
        return type(stated) is type(recomputed) and bool(stated == recomputed)
    if _SHARES.match(path):
        return abs(stated - recomputed) <= 1e-9
    if _LIMITS.match(path):
        return math.isclose(stated, recomputed, rel_tol=2 * OUTWARD, abs_tol=_ABSOLUTE)
    absolute = _CANCELLED if _DIFFERENCES.match(path) else _ABSOLUTE
    return math.isclose(stated, recomputed, rel_tol=_RELATIVE, abs_tol=absolute)
