"""Compute every number of a fitted predictor's certificate; `verify` calls the same function."""

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from tightrope.certificates.assumptions import assumptions_of, table_assumptions, truncated_of
from tightrope.certificates.certificate import PREDICTED, Certificate, Counts, ReturnRange
from tightrope.certificates.diagnostics import Checks, compare_errors, drift_of
from tightrope.certificates.evidence import Evidence
from tightrope.certificates.options import Options, Unit
from tightrope.certificates.split import Split
from tightrope.certificates.statements import Choices, choose, families_for, ledger_for
from tightrope.certificates.statements.base import Statement, Task
from tightrope.certificates.statements.pac_bayes import (
    Portion,
    PosteriorRisk,
    bound_chain,
    draw_chain,
    measure_chain,
)
from tightrope.rollouts.results_table import table_of

if TYPE_CHECKING:
    from tightrope.certificates.fitting import FittedPredictor

__all__ = ["choices", "headline_of", "recompute"]

Portions = dict[Unit, tuple[Portion, ...]]


def recompute(
    split: Split,
    fitted: "FittedPredictor | None",
    chosen: Choices | None = None,
    *,
    options: Options | None = None,
) -> Certificate:
    """Compute every number of the certificate of a fitted predictor, or of a table of results.

    Args:
        split: the episodes and what is done with them.
        fitted: the predictor; None for a table.
        chosen: what was chosen on the fitting set; None: it is chosen now.
        options: what was asked.
    """
    settings, counted, table = split.settings, split.calibration, table_of(split.used)
    chosen = choices(split, fitted) if chosen is None else chosen
    families = families_for(settings, split.used)
    ledger = ledger_for(settings, families)
    predictor = None if fitted is None else fitted.predictor
    seen = Evidence.of(predictor, counted, gamma=settings.gamma, thin=split.thin)
    posterior: list[Statement] = []
    portions: Portions = {}
    outcomes = seen
    if fitted is not None and not settings.scheme.fixed:
        drawn = draw_chain(fitted.posteriors, split)
        for unit in _units(settings.unit):
            risk = PosteriorRisk(unit)
            own = dict(chosen.get(risk.name, {"bet": None}))
            measured = measure_chain(drawn, unit=unit, kappa=settings.kappa, bet=own["bet"])
            portions[unit] = bound_chain(measured, ledger=ledger, kappa=settings.kappa)
            posterior.append(risk.of_portions(portions[unit], seen, own, ledger))
        outcomes = replace(seen, episodes=split.outcomes)  # they need no predictions
    statements = [
        *posterior,
        *(each for f in families for each in f.state(outcomes, chosen[f.name], ledger)),
    ]
    if not posterior:
        portions = _fixed_portions(statements, seen)
    own_unit, other = _units(settings.unit)
    if fitted is None:
        predicted: dict[str, Any] = dict.fromkeys((*PREDICTED, "time_limit", "test_error"))
        predicted["checks"] = Checks(dependence=None, drift=drift_of(split))
    else:
        predicted = _predicted(fitted, split, seen)
        bounded = (s for s in statements if s.kind == "mean-risk" and s.unit == own_unit)
        predicted["bound"] = next(bounded).value
    return Certificate(
        options=options or Options(),
        settings=settings,
        confidence=ledger.confidence,
        joint_confidence=ledger.joint_confidence,
        n=portions[own_unit][0].n if portions else len(counted),
        thin=split.thin,
        portions=portions.get(own_unit, ()),
        other_portions=portions.get(other, ()),
        statements=tuple(statements),
        headline=headline_of(statements),
        ledger=ledger.entries,
        fits=() if fitted is None else fitted.fits,
        episodes=Counts(
            pilot=settings.pilot,
            fit=len(split.validation) - len(counted),
            calibration=len(counted),
            test=settings.test,
        ),
        assumptions=assumptions_of(split) if table is None else table_assumptions(settings, table),
        subject=dict(split.used.subject),
        fitted=predictor,
        posteriors=() if fitted is None else fitted.posteriors,
        rollouts=split.used,
        **predicted,
    )


def _predicted(fitted: "FittedPredictor", split: Split, seen: Evidence) -> dict[str, Any]:
    """The fields that only a predictor, or steps, tell."""
    scaling = split.scaling
    return {
        "time_limit": seen.time_limit,
        "return_range": ReturnRange(scaling.low, scaling.high, scaling.source),
        "clipped_share": scaling.clipped_share(seen.pairs.returns),
        "steps": len(seen.pairs),
        "truncated_episodes": truncated_of(split),
        **compare_errors(fitted, split, seen),
    }


def _fixed_portions(statements: Sequence[Statement], seen: Evidence) -> Portions:
    """The one step of each mean risk: nothing is drawn, and there is no divergence."""
    portions: Portions = {}
    for s in statements:
        if s.kind == "mean-risk":
            loss = (s.estimate / seen.scaling.width) ** 2
            measured = Portion(len(seen), s.n, 0.0, 0, loss, loss, loss, kind="fixed")
            found = replace(measured, upper_plus=loss, value=s.value, bound=s.value)
            portions[s.unit] = (found,)
    return portions


def choices(split: Split, fitted: "FittedPredictor | None") -> Choices:
    """What every family fixes on the fitting set, by its name."""
    settings, fixed = split.settings, split.settings.scheme.fixed
    families = families_for(settings, split.used)
    ledger = ledger_for(settings, families)
    task = Task(
        episodes=settings.most - settings.fit if fixed else len(split.calibration),
        delta=settings.delta,
        thin=split.thin,
        high=(settings.return_range or (split.scaling.low, split.scaling.high))[1],
        target=settings.until,
    )
    own = [] if fixed else [PosteriorRisk(settings.unit)]
    return choose([*families, *own], fitting_evidence(split, fitted), task, ledger)


def fitting_evidence(split: Split, fitted: "FittedPredictor | None") -> Evidence | None:
    """The fitting set, each row predicted by a network that has not seen its episode."""
    if split.fit is None or split.fit_rows is None or fitted is None:
        return None
    left_out, gamma = fitted.left_out, split.settings.gamma
    return Evidence.from_pairs(split.fit, split.fit_rows, left_out, split.scaling, gamma)


def headline_of(statements: Sequence[Statement]) -> int:
    """The largest of 80, 90 and 95 % that the episodes can cover; it does not depend on values.

    Where they cover none, the largest score at its own share; without tolerance statements the
    first mean risk, for a table how often an episode fails, or else the first one.
    """
    levels = [index for index, each in enumerate(statements) if each.kind == "tolerance"]
    if not levels:
        first = [i for i, s in enumerate(statements) if s.kind in ("mean-risk", "failure")]
        return first[0] if first else 0
    return levels[-2] if len(levels) > 1 else levels[-1]


def _units(unit: Unit) -> tuple[Unit, Unit]:
    """A unit and the other one."""
    return (unit, "episode" if unit == "step" else "step")
