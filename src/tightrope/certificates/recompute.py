"""Compute every number of a fitted predictor's certificate; `verify` calls the same function."""

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from tightrope.certificates.assumptions import assumptions_of, truncated_of
from tightrope.certificates.certificate import Certificate, Counts, ReturnRange
from tightrope.certificates.diagnostics import compare_errors
from tightrope.certificates.evidence import Evidence
from tightrope.certificates.ledger import Ledger, chain_ledger
from tightrope.certificates.options import Options, Unit
from tightrope.certificates.settings import Settings
from tightrope.certificates.split import Split
from tightrope.certificates.statements import (
    STEPS,
    Choices,
    choose,
    families_for,
    ledger_for,
)
from tightrope.certificates.statements.base import Family, Statement, Task
from tightrope.certificates.statements.pac_bayes import (
    Portion,
    bet_for,
    bound_chain,
    losses_of,
    measure_chain,
    risk_statement,
)
from tightrope.rollouts import Episodes

if TYPE_CHECKING:
    from tightrope.certificates.fitting import FittedPredictor

__all__ = [
    "certificate_of",
    "choices",
    "headline_of",
    "joint_confidence",
    "ledger_of",
    "recompute",
    "states",
]

Portions = dict[Unit, tuple[Portion, ...]]


def recompute(
    split: Split,
    fitted: "FittedPredictor",
    chosen: Choices | None = None,
    *,
    options: Options | None = None,
) -> Certificate:
    """Compute every number of the certificate of a fitted predictor.

    Args:
        split: the episodes and what is done with them.
        fitted: the predictor.
        chosen: what was chosen on the fitting set; None: it is chosen now.
        options: what was asked.
    """
    settings = split.settings
    chosen = choices(split, fitted) if chosen is None else chosen
    ledger = ledger_of(settings, split.used)
    seen = Evidence.of(fitted.predictor, split.calibration, gamma=settings.gamma, thin=split.thin)
    state = _fixed if settings.scheme.fixed else _pac_bayes
    statements, portions = state(split, fitted, seen, chosen, ledger)
    other: Unit = "episode" if settings.unit == "step" else "step"
    bound = next(s for s in statements if s.kind == "mean-risk" and s.unit == settings.unit)
    scaling, counted = split.scaling, split.calibration
    return certificate_of(
        statements,
        ledger,
        split.used,
        settings,
        options,
        **vars(compare_errors(fitted, split, seen)),
        bound=bound.value,
        n=portions[settings.unit][0].n,
        thin=split.thin,
        time_limit=None if scaling.clock is None else scaling.clock.limit,
        return_range=ReturnRange(scaling.low, scaling.high, scaling.source),
        clipped_share=scaling.clipped_share(seen.pairs.returns),
        portions=portions[settings.unit],
        other_portions=portions.get(other, ()),
        fits=fitted.fits,
        episodes=Counts(
            pilot=settings.pilot,
            fit=len(split.validation) - len(counted),
            calibration=len(counted),
            test=settings.test,
        ),
        steps=len(seen.pairs),
        truncated_episodes=truncated_of(split),
        assumptions=assumptions_of(split),
        fitted=fitted.predictor,
        posteriors=fitted.posteriors,
    )


def certificate_of(
    statements: Sequence[Statement],
    ledger: Ledger,
    recorded: Episodes,
    settings: Settings,
    options: Options | None,
    **own: Any,
) -> Certificate:
    """The certificate of these statements; `own` are the fields that only its predictor tells."""
    return Certificate(
        options=options or Options(),
        settings=settings,
        confidence=ledger.confidence,
        joint_confidence=joint_confidence(ledger),
        statements=tuple(statements),
        headline=headline_of(statements),
        ledger=ledger.entries(),
        subject=dict(recorded.subject),
        rollouts=recorded,
        **own,
    )


def choices(split: Split, fitted: "FittedPredictor") -> Choices:
    """What every family fixes on the fitting set, by its name."""
    settings = split.settings
    fit = None
    if split.fit is not None and split.fit_rows is not None:
        fit = Evidence.left_out(
            split.fit, split.fit_rows, fitted.left_out, split.scaling, settings.gamma
        )
    ledger = ledger_of(settings, split.used)
    task = Task(
        episodes=settings.most - settings.fit if settings.scheme.fixed else len(split.calibration),
        delta=settings.delta,
        thin=split.thin,
        high=split.scaling.high,
        target=settings.until,
    )
    chosen = choose(families_for(settings, split.used), fit, task, ledger)
    if not settings.scheme.fixed:
        chosen[f"mean over {settings.unit}s"] = {"bet": bet_for(fit, split, ledger)}
    return chosen


def ledger_of(settings: Settings, recorded: Episodes) -> Ledger:
    """Which failure probability goes where."""
    families = families_for(settings, recorded)
    if settings.scheme.fixed:
        return ledger_for(families, settings)
    return chain_ledger(
        len(settings.scheme.weights) if settings.scheme.kind == "recursive" else 1,
        [family.name for family in families],
        delta=settings.delta,
        delta_prime=settings.delta_prime,
        candidates=settings.candidates,
    )


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


def joint_confidence(ledger: Ledger) -> float:
    """That all statements hold which need only independent episodes."""
    return ledger.confidence_of({budget for _, budget, _, _ in ledger.shares} - {STEPS})


def states(
    families: Sequence[Family], seen: Evidence, chosen: Choices, ledger: Ledger
) -> list[Statement]:
    """The statements of families that share their evidence."""
    found = []
    for family in families:
        found += family.state(seen, chosen[family.name], ledger, joint_confidence(ledger))
    return found


def _fixed(
    split: Split, fitted: "FittedPredictor", seen: Evidence, chosen: Choices, ledger: Ledger
) -> tuple[list[Statement], Portions]:
    """Every statement of a fixed predictor, on the calibration set."""
    statements = states(families_for(split.settings, split.used), seen, chosen, ledger)
    width = seen.scaling.width
    portions: Portions = {
        s.unit: (
            Portion.fixed(episodes=len(seen), n=s.n, loss=(s.estimate / width) ** 2, bound=s.value),
        )
        for s in statements
        if s.kind == "mean-risk"
    }
    return statements, portions


def _pac_bayes(
    split: Split, fitted: "FittedPredictor", seen: Evidence, chosen: Choices, ledger: Ledger
) -> tuple[list[Statement], Portions]:
    """The bound of a posterior in both units, and the statements beside it."""
    settings = split.settings
    drawn = losses_of(fitted.posteriors, split)
    other: Unit = "episode" if settings.unit == "step" else "step"
    portions: Portions = {}
    statements = []
    for unit in (settings.unit, other):
        own = dict(chosen.get(f"mean over {unit}s", {"bet": None}))
        measured = measure_chain(drawn, unit=unit, kappa=settings.kappa, bet=own["bet"])
        portions[unit] = bound_chain(measured, ledger=ledger, kappa=settings.kappa)
        statements.append(
            risk_statement(portions[unit], seen, unit, ledger, joint_confidence(ledger), own)
        )
    outcomes = replace(seen, episodes=split.outcomes)  # returns and failures need no predictions
    families = families_for(settings, split.used)
    return statements + states(families, outcomes, chosen, ledger), portions
