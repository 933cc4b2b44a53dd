"""The bound on a posterior's risk: P.1 to P.3, R.1 and C.1 to C.3 of docs/theory.md.

Losses are drawn, their means measured (:class:`Measured`), and bounds computed from the
measurements alone (:class:`Portion`): so other failure probabilities and numbers of episodes can
be tried.
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import ClassVar, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import ConfigDict

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
from tightrope.certificates.statements.base import (
    OUTWARD,
    Chosen,
    Limit,
    Statement,
    Values,
)
from tightrope.certificates.statements.mean_risk import MeanRisk
from tightrope.posteriors import Gaussians, draw_losses, kl_divergence
from tightrope.records import STRICT
from tightrope.seeds import Stream, child_seed

__all__ = [
    "MU",
    "Measured",
    "Portion",
    "PosteriorLosses",
    "bet_for",
    "bound_chain",
    "final_bound",
    "losses_of",
    "measure_chain",
    "risk_statement",
    "starts_of",
    "unit_mean",
]

MU = 0.0  # where excess losses are split; fixed, so it costs nothing


@dataclass(frozen=True)
class PosteriorLosses:
    """Losses of one posterior on the rows from some portion on."""

    losses: Values  # (passes, rows)
    episode: NDArray[np.int64]  # (rows,), non-decreasing
    kl: float
    shared: bool = False  # one weight draw per pass, instead of one per row


@dataclass(frozen=True)
class Measured:
    """What a bound needs to know of one portion.

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
    """

    __pydantic_config__: ClassVar[ConfigDict] = STRICT

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


@dataclass(frozen=True)
class Portion(Measured):
    """One step of a bound: what was measured, what it was corrected to, and the result.

    Attributes:
        kind: ``risk`` (P.1) or (P.3), ``excess`` (P.2), or ``fixed``: H.3, H.7 or T.4.
        upper_plus: `mean_plus`, or with a bet `mean_bet_loss`, after the Monte Carlo correction.
        lower_minus: `mean_minus` after the Monte Carlo correction.
        value: the statement's own bound: B_1, E_t or the bound of a fixed predictor.
        bound: the bound on the risk of this step's posterior, B_t.
    """

    __pydantic_config__: ClassVar[ConfigDict] = STRICT

    kind: Literal["risk", "excess", "fixed"] = "risk"
    upper_plus: float = 0.0
    lower_minus: float = 0.0
    value: float = 1.0
    bound: float = 1.0

    @classmethod
    def fixed(cls, *, episodes: int, n: int, loss: float, bound: float) -> "Portion":
        """The one step of a fixed predictor: nothing is drawn, and there is no divergence."""
        return cls(
            episodes=episodes,
            n=n,
            kl=0.0,
            draws=0,
            loss=loss,
            mean=loss,
            mean_plus=loss,
            kind="fixed",
            upper_plus=loss,
            value=bound,
            bound=bound,
        )


def losses_of(posteriors: Sequence[Gaussians], split: Split) -> list[PosteriorLosses]:
    """Draw the losses of every posterior whose statement enters the bound, on its episodes."""
    scheme, starts = split.settings.scheme, split.starts
    if scheme.kind == "recursive":
        wanted = [(t, starts[t - 1]) for t in range(1, len(posteriors))]
    else:  # only the last posterior is in a statement, on the second portion
        wanted = [(len(posteriors) - 1, starts[1])]
    return [_drawn(posteriors, t, split, split.row_of(episode)) for t, episode in wanted]


def measure_chain(
    drawn: Sequence[PosteriorLosses], *, unit: Unit, kappa: float, bet: float | None
) -> list[Measured]:
    """For t = 1 the risk, for t >= 2 the excess over kappa times the risk before."""
    first, *later = drawn
    found = [_measure_risk(first, unit, bet)]
    return found + [
        _measure_excess(each, before, unit, kappa)
        for before, each in zip(drawn, later, strict=False)
    ]


def bound_chain(
    measured: Sequence[Measured], *, ledger: Ledger, kappa: float
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


def risk_statement(
    portions: Sequence[Portion],
    seen: Evidence,
    unit: Unit,
    ledger: Ledger,
    joint: float,
    chosen: Chosen,
) -> Statement:
    """The statement on the mean risk of a posterior's draws."""
    (_, void), last = final_bound(portions), portions[-1]
    note = "a step of the recursion is negative, so its portions differ" if void else ""
    limit = Limit(1.0 if void else last.bound, None, last.loss, note)
    n = (portions[0] if last.kind == "excess" else last).n
    family = MeanRisk(unit)
    family.quantity = f"RMS error of predicted returns drawn from the posterior, {family.name}"
    stated = family.stated(limit, n, seen, chosen, ledger.confidence_of([BOUND]), joint)
    return replace(stated, void=void)


