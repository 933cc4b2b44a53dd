"""Which failure probability goes where: the one place that splits delta and delta'.

A certificate rests on several statements, each of which may fail. The ledger gives every one of
them a share of delta (the data are unrepresentative), of delta' (the Monte Carlo draws are) or,
where nothing is drawn, of both; shares are exact fractions, so that the union bound adds up
exactly. Section L of docs/theory.md.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar, Literal

from pydantic import ConfigDict

from tightrope.records import STRICT

__all__ = [
    "BOUND",
    "DELTA",
    "DELTA_PRIME",
    "JOINT",
    "Ledger",
    "LedgerEntry",
    "Source",
    "chain_ledger",
    "comparison_ledger",
    "joint_ledger",
]

DELTA = 0.025  # the paper's choices
DELTA_PRIME = 0.01
JOINT = "joint"  # the budget of all that holds at once
BOUND = "bound"  # the budget of a recursion; each unit spends one, for an event of its own

Source = Literal["delta", "delta_prime", "both"]


@dataclass(frozen=True)
class LedgerEntry:
    """One statement that may fail, and its share of a budget.

    Attributes:
        statement: what may fail.
        budget: whose failure probability it is part of: ``joint``, or one of its own.
        source: delta, delta', or both.
        share: an exact fraction of the source, as text.
        failure: the failure probability that this is, rounded down.
    """

    __pydantic_config__: ClassVar[ConfigDict] = STRICT

    statement: str
    budget: str
    source: Source
    share: str
    failure: float


@dataclass(frozen=True)
class Ledger:
    """Shares of delta and delta' over the statements of one certificate.

    Raises:
        ValueError: delta or delta' is outside (0, 1), their sum is not below 1, a share is not
            positive, or the shares of a budget exceed what there is.
    """

    delta: float
    delta_prime: float
    shares: tuple[tuple[str, str, Source, Fraction], ...]  # statement, budget, source, share
    candidates: int = 1  # certificates to choose from: each of them spends such shares

    def __post_init__(self) -> None:
        for name, value in (("delta", self.delta), ("delta_prime", self.delta_prime)):
            if not 0 < value < 1:
                raise ValueError(f"{name} must be in (0, 1), found {value!r}")
        if not self.delta + self.delta_prime < 1:
            raise ValueError(
                f"delta + delta_prime must be below 1, found {self.delta!r} + {self.delta_prime!r}"
            )
        if self.candidates < 1 or self.candidates != int(self.candidates):
            raise ValueError(
                f"candidates must be a whole number of at least 1, found {self.candidates!r}"
            )
        totals: dict[tuple[str, str], Fraction] = {}
        for statement, budget, source, share in self.shares:
            if share <= 0:
                raise ValueError(f"share must be positive, found {share} for {statement!r}")
            sources = ("delta", "delta_prime") if source == "both" else (source,)
            for each in sources:
                totals[budget, each] = totals.get((budget, each), Fraction(0)) + share
        for (budget, whose), total in totals.items():
            if total * self.candidates > 1:
                raise ValueError(
                    f"shares of {whose} must add up to at most 1 in {budget!r}, found "
                    f"{total * self.candidates}"
                )
        if len({(statement, source) for statement, _, source, _ in self.shares}) < len(self.shares):
            raise ValueError("statements must differ, found one twice")

    def _amount(self, source: Source) -> Fraction:
        both = Fraction(self.delta) + Fraction(self.delta_prime)
        return both if source == "both" else Fraction(getattr(self, source))

    @property
    def confidence(self) -> float:
        """Probability that every statement of a whole budget holds: 1 - delta - delta' (L.1)."""
        return float(1 - Fraction(self.delta) - Fraction(self.delta_prime))

    def failure(self, statement: str) -> float:
        """The failure probability of one statement, rounded down.

        Raises:
            ValueError: there is no such statement.
        """
        for name, _, source, share in self.shares:
            if name == statement:
                return _rounded_down(share * self._amount(source))
        known = ", ".join(repr(name) for name, *_ in self.shares)
        raise ValueError(f"statement must be one of {known}, found {statement!r}")

    def confidence_in(self, statement: str) -> float:
        """Probability that one statement holds in every certificate to choose from."""
        return 1.0 - self.candidates * self.failure(statement)

    def confidence_of(self, budgets: Iterable[str]) -> float:
        """Probability that all statements of some budgets hold in every certificate.

        Rounding is against us: the result is never above the exact probability.
        """
        wanted = set(budgets)
        spent = sum(
            (s * self._amount(source) for _, b, source, s in self.shares if b in wanted),
            Fraction(0),
        )
        return max(0.0, _rounded_down(1 - self.candidates * spent)) if spent < 1 else 0.0

    def entries(self) -> tuple[LedgerEntry, ...]:
        """The entries as they stand in a certificate."""
        return tuple(
            LedgerEntry(name, budget, source, str(s), _rounded_down(s * self._amount(source)))
            for name, budget, source, s in self.shares
        )


