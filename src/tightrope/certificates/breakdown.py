"""How a bound builds up: what each of its terms adds.

The terms are switched on one after the other, in the order of :data:`PARTS`; a part is what the
bound grows by. The inversions are not linear, so another order would divide the same total slightly
differently.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

from tightrope.bounds import bet_loss, pac_bayes_bet, pac_bayes_kl, split_kl
from tightrope.certificates.ledger import LedgerEntry
from tightrope.certificates.statements.pac_bayes import Portion

__all__ = ["PARTS", "Parts", "breakdown"]

# The mean in the sample; what unequal losses cost a bet (P.3); the correction for Monte Carlo draws
# (C.1), (C.2); what the failure probability costs with KL = 0; what the KL divergence costs.
PARTS = {
    "empirical": "in the sample",
    "spread": "spread of the losses",
    "draws": "Monte Carlo draws",
    "confidence": "confidence",
    "kl": "KL divergence",
}
Parts: TypeAlias = Mapping[str, float]  # by the keys of PARTS, normalised; their sum is the bound


def breakdown(
    portions: Sequence[Portion], ledger: Sequence[LedgerEntry], kappa: float
) -> list[Parts]:
    """The parts of each portion's bound B_t, following the recursion (R.1).

    Args:
        portions: of a certificate, in one unit.
        ledger: of the same certificate.
        kappa: weight of the previous loss.
    """
    failure = {entry.statement: entry.failure for entry in ledger}
    found: list[Parts] = []
    for t, portion in enumerate(portions, start=1):
        levels = _levels(portion, failure.get(f"portion {t}: {portion.kind}", 0.0), kappa)
        parts = (high - low for low, high in zip((0.0, *levels), levels, strict=False))
        before = found[-1].values() if portion.kind == "excess" else [0.0] * len(PARTS)
        pairs = zip(PARTS, parts, before, strict=True)
        found.append({name: part + kappa * each for name, part, each in pairs})
    return found


def _levels(p: Portion, delta: float, kappa: float) -> tuple[float, ...]:
    """The portion's own bound (B_1, E_t, a fixed predictor's) with one more term each time."""
    spread, drawn = p.mean, p.upper_plus
    certain: Any = p.value
    if p.kind == "fixed":
        spread = p.upper_plus
    elif p.kind == "excess":
        drawn = p.upper_plus - p.lower_minus
        certain = split_kl(
            p.upper_plus, p.lower_minus, kl=0.0, n=p.n, delta=delta, low=-kappa, high=1.0, mu=0.0
        )
    elif p.bet is None:
        certain = pac_bayes_kl(min(p.upper_plus, 1.0), kl=0.0, n=p.n, delta=delta)
    else:
        spread, drawn = (min(-math.expm1(-x) / p.bet, 1.0) for x in (p.mean_bet_loss, p.upper_plus))
        inside = min(p.upper_plus, float(bet_loss(1.0, p.bet)))  # in spite of rounding
        certain = pac_bayes_bet(inside, bet=p.bet, kl=0.0, n=p.n, delta=delta)
    return p.mean, spread, drawn, float(certain), p.value
