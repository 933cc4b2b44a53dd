"""Which failure probability goes where: the one place that splits delta and delta'.

A certificate rests on several statements, each of which may fail. The ledger gives every one of
them a share of delta (the data are unrepresentative), of delta' (the Monte Carlo draws are) or,
where nothing is drawn, of both; shares are exact fractions, so that the union bound adds up
exactly. Section L of docs/theory.md.
"""

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Literal

from tightrope.records import Strict

__all__ = ["DELTA", "DELTA_PRIME", "Ledger", "LedgerEntry"]

DELTA = 0.025  # the paper's choices
DELTA_PRIME = 0.01
JOINT = "joint"  # the budget of all that holds at once
BOUND = "bound"  # the budget of a recursion; each unit spends one, for an event of its own
STEPS = "mean over steps"  # a budget of its own: it stands outside what holds jointly

Source = Literal["delta", "delta_prime", "both"]
Share = tuple[str, str, Source, Fraction]  # statement, budget, source, share of it


@dataclass(frozen=True)
class LedgerEntry(Strict):
    """One statement that may fail, and its share of a budget.

    Attributes:
        statement: what may fail.
        budget: whose failure probability it is part of: ``joint``, or one of its own.
        source: delta, delta', or both.
        share: an exact fraction of the source, as text.
        failure: the failure probability that this is, rounded down.
    """

    statement: str
    budget: str
    source: Source
    share: str
    failure: float


@dataclass(frozen=True)
class Ledger:
    """Shares of delta and delta' over the statements of one certificate.

    Attributes:
        delta: failure probability over the data.
        delta_prime: failure probability of the Monte Carlo draws.
        candidates: certificates to choose from; each of them spends such shares.
        entries: as they stand in a certificate.
    """

    delta: float
    delta_prime: float
    candidates: int
    entries: tuple[LedgerEntry, ...]

    @classmethod
    def of(
        cls,
        shares: Iterable[Share],
        *,
        delta: float = DELTA,
        delta_prime: float = DELTA_PRIME,
        candidates: int = 1,
    ) -> "Ledger":
        """Divide shares of a single certificate by the number of candidates.

        Raises:
            ValueError: the shares of a budget exceed what there is.
        """
        entries, spent = [], Counter[tuple[str, str]]()
        for statement, budget, source, whole in shares:
            share = whole / candidates
            failure = _rounded_down(share * _amount(source, delta, delta_prime))
            entries.append(LedgerEntry(statement, budget, source, str(share), failure))
            for each in ("delta", "delta_prime") if source == "both" else (source,):
                spent[budget, each] += whole  # type: ignore[assignment]
        if max(spent.values(), default=0) > 1:
            raise ValueError(f"shares of a budget must add up to at most 1, found {dict(spent)}")
        return cls(delta, delta_prime, candidates, tuple(entries))

    @classmethod
    def chain(cls, portions: int, beside: Sequence[str] = (), **budget: Any) -> "Ledger":
        """A recursion over `portions`, Eq. (L.2); one portion is the plain bound.

        Statements are named ``portion t: risk`` (t = 1) or ``portion t: excess`` (t >= 2, whose two
        sides share it inside the split-kl theorem), ``portion 1: draws``, ``portion t: draws plus``
        and ``portion t: draws minus``. Statements `beside` the bound have a delta each.

        >>> for entry in Ledger.chain(2).entries:
        ...     print(entry.statement, entry.source, entry.share, entry.failure)
        portion 1: risk delta 1/2 0.0125
        portion 1: draws delta_prime 1/2 0.005
        portion 2: excess delta 1/2 0.0125
        portion 2: draws plus delta_prime 1/4 0.0025
        portion 2: draws minus delta_prime 1/4 0.0025
        """
        part = Fraction(1, portions)
        shares: list[Share] = [
            ("portion 1: risk", BOUND, "delta", part),
            ("portion 1: draws", BOUND, "delta_prime", part),
        ]
        for t in range(2, portions + 1):
            shares.append((f"portion {t}: excess", BOUND, "delta", part))
            sides = (f"portion {t}: draws plus", f"portion {t}: draws minus")
            shares += [(side, BOUND, "delta_prime", part / 2) for side in sides]
        return cls.of([*shares, *((name, name, "delta", Fraction(1)) for name in beside)], **budget)

    @classmethod
    def comparison(cls, questions: Sequence[str], **budget: Any) -> "Ledger":
        """A comparison, Eq. (L.5): questions in equal parts, each with two sides.

        >>> round(Ledger.comparison(["return"]).failure("return: lower"), 6)
        0.0175
        """
        share = Fraction(1, 2 * len(questions))
        sides = [f"{question}: {side}" for question in questions for side in ("lower", "upper")]
        return cls.of([(side, JOINT, "both", share) for side in sides], **budget)

    @property
    def confidence(self) -> float:
        """Probability that every statement of a whole budget holds: 1 - delta - delta' (L.1)."""
        return float(1 - _amount("both", self.delta, self.delta_prime))

    @property
    def joint_confidence(self) -> float:
        """Probability that all statements hold which need only independent episodes."""
        return self.confidence_of({entry.budget for entry in self.entries} - {STEPS})

    def failure(self, statement: str) -> float:
        """The failure probability of one statement, rounded down."""
        return next(entry.failure for entry in self.entries if entry.statement == statement)

    def confidence_in(self, statement: str) -> float:
        """Probability that one statement holds in every certificate to choose from."""
        return 1.0 - self.candidates * self.failure(statement)

    def confidence_of(self, budgets: Iterable[str]) -> float:
        """Probability that all statements of some budgets hold in every certificate.

        Rounding is against us: the result is never above the exact probability.
        """
        wanted, spent = set(budgets), Fraction(0)
        for entry in self.entries:
            if entry.budget in wanted:
                amount = _amount(entry.source, self.delta, self.delta_prime)
                spent += self.candidates * Fraction(entry.share) * amount
        return max(0.0, _rounded_down(1 - spent))


def _amount(source: Source, delta: float, delta_prime: float) -> Fraction:
    amounts = {"delta": Fraction(delta), "delta_prime": Fraction(delta_prime)}
    return amounts[source] if source != "both" else sum(amounts.values(), Fraction(0))


def _rounded_down(exact: Fraction) -> float:
    nearest = float(exact)
    return nearest if Fraction(nearest) <= exact else math.nextafter(nearest, 0.0)
