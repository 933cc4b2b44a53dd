"""The families of statements, and the one place that shares delta out among them."""

from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import TypeAlias

from tightrope.certificates.evidence import Evidence
from tightrope.certificates.ledger import Ledger, joint_ledger
from tightrope.certificates.options import Unit
from tightrope.certificates.settings import Settings
from tightrope.certificates.statements.band import Band
from tightrope.certificates.statements.base import Chosen, Family, Statement, Task
from tightrope.certificates.statements.failure import Event, LowReturn, Success, Terminates
from tightrope.certificates.statements.mean_risk import LargeError, MeanRisk, require_bets
from tightrope.certificates.statements.monitor import MonitorThreshold
from tightrope.certificates.statements.property import BreaksLimit, PropertyLevels
from tightrope.certificates.statements.returns import ExpectedReturn, Return
from tightrope.certificates.statements.tolerance import MeanOverEpisodes, Tolerance
from tightrope.errors import InputError
from tightrope.rollouts import Episodes
from tightrope.rollouts.results_table import table_of

__all__ = [
    "FAMILIES",
    "STEPS",
    "Choices",
    "check_chosen",
    "choose",
    "families_for",
    "family_of",
    "ledger_for",
    "outcomes_for",
]

Choices: TypeAlias = Mapping[str, Chosen]  # by the name of the family

# Shares of the joint failure probability; a new kind of statement is one file and one line here.
FAMILIES: dict[type[Family], Fraction] = {
    Tolerance: Fraction(1, 2),
    Return: Fraction(3, 20),
    Event: Fraction(3, 20),  # type: ignore[type-abstract]
    Band: Fraction(1, 10),
    MonitorThreshold: Fraction(1, 10),
}
_PROPERTIES = Fraction(1, 5)  # of all, where there are any; the others keep the rest of theirs
_SEARCH = {MeanRisk: Fraction(3, 4), LargeError: Fraction(1, 4)}
_RETURNS = ("undiscounted-return", "low-return")
_BETS = {"bets", "weights"}
_CHOSEN = {  # entries of a choice, by kind of statement; others choose nothing
    "band": ({"profile"},),
    "monitor": ({"window", "widths"},),
    "mean-risk": (_BETS, {"bet"}),
    "failure": (_BETS,),
    "return": ({"top"},),
}
STEPS = "mean over steps"  # has a budget of its own: it stands outside what holds jointly


def families_for(settings: Settings, recorded: Episodes) -> list[Family]:
    """One family for each target and property; of a posterior's risk there is none.

    Args:
        settings: what is done.
        recorded: episodes that tell what is on record: success, and properties.
    """
    if not settings.scheme.fixed:
        return outcomes_for(settings, recorded)
    if settings.scheme.kind == "sequential":
        assert settings.until is not None  # settle sets both
        return [MeanRisk(settings.unit), LargeError(settings.until)]
    if settings.scheme.kind == "table":
        table, found, first = table_of(recorded), [], 0
        assert table is not None  # its settings say so
        for name, count in table["tasks"]:
            for each in outcomes_for(settings, recorded):
                if table["returns"] or each.target not in _RETURNS:
                    found.append(each.of_task(str(name), slice(first, first + count)))
            first += count
        return found
    outcomes = outcomes_for(settings, recorded)
    if settings.scheme.kind == "holdout":
        other: Unit = "episode" if settings.unit == "step" else "step"
        means = [MeanRisk(settings.unit), MeanRisk(other)]
        return [*means, MonitorThreshold(settings.gamma), *outcomes]
    return [
        Tolerance(),
        MeanOverEpisodes(),
        MeanRisk("step"),
        Band(),
        MonitorThreshold(settings.gamma),
        *outcomes,
    ]


def outcomes_for(settings: Settings, recorded: Episodes) -> list[Family]:
    """Statements that need no predictor: returns, failures and properties."""
    gammas = [1.0] if settings.gamma == 1 else [1.0, settings.gamma]
    floors = {settings.gamma: settings.discounted_floor, 1.0: settings.return_floor}
    found: list[Family] = [Return(gamma) for gamma in gammas]
    for gamma in gammas:
        floor = floors[gamma]
        found += [] if floor is None else [ExpectedReturn(gamma, floor)]
    succeeds = settings.termination == "success" or recorded.success is not None
    if settings.termination != "success" and settings.scheme.kind != "table":
        found.append(Terminates(settings.termination))
    if succeeds:
        found.append(Success(recorded=recorded.success is not None))
    if settings.fail_below is not None:
        found.append(LowReturn(settings.fail_below))
    for each in settings.properties:
        found.append(PropertyLevels(each))
        found += [] if each.limit is None else [BreaksLimit(each)]
    return found


def ledger_for(families: Sequence[Family], settings: Settings) -> Ledger:
    """Which failure probability goes where, for a fixed predictor.

    In scheme auto the instances of a kind divide its share equally. Schemes with one bound give it
    everything, and every other statement has as much of its own.
    """
    joint = [family for family in families if family.budget != STEPS]
    alone = [STEPS] if len(joint) < len(families) else []
    shares: list[tuple[str, Fraction]] = []
    if settings.scheme.kind in ("auto", "table"):
        shares = _shares(joint)
    elif settings.scheme.kind == "sequential":
        whole = sum(_SEARCH[type(family)] for family in joint)
        shares = [(family.budget, _SEARCH[type(family)] / whole) for family in joint]
    else:
        alone += [family.budget for family in joint]
    return joint_ledger(
        shares,
        alone,
        delta=settings.delta,
        delta_prime=settings.delta_prime,
        candidates=settings.candidates,
    )


def _shares(families: Sequence[Family]) -> list[tuple[str, Fraction]]:
    """The joint failure probability shared out among budgets."""
    own = [f.budget for f in families if f.kind == "property"]
    others = list(dict.fromkeys((_kind(f), f.budget) for f in families if f.kind != "property"))
    rest = 1 - _PROPERTIES if own else Fraction(1)
    whole = sum(FAMILIES[kind] for kind in {kind for kind, _ in others})
    counts = {kind: sum(kind is k for k, _ in others) for kind, _ in others}
    found = [(name, rest * FAMILIES[k] / whole / counts[k]) for k, name in others]
    return found + [(name, (1 - rest) / len(own)) for name in own]


def _kind(family: Family) -> type[Family]:
    """The entry of FAMILIES that a family belongs to."""
    if isinstance(family, MeanOverEpisodes):
        return Tolerance
    return next(kind for kind in FAMILIES if isinstance(family, kind))


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


def check_chosen(statement: Statement) -> None:
    """Raise InputError unless a stored choice has the entries that its kind needs, and no other."""
    kind, chosen = statement.kind, statement.chosen
    if chosen and set(chosen) not in _CHOSEN.get(kind, ()):
        raise InputError(
            f"expected other entries in what was chosen for {kind}, found {str([*chosen])[:80]}"
        )
    try:
        if kind == "band":
            Band().check(chosen)
        elif kind == "monitor":
            MonitorThreshold(1.0).check(chosen)
        elif statement.target == "large-error" or "bets" in chosen:
            require_bets(chosen)
    except KeyError as error:
        raise InputError(f"expected {error} among what was chosen for {kind}, found none") from None
