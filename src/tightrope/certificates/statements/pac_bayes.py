"""The bound on a posterior's risk: P.1 to P.3, R.1 and C.1 to C.3 of docs/theory.md.

Losses are drawn, their means measured, and bounds computed from the measurements alone
(:class:`Portion`): so other failure probabilities and numbers of episodes can be tried.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from tightrope.bounds import (
    bet_loss,
    monte_carlo_lower,
    monte_carlo_upper,
    pac_bayes_bet,
    pac_bayes_kl,
    planned_bet,
    recursive_bound,
    split_kl,
)
from tightrope.certificates.evidence import Evidence
from tightrope.certificates.ledger import BOUND, Ledger
from tightrope.certificates.options import Unit
from tightrope.certificates.split import Split
from tightrope.certificates.statements.base import OUTWARD, Chosen, Limit, Statement, Task, Values
from tightrope.certificates.statements.mean_risk import MeanRisk
from tightrope.posteriors import Gaussians, draw_losses, kl_divergence
from tightrope.records import Strict
from tightrope.seeds import Stream, child_seed

__all__ = ["Drawn", "Portion", "PosteriorRisk", "bound_chain", "final_bound", "measure_chain"]


@dataclass(frozen=True)
class Drawn:
    """Losses of one posterior on the rows from some portion on."""

    losses: Values  # (passes, rows)
    episode: NDArray[np.int64]  # (rows,), non-decreasing
    kl: float
    shared: bool = False  # one weight draw per pass, instead of one per row


@dataclass(frozen=True)
class Portion(Strict):
    """One step of a bound: what was measured, what it was corrected to, and the result.

    An excess is split at mu = 0, which is fixed beforehand and so costs nothing.

    Attributes:
        episodes: in the portions that it is evaluated on.
        n: independent units among them.
        kl: divergence of the posterior from its prior, in nats.
        draws: independent Monte Carlo draws that the means are worth (C.3).
        loss: mean loss of the posterior itself.
        mean: mean loss, or mean excess.
        mean_plus: mean of the part above mu; the loss itself for a risk.
        mean_minus: mean of the part below mu; 0 for a risk.
        bet: of (P.3), fixed beforehand; None for (P.1) and for an excess.
        mean_bet_loss: mean of -ln(1 - bet * loss); 0 without a bet.
        kind: ``risk`` (P.1) or (P.3), ``excess`` (P.2), or ``fixed``: H.3, H.7 or T.4.
        upper_plus: `mean_plus`, or with a bet `mean_bet_loss`, after the Monte Carlo correction.
        lower_minus: `mean_minus` after the Monte Carlo correction.
        value: the statement's own bound: B_1, E_t or the bound of a fixed predictor.
        bound: the bound on the risk of this step's posterior, B_t.
    """

    episodes: int
    n: int
    kl: float
    draws: int
    loss: float
    mean: float
    mean_plus: float
    mean_minus: float = 0.0
    bet: float | None = None
    mean_bet_loss: float = 0.0
    kind: Literal["risk", "excess", "fixed"] = "risk"
    upper_plus: float = 0.0
    lower_minus: float = 0.0
    value: float = 1.0
    bound: float = 1.0


class PosteriorRisk(MeanRisk):
    """The mean risk of predictors drawn from the last posterior; its portions bound it."""

    def __init__(self, unit: Unit) -> None:
        super().__init__(unit)
        self.quantity = f"RMS error of predicted returns drawn from the posterior, {self.name}"

    @property
    def budget(self) -> str:
        """Of the statement that a bet is for."""
        return "portion 1: risk"

    def choose(self, fit: Evidence | None, task: Task) -> Chosen:
        """The bet of (P.3) with the smallest bound if later losses are like those left out."""
        if fit is None or not fit.is_predicted:
            return {"bet": None}
        n = fit.units(self.unit, task.episodes, task.thin)
        return {"bet": float(planned_bet(fit.risks(self.unit), n=n, delta=task.delta))}

    def of_portions(
        self, portions: Sequence[Portion], seen: Evidence, chosen: Chosen, ledger: Ledger
    ) -> Statement:
        """The statement that portions come to."""
        (_, void), last = final_bound(portions), portions[-1]
        note = "a step of the recursion is negative, so its portions differ" if void else ""
        limit = Limit(1.0 if void else last.bound, None, last.loss, note)
        n = (portions[0] if last.kind == "excess" else last).n
        confidence = ledger.confidence_of([BOUND])
        stated = self.stated(limit, n, seen, chosen, confidence, ledger.joint_confidence)
        return replace(stated, void=void)


def draw_chain(posteriors: Sequence[Gaussians], split: Split) -> list[Drawn]:
    """Draw the losses of every posterior whose statement enters the bound, on its episodes."""
    settings, starts, scaling = split.settings, split.starts, split.scaling
    if settings.scheme.kind == "recursive":
        wanted = [(t, starts[t - 1]) for t in range(1, len(posteriors))]
    else:  # only the last posterior is in a statement, on the second portion
        wanted = [(len(posteriors) - 1, starts[1])]
    found = []
    for t, first in wanted:
        rows = slice(split.row_of(first), None)
        losses = draw_losses(
            posteriors[t],
            scaling.inputs(split.rows.observations[rows], split.rows.step[rows]),
            scaling.targets(split.rows.returns[rows]),
            passes=settings.mc_passes,
            seed=child_seed(settings.seed, Stream.DRAWS, t - 1),
            sampling=settings.sampling,
        )
        divergence = kl_divergence(posteriors[t], posteriors[t - 1])
        shared = settings.sampling == "weights"
        found.append(Drawn(losses, split.rows.episode[rows], divergence, shared))
    return found


def measure_chain(
    drawn: Sequence[Drawn], *, unit: Unit, kappa: float, bet: float | None
) -> list[Portion]:
    """For t = 1 the risk, for t >= 2 the excess over kappa times the risk before."""
    before = (None, *drawn)
    return [
        _measured(one, last, unit, kappa, bet) for one, last in zip(drawn, before, strict=False)
    ]


def bound_chain(
    measured: Sequence[Portion], *, ledger: Ledger, kappa: float
) -> tuple[Portion, ...]:
    """The recursion (R.1) with the Monte Carlo corrections (C.1), (C.2); one portion is (P.1).

    Args:
        measured: for t = 1 the risk, for t >= 2 the excess of the t-th posterior.
        ledger: the failure probability of each statement.
        kappa: weight of the previous loss, in (0, 1].
    """
    first, *later = measured
    steps = [_bound_risk(first, ledger)]
    steps += [_bound_excess(t, each, ledger, kappa) for t, each in enumerate(later, start=2)]
    bounds = recursive_bound(steps[0].value, [s.value for s in steps[1:]], kappa=kappa)
    return tuple(
        replace(step, bound=float(bound)) for step, bound in zip(steps, bounds, strict=True)
    )


def final_bound(portions: Sequence[Portion]) -> tuple[float, bool]:
    """The certified bound in [0, 1], rounded outward, and whether the recursion is void.

    A bound on a squared loss cannot be negative: some statement has failed, or the portions have
    different distributions (R.1). Such a certificate says nothing.
    """
    if any(portion.bound < 0 for portion in portions):
        return 1.0, True
    return min(portions[-1].bound * (1.0 + OUTWARD), 1.0), False


def unit_mean(values: Values, episode: NDArray[np.int64], unit: Unit) -> float:
    """Mean over passes and units, kept inside [0, 1] against rounding."""
    if unit == "episode":
        starts = starts_of(episode)
        values = np.add.reduceat(values, starts, axis=-1) / np.diff(starts, append=len(episode))
    return float(np.clip(values.mean(), 0.0, 1.0))


def starts_of(episode: NDArray[np.int64]) -> NDArray[np.int64]:
    """First row of every episode; `episode` (rows,) is non-decreasing."""
    return np.flatnonzero(np.diff(episode, prepend=episode[0] - 1))


def _measured(
    drawn: Drawn, before: Drawn | None, unit: Unit, kappa: float, bet: float | None
) -> Portion:
    def mean(values: Values) -> float:
        return unit_mean(values, drawn.episode, unit)

    (passes, rows), loss = drawn.losses.shape, mean(drawn.losses)
    steps = np.diff(starts_of(drawn.episode), append=rows)  # of each episode
    # By (C.3) draws count for less where the rows of short episodes weigh more.
    draws = rows if unit == "step" else len(steps) * int(steps.min())
    risk = Portion(
        episodes=len(steps),
        n=rows if unit == "step" else len(steps),
        kl=drawn.kl,
        draws=passes * (1 if drawn.shared else draws),
        loss=loss,
        mean=loss,
        mean_plus=loss,
    )
    if before is not None:
        # The rows of portions t and later are the last ones of portions t - 1 and later.
        excess = drawn.losses - kappa * before.losses[:, -rows:]
        # Split per draw and row, then averaged; each part divided by its range before the mean.
        plus = mean(np.maximum(excess, 0.0))
        minus = kappa * mean(np.maximum(-excess, 0.0) / kappa)
        return replace(risk, mean=plus - minus, mean_plus=plus, mean_minus=minus)
    if bet is None:
        return risk
    most = float(bet_loss(1.0, bet))
    costs = most * mean(np.asarray(bet_loss(drawn.losses, bet)) / most)
    return replace(risk, bet=bet, mean_bet_loss=costs)


def _bound_risk(p: Portion, ledger: Ledger) -> Portion:
    """The bound on a risk: (P.3) if a bet was fixed beforehand, else (P.1)."""
    draws, failure = ledger.failure("portion 1: draws"), ledger.failure("portion 1: risk")
    if p.bet is None:
        upper = float(monte_carlo_upper(p.mean, draws=p.draws, delta=draws))
        value = pac_bayes_kl(upper, kl=p.kl, n=p.n, delta=failure)
    else:  # terms in [0, -ln(1 - bet)]: divided by the range before the inversion
        most = float(bet_loss(1.0, p.bet))
        share = min(p.mean_bet_loss / most, 1.0)
        upper = most * float(monte_carlo_upper(share, draws=p.draws, delta=draws))
        value = pac_bayes_bet(min(upper, most), bet=p.bet, kl=p.kl, n=p.n, delta=failure)
    return replace(p, upper_plus=upper, value=float(value))


def _bound_excess(t: int, p: Portion, ledger: Ledger, kappa: float) -> Portion:
    """The bound on an excess, a loss in [-kappa, 1] (P.2)."""
    above, below, whole = (
        ledger.failure(f"portion {t}: {part}") for part in ("draws plus", "draws minus", "excess")
    )
    plus = float(monte_carlo_upper(p.mean_plus, draws=p.draws, delta=above))
    minus = kappa * float(monte_carlo_lower(p.mean_minus / kappa, draws=p.draws, delta=below))
    value = split_kl(plus, minus, kl=p.kl, n=p.n, delta=whole, low=-kappa, high=1.0, mu=0.0)
    return replace(p, kind="excess", upper_plus=plus, lower_minus=minus, value=float(value))
