"""From what was measured to the bound: the one place where PAC-Bayes bounds and ledger meet.

Nothing here needs data or a posterior, so that other failure probabilities and numbers of episodes
can be tried on the same measurements.
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Literal

from tightrope.bounds import (
    bet_loss,
    monte_carlo_lower,
    monte_carlo_upper,
    pac_bayes_bet,
    pac_bayes_kl,
    recursive_bound,
    split_kl,
)
from tightrope.certificates.ledger import Ledger
from tightrope.certificates.measure import MU, Measured

__all__ = ["Portion", "bound_portions", "bound_risk", "final_bound"]


@dataclass(frozen=True)
class Portion(Measured):
    """One step of a bound: what was measured, what it was corrected to, what follows.

    Attributes:
        kind: ``risk`` (P.1) or (P.3), ``excess`` (P.2), ``holdout`` (H.3) or ``tolerance`` (T.4).
        upper_plus: `mean_plus`, or with a bet `mean_bet_loss`, after the Monte Carlo correction.
        lower_minus: `mean_minus` after the Monte Carlo correction.
        value: the statement's own bound: B_1, E_t or the bound of a fixed predictor.
        bound: the bound on the risk of this step's posterior, B_t.
    """

    kind: Literal["risk", "excess", "holdout", "tolerance"] = "risk"
    upper_plus: float = 0.0
    lower_minus: float = 0.0
    value: float = 1.0
    bound: float = 1.0


def bound_portions(
    measured: Sequence[Measured], *, ledger: Ledger, kappa: float
) -> tuple[Portion, ...]:
    """The recursion (R.1) with the Monte Carlo corrections (C.1), (C.2); one portion is (P.1).

    Args:
        measured: for t = 1 the risk, for t >= 2 the excess of the t-th posterior.
        ledger: the failure probability of each statement (:func:`recursive_ledger`).
        kappa: weight of the loss before, in (0, 1].
    """
    first, *later = measured
    steps = [bound_risk(first, ledger=ledger)]
    steps += [_excess(t, each, ledger, kappa) for t, each in enumerate(later, start=2)]
    bounds = recursive_bound(steps[0].value, [s.value for s in steps[1:]], kappa=kappa)
    return tuple(
        replace(step, bound=float(bound)) for step, bound in zip(steps, bounds, strict=True)
    )


def final_bound(portions: Sequence[Portion]) -> tuple[float, bool]:
    """The certified bound in [0, 1], and whether the recursion is void.

    A bound on a squared loss cannot be negative: some statement has failed, or the portions have
    different distributions (R.1). Such a certificate says nothing.
    """
    if any(portion.bound < 0 for portion in portions):
        return 1.0, True
    return min(portions[-1].bound, 1.0), False


def bound_risk(measured: Measured, *, ledger: Ledger) -> Portion:
    """The bound on a risk: (P.3) if a bet was fixed beforehand, else (P.1)."""
    draws, failure = ledger.failure("portion 1: draws"), ledger.failure("portion 1: risk")
    kl, n = measured.kl, measured.n
    if measured.bet is None:
        upper = float(monte_carlo_upper(measured.mean, draws=measured.draws, delta=draws))
        value = float(pac_bayes_kl(upper, kl=kl, n=n, delta=failure))
    else:  # terms in [0, -ln(1 - bet)]: divided by the range before the inversion
        most = float(bet_loss(1.0, measured.bet))
        share = min(measured.mean_bet_loss / most, 1.0)
        upper = most * float(monte_carlo_upper(share, draws=measured.draws, delta=draws))
        value = float(pac_bayes_bet(min(upper, most), bet=measured.bet, kl=kl, n=n, delta=failure))
    return Portion(**asdict(measured), kind="risk", upper_plus=upper, value=value)


def _excess(t: int, measured: Measured, ledger: Ledger, kappa: float) -> Portion:
    above, below = 1.0 - MU, MU + kappa
    name = f"portion {t}: draws"
    upper_plus = above * float(
        monte_carlo_upper(
            measured.mean_plus / above,
            draws=measured.draws,
            delta=ledger.failure(f"{name} plus"),
        )
    )
    lower_minus = below * float(
        monte_carlo_lower(
            measured.mean_minus / below,
            draws=measured.draws,
            delta=ledger.failure(f"{name} minus"),
        )
    )
    value = split_kl(
        upper_plus,
        lower_minus,
        kl=measured.kl,
        n=measured.n,
        delta=ledger.failure(f"portion {t}: excess"),
        low=-kappa,
        high=1.0,
        mu=MU,
    )
    return Portion(
        **asdict(measured),
        kind="excess",
        upper_plus=upper_plus,
        lower_minus=lower_minus,
        value=float(value),
    )
