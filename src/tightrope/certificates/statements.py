"""From Monte Carlo losses and KL divergences to a bound: the one place where they meet.

Everything here is arithmetic on arrays, through `tightrope.bounds`; sections R and S of
docs/theory.md. Losses have shape (passes, rows) and lie in [0, 1]; `episode` gives the episode
of each row.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from tightrope.bounds import (
    betting_upper,
    monte_carlo_lower,
    monte_carlo_upper,
    pac_bayes_kl,
    recursive_bound,
    split_kl,
)
from tightrope.certificates.ledger import Ledger

__all__ = [
    "MU",
    "Drawn",
    "Statement",
    "Unit",
    "clipped",
    "effective_size",
    "holdout_statement",
    "recursive_statements",
    "unit_means",
    "units",
]

Unit = Literal["step", "episode"]
Losses = NDArray[np.float64]
MU = 0.0  # where excess losses are split; fixed, so nothing is paid for it


@dataclass(frozen=True)
class Drawn:
    """Losses of one posterior on the rows from some portion on."""

    losses: Losses  # (passes, rows)
    episode: NDArray[np.int64]  # (rows,), non-decreasing
    shared: bool = False  # one weight draw per pass, instead of one per row


@dataclass(frozen=True)
class Statement:
    """One step of a certificate: what was measured, what it was corrected to, what follows.

    Attributes:
        kind: ``risk``, ``excess`` or ``holdout``.
        episodes: in the portions that the statement is evaluated on.
        n: independent units among them.
        kl: divergence of the posterior from its prior, in nats; 0 for a hold-out.
        draws: independent Monte Carlo draws.
        mean: measured mean loss, or mean excess.
        mean_plus: measured mean of the part above mu; the loss itself for a risk.
        mean_minus: measured mean of the part below mu.
        upper_plus: `mean_plus` after the Monte Carlo correction.
        lower_minus: `mean_minus` after the Monte Carlo correction.
        value: the statement's own bound: B_1, E_t or the hold-out bound.
        bound: the bound on the risk of this step's posterior, B_t.
    """

    kind: Literal["risk", "excess", "holdout"]
    episodes: int
    n: int
    kl: float
    draws: int
    mean: float
    mean_plus: float
    mean_minus: float
    upper_plus: float
    lower_minus: float
    value: float
    bound: float


def clipped(bound: float) -> float:
    """A bound on a loss in [0, 1]: vacuous above 1; below 0 only if the portions differ (R.1)."""
    return min(max(bound, 0.0), 1.0)


def units(values: Losses, episode: NDArray[np.int64], unit: Unit) -> Losses:
    """Values per unit: the rows themselves, or the mean over the rows of each episode."""
    if unit == "step":
        return values
    starts = np.flatnonzero(np.diff(episode, prepend=episode[0] - 1))
    sums = np.add.reduceat(values, starts, axis=-1)
    return np.asarray(sums / np.diff(starts, append=len(episode)))


def unit_means(values: Losses, episode: NDArray[np.int64], unit: Unit) -> float:
    """Mean over passes and units, kept inside [0, 1] against rounding."""
    return float(np.clip(units(values, episode, unit).mean(), 0.0, 1.0))


def recursive_statements(
    drawn: Sequence[Drawn],
    divergences: Sequence[float],
    *,
    unit: Unit,
    ledger: Ledger,
    kappa: float,
) -> list[Statement]:
    """The recursion (R.1) over T portions, with the Monte Carlo corrections (C.1), (C.2).

    Args:
        drawn: for t = 1 ... T the losses of the t-th posterior on the rows of portions t and later.
        divergences: KL of the t-th posterior from the one before.
        unit: what counts as independent.
        ledger: the failure probability of each statement (:func:`recursive_ledger`).
        kappa: weight of the loss before, in (0, 1].
    """
    first = _risk(drawn[0], divergences[0], unit, ledger)
    later = [
        _excess(t, drawn[t - 1], drawn[t - 2], divergences[t - 1], unit, ledger, kappa)
        for t in range(2, len(drawn) + 1)
    ]
    bounds = recursive_bound(first.value, [s.value for s in later], kappa=kappa)
    return [
        Statement(**{**vars(statement), "bound": float(bound)})
        for statement, bound in zip([first, *later], bounds, strict=True)
    ]


def holdout_statement(drawn: Drawn, *, unit: Unit, ledger: Ledger) -> Statement:
    """The betting bound (H.3) for a posterior that the rows did not influence.

    With a fresh draw for every row, a unit's mean over the passes is one value in [0, 1] whose
    expectation, over data and draws together, is the risk: the draws need no correction of their
    own. With one weight draw per pass, the bound is on the average risk of the drawn predictors,
    and (C.1) leads from there to the risk of the posterior.
    """
    values = units(drawn.losses, drawn.episode, unit).mean(axis=0)
    bound = float(betting_upper(np.clip(values, 0.0, 1.0), delta=ledger.failure("hold-out: risk")))
    if drawn.shared:
        failure = ledger.failure("hold-out: draws")
        bound = float(monte_carlo_upper(bound, draws=_draws(drawn, unit), delta=failure))
    mean = float(values.mean())
    count = len(np.unique(drawn.episode))
    return Statement(
        "holdout",
        count,
        len(values),
        0.0,
        _draws(drawn, unit),
        mean,
        mean,
        0.0,
        mean,
        0.0,
        bound,
        bound,
    )


def effective_size(losses: Losses, episode: NDArray[np.int64]) -> float:
    """Independent steps that carry as much information on the mean loss as all of them do.

    N divided by the design effect of episodes as clusters: the variance of the mean over
    independent episodes, in ratio to what it would be over independent steps.
    """
    loss = losses.mean(axis=0)
    count = len(np.unique(episode))
    deviation = loss - loss.mean()
    variance = float(np.mean(deviation**2))
    if count < 2 or variance == 0:
        return float(count)
    totals = np.bincount(episode - episode.min(), weights=deviation)
    clustered = count / (count - 1) * float(np.sum(totals**2)) / len(loss) ** 2
    effect = clustered / (variance / len(loss))
    return float(np.clip(len(loss) / effect, 1.0, len(loss))) if effect > 0 else float(len(loss))


def _risk(drawn: Drawn, divergence: float, unit: Unit, ledger: Ledger) -> Statement:
    mean = unit_means(drawn.losses, drawn.episode, unit)
    n, draws = _count(drawn, unit), _draws(drawn, unit)
    upper = float(monte_carlo_upper(mean, draws=draws, delta=ledger.failure("portion 1: draws")))
    failure = ledger.failure("portion 1: risk")
    value = float(pac_bayes_kl(upper, kl=divergence, n=n, delta=failure))
    episodes = len(np.unique(drawn.episode))
    return Statement(
        "risk", episodes, n, divergence, draws, mean, mean, 0.0, upper, 0.0, value, value
    )


def _excess(
    t: int, drawn: Drawn, before: Drawn, divergence: float, unit: Unit, ledger: Ledger, kappa: float
) -> Statement:
    rows = drawn.losses.shape[1]
    # The rows of portions t and later are the last ones of portions t - 1 and later.
    excess = drawn.losses - kappa * before.losses[:, -rows:]
    above, below = 1.0 - MU, MU + kappa
    # Split per draw and row, then averaged; each part divided by its range before any inversion.
    mean_plus = unit_means(np.maximum(excess - MU, 0.0) / above, drawn.episode, unit) * above
    mean_minus = unit_means(np.maximum(MU - excess, 0.0) / below, drawn.episode, unit) * below
    n, draws = _count(drawn, unit), _draws(drawn, unit)
    name = f"portion {t}: draws"
    upper_plus = above * float(
        monte_carlo_upper(mean_plus / above, draws=draws, delta=ledger.failure(f"{name} plus"))
    )
    lower_minus = below * float(
        monte_carlo_lower(mean_minus / below, draws=draws, delta=ledger.failure(f"{name} minus"))
    )
    value = split_kl(
        upper_plus,
        lower_minus,
        kl=divergence,
        n=n,
        delta=ledger.failure(f"portion {t}: excess"),
        low=-kappa,
        high=1.0,
        mu=MU,
    )
    episodes = len(np.unique(drawn.episode))
    mean = MU + mean_plus - mean_minus
    return Statement(
        "excess", episodes, n, divergence, draws, mean, mean_plus, mean_minus, upper_plus,
        lower_minus, float(value), float(value),
    )  # fmt: skip


def _count(drawn: Drawn, unit: Unit) -> int:
    return len(drawn.episode) if unit == "step" else len(np.unique(drawn.episode))


def _draws(drawn: Drawn, unit: Unit) -> int:
    passes = drawn.losses.shape[0]
    return int(passes if drawn.shared else passes * _count(drawn, unit))
