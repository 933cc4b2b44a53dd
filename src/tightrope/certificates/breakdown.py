"""How a bound builds up: what each of its terms adds.

The terms are switched on one after the other, in the order of the fields of :class:`Parts`; a part
is what the bound grows by. The inversions are not linear, so another order would divide the same
total slightly differently.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import astuple, dataclass

from tightrope.bounds import bet_loss, pac_bayes_bet, pac_bayes_kl, split_kl
from tightrope.certificates.ledger import LedgerEntry
from tightrope.certificates.statements.pac_bayes import Portion

__all__ = ["PARTS", "Parts", "breakdown"]

# The parts of a bound in words, in the order in which they are switched on.
PARTS = {
    "empirical": "in the sample",
    "spread": "spread of the losses",
    "draws": "Monte Carlo draws",
    "confidence": "confidence",
    "kl": "KL divergence",
}


@dataclass(frozen=True)
class Parts:
    """What each term adds to a bound, on the normalised scale; together they are the bound.

    Attributes:
        empirical: the mean in the sample.
        spread: what unequal losses cost a bet (P.3); 0 in other bounds.
        draws: the correction for Monte Carlo draws (C.1), (C.2).
        confidence: what the failure probability costs at this number of units, with KL = 0.
        kl: what the distance of the posterior from its prior costs.
    """

    empirical: float
    spread: float
    draws: float
    confidence: float
    kl: float

    @property
    def total(self) -> float:
        """The bound."""
        return float(sum(astuple(self)))

    def __add__(self, other: "Parts") -> "Parts":
        return Parts(*(a + b for a, b in zip(astuple(self), astuple(other), strict=True)))

    def scaled(self, factor: float) -> "Parts":
        """All parts times a factor."""
        return Parts(*(factor * part for part in astuple(self)))


def breakdown(
    portions: Sequence[Portion], ledger: Sequence[LedgerEntry], kappa: float
) -> tuple[Parts, ...]:
    """The parts of each portion's bound B_t, following the recursion (R.1).

    Args:
        portions: of a certificate, in one unit.
        ledger: of the same certificate.
        kappa: weight of the previous loss.
    """
    failure = {entry.statement: entry.failure for entry in ledger}
    found: list[Parts] = []
    for t, portion in enumerate(portions, start=1):
        own = _own(portion, t, failure, kappa)
        found.append(own if portion.kind != "excess" else own + found[-1].scaled(kappa))
    return tuple(found)


def _own(portion: Portion, t: int, failure: Mapping[str, float], kappa: float) -> Parts:
    """The parts of the portion's own statement: B_1, E_t or the bound of a fixed predictor."""
    if portion.kind == "risk":
        return _risk(portion, failure["portion 1: risk"])
    if portion.kind == "excess":
        return _excess(portion, failure[f"portion {t}: excess"], kappa)
    return _steps(portion.mean, portion.upper_plus, portion.upper_plus, portion.value, portion)


def _risk(p: Portion, delta: float) -> Parts:
    if p.bet is None:
        certain = float(pac_bayes_kl(min(p.upper_plus, 1.0), kl=0.0, n=p.n, delta=delta))
        return _steps(p.mean, p.mean, p.upper_plus, certain, p)
    without, drawn = (_paid(nats, p.bet) for nats in (p.mean_bet_loss, p.upper_plus))
    certain = float(pac_bayes_bet(_inside(p), bet=p.bet, kl=0.0, n=p.n, delta=delta))
    return _steps(p.mean, without, drawn, certain, p)


def _excess(p: Portion, delta: float, kappa: float) -> Parts:
    certain = split_kl(
        p.upper_plus, p.lower_minus, kl=0.0, n=p.n, delta=delta, low=-kappa, high=1.0, mu=0.0
    )
    return _steps(p.mean, p.mean, p.upper_plus - p.lower_minus, float(certain), p)


def _steps(empirical: float, spread: float, drawn: float, certain: float, p: Portion) -> Parts:
    """Differences between the bound with one more term switched on each time."""
    return Parts(empirical, spread - empirical, drawn - spread, certain - drawn, p.value - certain)


def _paid(nats: float, bet: float) -> float:
    """The risk that a mean of bet losses amounts to (P.3), without confidence and KL."""
    return min(-math.expm1(-nats) / bet, 1.0)


def _inside(p: Portion) -> float:
    """The corrected mean, inside its range in spite of rounding."""
    assert p.bet is not None
    return min(p.upper_plus, float(bet_loss(1.0, p.bet)))
