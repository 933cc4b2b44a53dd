"""Verify a certificate: recompute it from its files, and compare the documents."""

import math
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from tightrope.certificates.certificate import Certificate, FitRecord
from tightrope.certificates.diagnostics import LEVEL
from tightrope.certificates.folder import DOCUMENT, FILES, read_certificate, to_document
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

# How far a number may be from the recomputed one, relatively and absolutely, by the first pattern
# that its path matches. The document's own digest catches smaller changes.
_TOLERANCES = (
    (r"(options|settings|return_range|ledger|subject|delta|delta_prime)\b", 0.0, 0.0),
    (r"(statements\[\d+\]\.)?(joint_)?confidence$", 0.0, 0.0),
    (r"(statements\[\d+\]\.share|clipped_share)$", 0.0, 1e-9),
    # A p-value counts permutations: rounding may move a few of 200 past a near tie.
    (r"checks\.dependence$", 0.0, 0.05),
    # Means of draws and differences of losses move as far as losses do, however small they are
    # themselves. Measured between instruction sets: up to 3e-8. No limit is among them.
    (r"((other_)?portions\[\d+\]\.(mean|mean_plus|mean_minus)|tightness)$", 1e-5, 3e-7),
    # Sums in another order (threads, another processor) move predictions by about 1e-7 at the most.
    (r"", 1e-5, 1e-12),
)
_PREDICTOR = FILES["predictor"]
_NO_FIT = FitRecord("regression", 0, (), (), (), ())
_PREDICTED = ("mean-risk", "band", "monitor")
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
    document = Path(folder) / DOCUMENT
    if not document.is_file():
        raise InputError(f"expected a certificate at {str(document)!r}, found none")
    try:
        stated, problems = read_certificate(folder)
    except InputError as error:
        return [str(error)]
    try:
        problems += _property_problems(stated, properties_of(properties))
        settings = _settings_of(stated)
        if settings.episodes != len(stated.rollouts):
            recorded = len(stated.rollouts)
            problems.append(f"settings: {settings.episodes} episodes, found {recorded} recorded")
        if (stated.fitted is None) != (settings.scheme.kind == "table"):
            problems.append("bound: expected one of all but tables of results, and of no table")
        if stated.fitted is None:
            split = split_episodes(stated.rollouts, settings)
            again = recompute(split, None, options=stated.options)
        else:
            found, again = _fitted_again(stated, settings)
            problems += found
        problems += _disagreements(to_document(stated), to_document(again))
    except Exception as error:  # what a hostile document can make of any of these steps
        problems.append(f"recomputation failed: {one_line(error)}")
    return problems


def _settings_of(stated: Certificate) -> Settings:
    """What the options ask for, of these episodes; what they leave open is as stated."""
    settings, options = stated.settings, stated.options
    known: dict[str, Any] = {"seed": settings.seed}
    if stated.fitted is not None:
        options = replace(options, device="cpu")
        known["test_episodes"] = settings.test
        fixed = settings.scheme.fixed
        known |= {"fit_episodes": settings.fit} if fixed else {"pilot_episodes": settings.pilot}
        known |= {"episodes": settings.validation} if settings.until is None else {}
    known = {k: v for k, v in known.items() if getattr(options, k) in ("auto", "fresh")}
    name = "paper" if options.paper else options.preset
    again = settle(
        replace(options, **known),
        stated.rollouts,
        properties=settings.properties,
        preset=replace(settings.preset, name=name),  # may be of the issuer's own
        training=_training_of(stated),
        rolled_out=settings.until is not None,
    )
    if stated.fitted is None:
        return again
    device = stated.options.device
    return replace(again, device=settings.device if device == "auto" else device)


def _fitted_again(stated: Certificate, settings: Settings) -> tuple[list[str], Certificate]:
    """What is wrong with what was fitted, and the certificate that follows from it."""
    from tightrope.certificates.fitting import FittedPredictor, posterior_steps, regress_fitting_set

    split = split_episodes(stated.rollouts, settings, _training_of(stated))
    steps = posterior_steps(split)
    regressed = settings.preset.regression is not None and split.fit_rows is not None
    # A regression on calibration-free episodes is not repeated; see docs/formats.md.
    exact = settings.scheme.reproducible_prior
    ensemble = regress_fitting_set(split) if exact else None
    problems = [*_scaling_problems(stated.predictor.scaling, split.scaling)]
    if len(stated.posteriors) != (len(steps) + 1 if steps else 0):
        found = f"{max(len(stated.posteriors) - 1, 0)} posteriors"
        problems.append(f"{_PREDICTOR}: {found}, {settings.scheme.name} has {len(steps)}")
    if stated.posteriors and (exact or not regressed):  # others were fitted to the first portion
        problems += _prior_problems(stated.posteriors[0], split, ensemble)
    fits = [_NO_FIT] * regressed + [replace(_NO_FIT, kind="posterior")] * len(steps)
    rows = [len(split.fit_rows or ())] * regressed + [step.stop - step.start for step in steps]
    read = FittedPredictor(
        stated.predictor,
        stated.posteriors,
        None if ensemble is None else ensemble.left_out,
        tuple(  # their curves are taken as they are stated
            replace(one, kind=fit.kind, rows=count)
            for one, fit, count in zip((*stated.fits, *fits), fits, rows, strict=False)
        ),
    )
    chosen = {**choices(split, read)}
    if regressed and not exact:  # what left-out predictions chose is taken as it is stated
        chosen |= {s.name: s.chosen for s in stated.statements if s.kind in _PREDICTED}
    return problems, recompute(split, read, chosen, options=stated.options)