def bet_for(fit: Evidence | None, split: Split, ledger: Ledger) -> float | None:
    """The bet of (P.3) with the smallest bound if later losses are like those left out."""
    if fit is None or not fit.is_predicted:
        return None
    settings = split.settings
    values = fit.losses if settings.unit == "step" else fit.mean_by_episode(fit.losses)
    rows = len(fit.pairs) / len(fit) / split.thin if settings.unit == "step" else 1.0
    n = max(1, round(rows * len(split.calibration)))
    return float(planned_bet(values, n=n, delta=ledger.failure("portion 1: risk")))


def unit_mean(values: Values, episode: NDArray[np.int64], unit: Unit) -> float:
    """Mean over passes and units, kept inside [0, 1] against rounding."""
    if unit == "episode":
        starts = starts_of(episode)
        values = np.add.reduceat(values, starts, axis=-1) / np.diff(starts, append=len(episode))
    return float(np.clip(values.mean(), 0.0, 1.0))


def _drawn(posteriors: Sequence[Gaussians], t: int, split: Split, start: int) -> PosteriorLosses:
    """Losses of the t-th posterior on the validation rows from `start` on."""
    settings, rows, scaling = split.settings, split.rows, split.scaling
    losses = draw_losses(
        posteriors[t],
        scaling.inputs(rows.observations[start:], rows.step[start:]),
        scaling.targets(rows.returns[start:]),
        passes=settings.mc_passes,
        seed=child_seed(settings.seed, Stream.DRAWS, t - 1),
        sampling=settings.sampling,
    )
    divergence = kl_divergence(posteriors[t], posteriors[t - 1])
    shared = settings.sampling == "weights"
    return PosteriorLosses(losses, rows.episode[start:], divergence, shared)


def _measure_risk(drawn: PosteriorLosses, unit: Unit, bet: float | None) -> Measured:
    mean = unit_mean(drawn.losses, drawn.episode, unit)
    costs = 0.0
    if bet is not None:
        most = float(bet_loss(1.0, bet))
        shares = np.asarray(bet_loss(drawn.losses, bet)) / most
        costs = most * unit_mean(shares, drawn.episode, unit)
    return Measured(
        episodes=len(starts_of(drawn.episode)),
        n=_count(drawn, unit),
        kl=drawn.kl,
        draws=_draws(drawn, unit),
        loss=mean,
        mean=mean,
        mean_plus=mean,
        bet=bet,
        mean_bet_loss=costs,
    )


def _measure_excess(
    drawn: PosteriorLosses, before: PosteriorLosses, unit: Unit, kappa: float
) -> Measured:
    rows = drawn.losses.shape[1]
    # The rows of portions t and later are the last ones of portions t - 1 and later.
    excess = drawn.losses - kappa * before.losses[:, -rows:]
    above, below = 1.0 - MU, MU + kappa
    # Split per draw and row, then averaged; each part divided by its range before the mean.
    plus = unit_mean(np.maximum(excess - MU, 0.0) / above, drawn.episode, unit) * above
    minus = unit_mean(np.maximum(MU - excess, 0.0) / below, drawn.episode, unit) * below
    return Measured(
        episodes=len(starts_of(drawn.episode)),
        n=_count(drawn, unit),
        kl=drawn.kl,
        draws=_draws(drawn, unit),
        loss=unit_mean(drawn.losses, drawn.episode, unit),
        mean=MU + plus - minus,
        mean_plus=plus,
        mean_minus=minus,
    )


def _bound_risk(measured: Measured, ledger: Ledger) -> Portion:
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


def _bound_excess(t: int, measured: Measured, ledger: Ledger, kappa: float) -> Portion:
    above, below = 1.0 - MU, MU + kappa
    name = f"portion {t}: draws"
    plus = monte_carlo_upper(
        measured.mean_plus / above, draws=measured.draws, delta=ledger.failure(f"{name} plus")
    )
    minus = monte_carlo_lower(
        measured.mean_minus / below, draws=measured.draws, delta=ledger.failure(f"{name} minus")
    )
    upper_plus, lower_minus = above * float(plus), below * float(minus)
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


def starts_of(episode: NDArray[np.int64]) -> NDArray[np.int64]:
    """First row of every episode; `episode` (rows,) is non-decreasing."""
    return np.flatnonzero(np.diff(episode, prepend=episode[0] - 1))


def _count(drawn: PosteriorLosses, unit: Unit) -> int:
    return len(drawn.episode) if unit == "step" else len(starts_of(drawn.episode))


def _draws(drawn: PosteriorLosses, unit: Unit) -> int:
    """Independent draws, by (C.3) where the rows of short episodes weigh more."""
    passes = drawn.losses.shape[0]
    if drawn.shared:
        return int(passes)
    if unit == "step":
        return int(passes * len(drawn.episode))
    counts = np.diff(starts_of(drawn.episode), append=len(drawn.episode))
    return int(passes * len(counts) * counts.min())
