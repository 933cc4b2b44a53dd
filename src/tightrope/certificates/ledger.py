"""Which failure probability goes where: the one place that splits delta and delta'.

A certificate rests on several statements, each of which may fail. The ledger gives every one of
them a share of delta (the data are unrepresentative) or of delta' (the Monte Carlo draws are);
the shares are exact fractions, so that the union bound adds up to 1 exactly. Section L of
docs/theory.md.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Literal

__all__ = [
    "DELTA",
    "DELTA_PRIME",
    "Entry",
    "Ledger",
    "Source",
    "Spent",
    "auto_ledger",
    "beside",
    "comparison_ledger",
    "holdout_ledger",
    "recursive_ledger",
]

DELTA = 0.025  # the paper's choices
DELTA_PRIME = 0.01

Source = Literal["delta", "delta_prime"]

# Of delta and delta' alike, since nothing is drawn; measured in docs/tightness.md.
_AUTO = {
    "tolerance": Fraction(57, 100),  # and what follows from it: mean risk, unit episode
    "mean risk, unit step": Fraction(23, 100),
    "band": Fraction(5, 100),
    "monitor": Fraction(5, 100),
    "return": Fraction(5, 100),
    "failure": Fraction(5, 100),
}


@dataclass(frozen=True)
class Entry:
    """One statement that may fail, and its share of a source of failure probability."""

    statement: str
    source: Source
    share: Fraction


@dataclass(frozen=True)
class Spent:
    """An entry as it stands in a certificate: the share as text, and the probability it is."""

    statement: str
    source: Source
    share: str
    failure: float


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
    candidates: int = 1  # certificates to choose from: each of them spends such shares

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

    def confidence_in(self, statement: str) -> float:
        """Probability that one statement holds in every certificate to choose from."""
        return 1.0 - self.candidates * self.failure(statement)

    def spent(self) -> tuple[Spent, ...]:
        """The entries as they stand in a certificate."""
        return tuple(
            Spent(
                e.statement,
                e.source,
                str(e.share),
                _rounded_down(e.share * Fraction(getattr(self, e.source))),
            )
            for e in self.entries
        )

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
    return Ledger(delta, delta_prime, tuple(_recursive_entries(portions, candidates)), candidates)


def holdout_ledger(
    *, delta: float = DELTA, delta_prime: float = DELTA_PRIME, candidates: int = 1
) -> Ledger:
    """The ledger of a hold-out bound, Eq. (L.3): nothing is drawn, one statement gets all."""
    share = Fraction(1, candidates)
    return Ledger(delta, delta_prime, tuple(_from_both("hold-out: risk", share)), candidates)


def auto_ledger(
    returns: Sequence[str],
    failures: Sequence[str],
    *,
    delta: float = DELTA,
    delta_prime: float = DELTA_PRIME,
    candidates: int = 1,
) -> Ledger:
    """The ledger of all statements of a fixed predictor, which hold jointly, Eq. (L.4).

    Args:
        returns: names of the statements on returns; they share one part.
        failures: names of the statements on failure probabilities; they share one part.
        delta: failure probability over the data.
        delta_prime: failure probability of draws; there are none, so it is spent on the data too.
        candidates: certificates to choose from.
    """
    entries: list[Entry] = []
    for name, part in _AUTO.items():
        names = {"return": returns, "failure": failures}.get(name, [name])
        for statement in names:
            entries += _from_both(statement, part / len(names) / candidates)
    return Ledger(delta, delta_prime, tuple(entries), candidates)


def comparison_ledger(
    questions: Sequence[str], *, delta: float = DELTA, delta_prime: float = DELTA_PRIME
) -> Ledger:
    """The ledger of a comparison, Eq. (L.5): questions in equal parts, each with two sides.

    Statements are named ``QUESTION: lower`` and ``QUESTION: upper``. Nothing is drawn, so delta' is
    spent on the data, too.

    >>> print(comparison_ledger(["return"]))
    return: lower  delta        x 1/2    = 0.0125
    return: lower  delta_prime  x 1/2    = 0.005
    return: upper  delta        x 1/2    = 0.0125
    return: upper  delta_prime  x 1/2    = 0.005
    confidence 1 - delta - delta_prime = 0.965
    """
    share = Fraction(1, 2 * len(questions))
    entries: list[Entry] = []
    for question in questions:
        for side in ("lower", "upper"):
            entries += _from_both(f"{question}: {side}", share)
    return Ledger(delta, delta_prime, tuple(entries))


def beside(*, delta: float, candidates: int) -> float:
    """The failure probability of a statement outside the ledger, with a delta of its own."""
    return _rounded_down(Fraction(delta) / candidates)


def _from_both(statement: str, share: Fraction) -> list[Entry]:
    return [Entry(statement, "delta", share), Entry(statement, "delta_prime", share)]


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