def _training_of(stated: Certificate) -> Scaling | None:
    """The scaling of the policy's training record, which no episodes can give."""
    scaling = None if stated.fitted is None else stated.fitted.scaling
    return scaling if scaling is not None and scaling.source == "training" else None


def _property_problems(stated: Certificate, given: tuple[Property, ...]) -> Iterator[str]:
    """Whether recorded properties are those that the functions give."""
    for one in given:
        if one.name not in (each.name for each in stated.settings.properties):
            yield f"property {one.name!r}: the certificate has none of this name"
            continue
        again = measure_properties(stated.rollouts, (one,)).properties[one.name]
        wrong = np.flatnonzero(again != stated.rollouts.properties[one.name])
        if len(wrong):
            found = f"{len(wrong)} recorded numbers are not the function's"
            yield f"property {one.name!r}: {found}, the first in episode {wrong[0]}"


def _scaling_problems(stored: Scaling, again: Scaling) -> Iterator[str]:
    """Whether range, clock and scaling of observations are those that the episodes give."""
    for name in ("low", "high", "source", "clock"):
        one, other = getattr(stored, name), getattr(again, name)
        if one != other:
            yield f"{_PREDICTOR}: {name} is {one}, the episodes give {other}"
    for name in ("mean", "deviation"):
        one, other = getattr(stored, name), getattr(again, name)
        if not abs(one - other).max() <= 1e-6 * (1 + abs(other).max()):
            yield f"{_PREDICTOR}: observation {name} differs from the fitting set's"


def _prior_problems(first: Gaussians, split: Split, ensemble: "Ensemble | None") -> Iterator[str]:
    """Whether the first prior is the one that follows from seed and pilot."""
    from tightrope.certificates.fitting import first_prior

    again = first_prior(split, ensemble)
    if not all(map(np.array_equal, first.log_variances, again.log_variances)):
        name = split.settings.preset.name
        yield f"{_PREDICTOR}: the first prior has not the variances of {name}"
    same = all(map(np.array_equal, first.means, again.means))  # drawn: without any arithmetic
    if ensemble is not None:
        moved = Gaussians(first.means, again.log_variances, first.layer_norm)
        same = kl_divergence(moved, again) <= _PRIOR_NATS
    if not same:
        yield f"{_PREDICTOR}: the first prior's means do not follow from seed and pilot"


def _disagreements(stated: dict[str, Any], again: dict[str, Any]) -> Iterator[str]:
    """Every value of a document that is not the recomputed one."""
    roundings = dict(_roundings(again))
    left, right = (dict(_values(each)) for each in (stated, again))
    for place in {**left, **right}:
        parts = (f"[{part}]" if isinstance(part, int) else f".{part}" for part in place)
        name = "".join(parts).removeprefix(".")
        if place not in left or place not in right:
            what = "missing" if place in right else "not part of the recomputed document"
            yield f"{name}: {what}"
        elif not _agree(name, left[place], right[place], roundings.get(name)):
            yield f"{name}: stated {left[place]!r}, recomputed {right[place]!r}"


def _values(value: Any, place: tuple[str | int, ...] = ()) -> Iterator[tuple[Any, Any]]:
    """Every value of a document by its place, such as ("portions", 0, "kl")."""
    if not value or not isinstance(value, dict | list):
        yield place, value
        return
    for key, inner in value.items() if isinstance(value, dict) else enumerate(value):
        if (*place, key) != ("digests",):  # checked by themselves
            yield from _values(inner, (*place, key))


def _roundings(again: dict[str, Any]) -> Iterator[tuple[str, float]]:
    """By how much each limit was rounded outward when it was issued, by its name."""
    for name, part in (("bound", 1.0), ("bound_raw", 1.0), ("rms_raw", 0.5)):
        yield name, OUTWARD * part * (again[name] or 0.0)
    ends = again["return_range"] or {"low": 0.0, "high": 1.0}
    for index, each in enumerate(again["statements"]):
        for key in ("value", "value_raw", "rms_raw"):
            size = each[key] or 0.0
            if each["kind"] == "return" and key == "value":  # its zero is the low end of the range
                size = each["value_raw"] / (ends["high"] - ends["low"])
            if each["kind"] == "mean-risk" and key == "rms_raw":  # a root
                size /= 2
            sign = 1.0 if each["direction"] == "at-most" else -1.0
            yield f"statements[{index}].{key}", sign * OUTWARD * abs(size)


def _agree(name: str, stated: Any, again: Any, rounding: float | None) -> bool:
    """Whether a stated value is the recomputed one, as far as another processor can tell.

    A limit is never better than before its rounding, which is left to other processors, and worse
    by three times the rounding at the most.
    """
    if not (isinstance(stated, float) and isinstance(again, float)):
        return type(stated) is type(again) and bool(stated == again)
    if rounding is not None:
        ends = again - (1 - 1e-4) * rounding, again + 2 * rounding
        return min(ends) <= stated <= max(ends)
    if name == "checks.dependence" and (stated <= LEVEL) != (again <= LEVEL):
        return False
    relative, absolute = next(each[1:] for each in _TOLERANCES if re.match(each[0], name))
    return math.isclose(stated, again, rel_tol=relative, abs_tol=absolute)
