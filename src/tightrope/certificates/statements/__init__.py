"""The families of statements, and the one place that shares delta out among them."""

from collections import Counter
from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import TypeAlias

from tightrope.certificates.evidence import Evidence
from tightrope.certificates.ledger import JOINT, STEPS, Ledger
from tightrope.certificates.options import Unit
from tightrope.certificates.settings import Settings
from tightrope.certificates.statements.band import Band
from tightrope.certificates.statements.base import Chosen, Family, Statement, Task
from tightrope.certificates.statements.failure import Event, breaks_limit, failures
from tightrope.certificates.statements.mean_risk import LargeError, MeanRisk
from tightrope.certificates.statements.monitor import MonitorThreshold
from tightrope.certificates.statements.returns import ExpectedReturn, Return
from tightrope.certificates.statements.tolerance import MeanOverEpisodes, PropertyLevels, Tolerance
from tightrope.errors import InputError
from tightrope.rollouts import Episodes
from tightrope.rollouts.results_table import table_of

__all__ = ["FAMILIES", "Choices", "choose", "families_for", "family_of", "ledger_for"]

Choices: TypeAlias = Mapping[str, Chosen]  # by the name of the family

# Shares of the joint failure probability; a new kind of statement is one file and one line here.
FAMILIES: dict[type[Family], Fraction] = {
    Tolerance: Fraction(1, 2),
    Return: Fraction(3, 20),
    Event: Fraction(3, 20),
    Band: Fraction(1, 10),
    MonitorThreshold: Fraction(1, 10),
    LargeError: Fraction(1, 4),  # of a search, which has these two alone
    MeanRisk: Fraction(3, 4),
}
_PROPERTIES = Fraction(1, 5)  # of all, where there are any; the others keep the rest of theirs
_RETURNS = ("undiscounted-return", "low-return")


def families_for(settings: Settings, recorded: Episodes) -> list[Family]:
    """One family for each target and property; of a posterior's risk there is none.

    Args:
        settings: what is done.
        recorded: episodes that tell what is on record: success, and properties.
    """
    other: Unit = "episode" if settings.unit == "step" else "step"
    means = [MeanRisk(settings.unit), MeanRisk(other)]
    match settings.scheme.kind:
        case "sequential":
            assert settings.until is not None  # settle sets both
            return [means[0], LargeError(settings.until)]
        case "table":
            return _of_tasks(settings, recorded)
        case "holdout":
            predicted = [*means, MonitorThreshold(settings.gamma)]
        case "auto":
            monitor = MonitorThreshold(settings.gamma)
            predicted = [Tolerance(), MeanOverEpisodes(), MeanRisk("step"), Band(), monitor]
        case _:
            predicted = []
    return [*predicted, *_outcomes(settings, recorded)]


def _outcomes(settings: Settings, recorded: Episodes) -> list[Family]:
    """Statements that need no predictor: returns, failures and properties."""
    gammas = [1.0] if settings.gamma == 1 else [1.0, settings.gamma]
    floors = {settings.gamma: settings.discounted_floor, 1.0: settings.return_floor}
    found: list[Family] = [Return(gamma) for gamma in gammas]
    found += [ExpectedReturn(g, f) for g in gammas if (f := floors[g]) is not None]
    found += failures(settings, success=recorded.success is not None)
    for each in settings.properties:
        found.append(PropertyLevels(each))
        found += [] if each.limit is None else [breaks_limit(each)]
    return found


def _of_tasks(settings: Settings, recorded: Episodes) -> list[Family]:
    """The outcomes of every task of a table, on its own rows."""
    table, found, first = table_of(recorded), [], 0
    assert table is not None  # its settings say so
    for name, count in table["tasks"]:
        for each in _outcomes(settings, recorded):
            if table["returns"] or each.target not in _RETURNS:
                found.append(each.of_task(str(name), slice(first, first + count)))
        first += count
    return found


def ledger_for(settings: Settings, families: Sequence[Family]) -> Ledger:
    """Which failure probability goes where.

    Of statements that hold jointly the instances of a kind divide its share equally. Schemes with
    one bound give it everything, and every other statement has as much of its own.

    Raises:
        InputError: two families have one name, so both would spend the same share.
    """
    for name, count in Counter(family.name for family in families).items():
        if count > 1:
            raise InputError(
                "expected tasks and properties with names that differ, found "
                f"{name!r} {count} times"
            )
    names = list(dict.fromkeys(family.budget for family in families))
    if not settings.scheme.fixed:
        portions = len(settings.scheme.weights) if settings.scheme.kind == "recursive" else 1
        return Ledger.chain(portions, names, **settings.budget)
    shares = {} if settings.scheme.kind == "holdout" else _shares(families)
    return Ledger.of(
        [
            (name, JOINT if name in shares else name, "both", shares.get(name, Fraction(1)))
            for name in names
        ],
        **settings.budget,
    )


def _shares(families: Sequence[Family]) -> dict[str, Fraction]:
    """The joint failure probability shared out among budgets."""
    joint = [family for family in families if family.budget != STEPS]
    own = [family.budget for family in joint if family.kind == "property"]
    others = {
        family.budget: next(kind for kind in FAMILIES if isinstance(family, kind))
        for family in joint
        if family.kind != "property"
    }
    kinds = list(others.values())
    rest = 1 - _PROPERTIES if own else Fraction(1)
    whole = sum(FAMILIES[kind] for kind in set(kinds))
    shares = {name: rest * FAMILIES[k] / whole / kinds.count(k) for name, k in others.items()}
    return shares | {name: (1 - rest) / len(own) for name in own}


def choose(
    families: Sequence[Family], fit: Evidence | None, task: Task, ledger: Ledger
) -> dict[str, Chosen]:
    """What every family fixes on the fitting set, by its name."""
    return {
        family.name: family.choose(fit, task._replace(delta=ledger.failure(family.budget)))
        for family in families
    }


def family_of(statement: Statement, families: Sequence[Family]) -> Family:
    """The family that a statement comes from."""
    return next(family for family in families if family.name == statement.name)
