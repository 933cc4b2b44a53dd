"""Which failure probability goes where: the one place that splits delta and delta'.

A certificate rests on several statements, each of which may fail. The ledger gives every one of
them a share of delta (the data are unrepresentative) or of delta' (the Monte Carlo draws are);
the shares are exact fractions, so that the union bound adds up to 1 exactly. Section L of
docs/theory.md.
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction
from typing import Literal

__all__ = [
    "DELTA",
    "DELTA_PRIME",
    "Entry",
    "Ledger",
    "Source",
    "holdout_ledger",
    "recursive_ledger",
]

DELTA = 0.025  # the paper's choices
DELTA_PRIME = 0.01

Source = Literal["delta", "delta_prime"]


@dataclass(frozen=True)
class Entry:
    """One statement that may fail, and its share of a source of failure probability."""

    statement: str
    source: Source
    share: Fraction


@dataclass(frozen=True)
class Ledger:
    """Shares of delta and delta' over the statements of one certificate.

    Raises:
        ValueError: delta or delta' is outside (0, 1), their sum is not below 1, a share is not
            positive, the shares of a source exceed 1, or a statement appears twice.
    """

    delta: float
    delta_prime: float
    entries: tuple[Entry, ...]

    def __post_init__(self) -> None:
        for name, value in (("delta", self.delta), ("delta_prime", self.delta_prime)):
            if not 0 < value < 1:
                raise ValueError(f"{name} must be in (0, 1), found {value!r}")
        if not self.delta + self.delta_prime < 1:
            raise ValueError(
                f"delta + delta_prime must be below 1, found {self.delta!r} + {self.delta_prime!r}"
            )
        keys = [(entry.statement, entry.source) for entry in self.entries]
        for statement, source in keys:
            if keys.count((statement, source)) > 1:
                raise ValueError(f"statements must differ, found {statement!r} twice in {source}")
        for entry in self.entries:
            if entry.source not in ("delta", "delta_prime"):
                raise ValueError(f"source must be 'delta' or 'delta_prime', found {entry.source!r}")
            if entry.share <= 0:
                raise ValueError(f"share must be positive, found {entry.share} for {entry}")
        for source in ("delta", "delta_prime"):
            total = sum((e.share for e in self.entries if e.source == source), Fraction(0))
            if total > 1:
                raise ValueError(f"shares of {source} must add up to at most 1, found {total}")

    @property
    def confidence(self) -> float:
        """Probability that every statement holds: 1 - delta - delta', Eq. (L.1)."""
        return float(1 - Fraction(self.delta) - Fraction(self.delta_prime))

    def failure(self, statement: str) -> float:
        """The failure probability of one statement, from all its sources, rounded down.

        Raises:
            ValueError: there is no such statement.
        """
        shares = [
            e.share * Fraction(getattr(self, e.source))
            for e in self.entries
            if e.statement == statement
        ]
        if not shares:
            known = ", ".join(repr(entry.statement) for entry in self.entries)
            raise ValueError(f"statement must be one of {known}, found {statement!r}")
        return _rounded_down(sum(shares, Fraction(0)))

    def __str__(self) -> str:
        width = max((len(entry.statement) for entry in self.entries), default=0)
        lines = [
            f"{entry.statement:<{width}}  {entry.source:<11}  x {entry.share!s:<5}"
            f"  = {float(entry.share * Fraction(getattr(self, entry.source))):.6g}"
            for entry in self.entries
        ]
        return "\n".join([*lines, f"confidence 1 - delta - delta_prime = {self.confidence:.6g}"])


def recursive_ledger(
    portions: int, *, delta: float = DELTA, delta_prime: float = DELTA_PRIME, candidates: int = 1
) -> Ledger:
    """The ledger of a recursion over `portions`, Eq. (L.2); one portion is the plain bound.

    Statements are named ``portion t: risk`` (t = 1) or ``portion t: excess`` (t >= 2, whose two
    sides share it inside the split-kl theorem), ``portion 1: draws``, ``portion t: draws plus``
    and ``portion t: draws minus``. With `candidates` certificates to choose from, each gets an
    equal part of everything.

    >>> print(recursive_ledger(2))
    portion 1: risk         delta        x 1/2    = 0.0125
    portion 1: draws        delta_prime  x 1/2    = 0.005
    portion 2: excess       delta        x 1/2    = 0.0125
    portion 2: draws plus   delta_prime  x 1/4    = 0.0025
    portion 2: draws minus  delta_prime  x 1/4    = 0.0025
    confidence 1 - delta - delta_prime = 0.965
    """
    for name, value in (("portions", portions), ("candidates", candidates)):
        if value < 1 or value != int(value):
            raise ValueError(f"{name} must be a whole number of at least 1, found {value!r}")
    return Ledger(delta, delta_prime, tuple(_recursive_entries(portions, candidates)))


def holdout_ledger(
    *, delta: float = DELTA, delta_prime: float = DELTA_PRIME, shared_draws: bool = False
) -> Ledger:
    """The ledger of a hold-out bound, Eq. (L.3).

    With a fresh draw for every row, one statement covers data and draws and gets everything; with
    one weight draw per pass, the draws are a statement of their own.
    """
    draws = "hold-out: draws" if shared_draws else "hold-out: risk"
    one = Fraction(1)
    entries = (Entry("hold-out: risk", "delta", one), Entry(draws, "delta_prime", one))
    return Ledger(delta, delta_prime, entries)


def _recursive_entries(portions: int, candidates: int) -> Iterable[Entry]:
    share = Fraction(1, portions * candidates)
    yield Entry("portion 1: risk", "delta", share)
    yield Entry("portion 1: draws", "delta_prime", share)
    for t in range(2, portions + 1):
        yield Entry(f"portion {t}: excess", "delta", share)
        yield Entry(f"portion {t}: draws plus", "delta_prime", share / 2)
        yield Entry(f"portion {t}: draws minus", "delta_prime", share / 2)


def _rounded_down(exact: Fraction) -> float:
    nearest = float(exact)
    return nearest if Fraction(nearest) <= exact else math.nextafter(nearest, 0.0)