def joint_ledger(
    shares: Sequence[tuple[str, Fraction]],
    alone: Sequence[str] = (),
    *,
    delta: float = DELTA,
    delta_prime: float = DELTA_PRIME,
    candidates: int = 1,
) -> Ledger:
    """The ledger of statements that hold jointly, Eq. (L.4); nothing is drawn, so both are spent.

    Args:
        shares: name and share of each statement.
        alone: statements with a failure probability delta + delta' of their own.
        delta: failure probability over the data.
        delta_prime: failure probability of draws; there are none.
        candidates: certificates to choose from.
    """
    entries: list[tuple[str, str, Source, Fraction]] = [
        (name, JOINT, "both", share / candidates) for name, share in shares
    ]
    entries += [(name, name, "both", Fraction(1, candidates)) for name in alone]
    return Ledger(delta, delta_prime, tuple(entries), candidates)


def chain_ledger(
    portions: int,
    beside: Sequence[str] = (),
    *,
    delta: float = DELTA,
    delta_prime: float = DELTA_PRIME,
    candidates: int = 1,
) -> Ledger:
    """The ledger of a recursion over `portions`, Eq. (L.2); one portion is the plain bound.

    Statements are named ``portion t: risk`` (t = 1) or ``portion t: excess`` (t >= 2, whose two
    sides share it inside the split-kl theorem), ``portion 1: draws``, ``portion t: draws plus``
    and ``portion t: draws minus``. Statements `beside` the bound have a delta each.

    >>> for entry in chain_ledger(2).entries()[:5]:
    ...     print(entry.statement, entry.source, entry.share, entry.failure)
    portion 1: risk delta 1/2 0.0125
    portion 1: draws delta_prime 1/2 0.005
    portion 2: excess delta 1/2 0.0125
    portion 2: draws plus delta_prime 1/4 0.0025
    portion 2: draws minus delta_prime 1/4 0.0025
    """
    if portions < 1 or portions != int(portions):
        raise ValueError(f"portions must be a whole number of at least 1, found {portions!r}")
    entries = list(_chain_entries(portions, candidates))
    entries += [(name, name, "delta", Fraction(1, candidates)) for name in beside]
    return Ledger(delta, delta_prime, tuple(entries), candidates)


def comparison_ledger(
    questions: Sequence[str],
    *,
    delta: float = DELTA,
    delta_prime: float = DELTA_PRIME,
    candidates: int = 1,
) -> Ledger:
    """The ledger of a comparison, Eq. (L.5): questions in equal parts, each with two sides.

    Statements are named ``QUESTION: lower`` and ``QUESTION: upper``. Nothing is drawn, so delta' is
    spent on the data, too.

    >>> round(comparison_ledger(["return"]).failure("return: lower"), 6)
    0.0175
    """
    share = Fraction(1, 2 * len(questions))
    sides = [f"{question}: {side}" for question in questions for side in ("lower", "upper")]
    return joint_ledger(
        [(side, share) for side in sides],
        delta=delta,
        delta_prime=delta_prime,
        candidates=candidates,
    )


def _chain_entries(portions: int, candidates: int) -> Iterable[tuple[str, str, Source, Fraction]]:
    share = Fraction(1, portions * candidates)
    yield "portion 1: risk", BOUND, "delta", share
    yield "portion 1: draws", BOUND, "delta_prime", share
    for t in range(2, portions + 1):
        yield f"portion {t}: excess", BOUND, "delta", share
        yield f"portion {t}: draws plus", BOUND, "delta_prime", share / 2
        yield f"portion {t}: draws minus", BOUND, "delta_prime", share / 2


def _rounded_down(exact: Fraction) -> float:
    nearest = float(exact)
    return nearest if Fraction(nearest) <= exact else math.nextafter(nearest, 0.0)
