"""What more episodes would bring: the statements of a certificate as they would be with others.

A forecast, not a promise. It takes what was measured to stay as it is (the predictor, its losses,
a posterior's divergence) and puts another number of episodes into the same bounds.
"""

from dataclasses import dataclass, fields, replace

import numpy as np
from numpy.typing import NDArray
from scipy.special import logsumexp

from tightrope.bounds import (
    clopper_pearson_upper,
    default_bets,
    planned_bets,
    tolerance_rank,
    tolerance_share,
)
from tightrope.certificates.assess import ledger_of
from tightrope.certificates.breakdown import PARTS, Parts, breakdown
from tightrope.certificates.certificate import Certificate
from tightrope.certificates.data import Data, View, prepare, view
from tightrope.certificates.deviations import largest_deviations, predictions_along
from tightrope.certificates.fixed import Errors, errors, profile_at, tolerances
from tightrope.certificates.ledger import Ledger, beside
from tightrope.certificates.measure import Measured, unit_values
from tightrope.certificates.options import Unit
from tightrope.certificates.portions import Portion, bound_portions, final_bound
from tightrope.certificates.statements import Statement
from tightrope.errors import InputError
from tightrope.rollouts import discounted_returns

__all__ = ["Terms", "episodes_for", "forecast", "terms"]

_MOST = 100_000  # episodes that a search goes up to
_FINEST = 2000  # values that stand for all of them
_HALVINGS = 40
_TAIL = 0.2  # of the scores, whose excess says how far larger ones would be
_COUNTED = ("episodes", "n", "draws")

Values = NDArray[np.float64]


@dataclass(frozen=True)
class Terms:
    """What a mean risk is made of, as squared errors on the normalised scale.

    Attributes:
        parts: of the bound; they add up to it.
        dependence: what is *not* in the bound: what it would grow by if the steps counted for as
            much as they tell; 0 in the episode unit.
    """

    parts: Parts
    dependence: float

    @property
    def dominating(self) -> str:
        """The largest part, in words."""
        return PARTS[max(PARTS, key=lambda name: getattr(self.parts, name))]


def forecast(certificate: Certificate, episodes: int) -> tuple[Statement, ...]:
    """The statements that so many validation episodes would give, if all else stayed as it is.

    A statement on an expected return is left out. More episodes also fit a better predictor, which
    is not foreseen.

    Raises:
        InputError: there are fewer episodes than the scheme needs.
    """
    if episodes < 1 or episodes != int(episodes):
        raise InputError(f"`episodes` must be a whole number of at least 1, found {episodes!r}")
    return _Forecast(certificate).statements(int(episodes))


def episodes_for(certificate: Certificate, rms: float) -> int | None:
    """Validation episodes that would certify a mean risk of at most `rms`; None if none would.

    In the unit of the certificate, in return units; up to 100,000 episodes are tried.
    """
    ahead = _Forecast(certificate)

    def reached(count: int) -> bool:
        return ahead.rms(count) <= rms

    lower, upper = ahead.fewest, ahead.fewest
    while not reached(upper):
        if upper >= _MOST:
            return None
        lower, upper = upper, min(2 * upper, _MOST)
    while upper - lower > max(1, upper // 100):
        middle = (lower + upper) // 2
        lower, upper = (lower, middle) if reached(middle) else (middle, upper)
    return upper


def terms(certificate: Certificate) -> Terms:
    """What the certificate's own mean risk is made of."""
    return _Forecast(certificate).terms()


class _Forecast:
    """What was measured once, for several numbers of episodes."""

    def __init__(self, certificate: Certificate) -> None:
        self.certificate = certificate
        self.options = certificate.options
        self.scheme = self.options.division
        scaling = certificate.chain.scaling
        training = scaling if scaling.source == "training" else None
        self.data: Data = prepare(certificate.rollouts, self.options, training)
        self.view: View = view(self.data, self.options)
        self.ledger: Ledger = ledger_of(self.data, self.options)
        self.found: Errors | None = None
        if self.scheme.fixed:
            start = self.data.row_of_episode(self.view.free_count)
            self.found = errors(certificate.chain.network, self.data, self.view, start)
        self.fewest = (self.scheme.first or 0) + max(len(self.scheme.weights), 2)

    def later(self, episodes: int) -> int:
        """Episodes that the statements on the predictor would rest on."""
        if self.scheme.kind == "recursive":
            return episodes
        return self.scheme.sizes(episodes, self.certificate.episodes.pilot)[-1]

    def statements(self, episodes: int) -> tuple[Statement, ...]:
        said = [s for s in self.certificate.statements if s.kind != "tolerance"]
        made = [self._one(statement, episodes) for statement in said]
        return (*self._tolerances(episodes), *(each for each in made if each is not None))

    def rms(self, episodes: int) -> float:
        return float(np.sqrt(self._risk(self.options.unit, episodes))) * self.certificate.width

    def _tolerances(self, episodes: int) -> list[Statement]:
        before = [s for s in self.certificate.statements if s.kind == "tolerance"]
        if not before or self.found is None:
            return []
        return tolerances(self._scored(episodes), **self._tolerance_arguments())[0]

    def _tolerance_arguments(self) -> dict[str, float]:
        return {
            "delta": self.ledger.failure("tolerance"),
            "width": self.certificate.width,
            "confidence": self.ledger.confidence_in("tolerance"),
            "joint": self.ledger.confidence,
        }

    def _scored(self, episodes: int) -> Errors:
        """One row for each episode, with the scores and losses that so many would have."""
        assert self.found is not None
        n = self.later(episodes)
        losses = unit_values(self.found.losses, self.found.episode, "episode")
        rows = np.arange(n)
        scores = _with_tail(self.found.scores, n)
        return Errors(_resampled(losses, n), scores, rows, rows * 0, self.found.thin)

    def _one(self, statement: Statement, episodes: int) -> Statement | None:
        width = self.certificate.width
        if statement.kind == "mean-risk":
            bound = self._risk(statement.unit, episodes)
            rms = float(np.sqrt(bound)) * width
            n = self._units(statement.unit, episodes)
            return replace(
                statement, value=bound, value_raw=bound * width**2, rms_raw=rms, n=n, note=""
            )
        if statement.kind in ("band", "monitor"):
            n = self.later(episodes)
            share = float(tolerance_share(n, n=n, delta=self._failure(statement.kind)))
            score = float(_with_tail(self._scores(statement.kind), n).max())
            return replace(
                statement, share=share, value=score / width, value_raw=score, n=n, note=""
            )
        if statement.kind == "failure":
            failure = self._failure(statement.quantity.removeprefix("probability that "))
            count = round(statement.estimate * episodes)
            bound = float(clopper_pearson_upper(count, n=episodes, delta=failure))
            return replace(statement, value=bound, value_raw=bound, n=episodes, note="")
        return self._return(statement, episodes)

    def _return(self, statement: Statement, episodes: int) -> Statement | None:
        if statement.share is None:
            return None
        name = statement.quantity.removesuffix(" of a new episode")
        validation = self.data.shares.validation
        gamma = 1.0 if name.startswith("undiscounted") else self.options.gamma
        values = discounted_returns(validation, gamma)[validation.offsets[:-1]]
        delta = self._failure(name)
        wanted = 0.9
        rank = int(tolerance_rank(wanted, n=episodes, delta=delta)) or episodes
        share = float(tolerance_share(rank, n=episodes, delta=delta))
        reached = -float(np.sort(_with_tail(-values, episodes))[rank - 1])
        low = self.certificate.return_range.low
        return replace(
            statement,
            share=share,
            value=(reached - low) / self.certificate.width,
            value_raw=reached,
            n=episodes,
            note="",
        )

    def _failure(self, name: str) -> float:
        if self.scheme.kind == "auto":
            return self.ledger.failure(name)
        return beside(delta=self.options.delta, candidates=self.options.candidates)

    def _scores(self, kind: str) -> Values:
        validation, before = self.data.shares.validation, self.certificate.beforehand
        if kind == "monitor":
            later = validation.span(self.view.free_count, len(validation))
            return largest_deviations(
                predictions_along(self.certificate.chain, later),
                later,
                gamma=self.options.gamma,
                window=before.window,
                widths=before.widths,
            )
        assert self.found is not None
        sizes = np.abs(self.found.raw) / profile_at(self.found.step, before.profile, self.view)
        starts = np.flatnonzero(np.diff(self.found.episode, prepend=-1))
        return np.asarray(np.maximum.reduceat(sizes, starts))

    def _units(self, unit: Unit, episodes: int) -> int:
        later = self.later(episodes)
        if unit == "episode":
            return later
        own = self._portions(unit)[-1 if self.scheme.fixed else 0]
        return max(round(own.n / own.episodes * later), 1)

    def _portions(self, unit: Unit) -> tuple[Portion, ...]:
        c = self.certificate
        return c.portions if unit == c.unit else c.other_portions

    def _risk(self, unit: Unit, episodes: int) -> float:
        if self.found is None:
            factor = self.later(episodes) / self._portions(unit)[0].episodes
            return final_bound(self._bounded(unit, factor))[0]
        if self.scheme.kind == "auto" and unit == "episode":
            return tolerances(self._scored(episodes), **self._tolerance_arguments())[1].bound
        values = unit_values(self.found.losses, self.found.episode, unit)
        return self._betting(values, self._units(unit, episodes), unit)

    def _betting(self, values: Values, n: int, unit: Unit) -> float:
        """(H.3) on n values like these, with bets for so many."""
        name = "mean risk, unit step" if self.scheme.kind == "auto" else "hold-out: risk"
        delta, before = self.ledger.failure(name), self.certificate.beforehand
        few = np.clip(_resampled(values, min(len(values), _FINEST)), 0.0, 1.0)
        bets, weights = before.bets, before.weights
        if unit == "episode":
            bets, weights = before.episode_bets, before.episode_weights
        if bets and self.scheme.first is None:
            planned = planned_bets(few, n=n, delta=delta)
            bets, weights = tuple(planned[0]), tuple(planned[1])
        if not bets:
            bets, weights = (tuple(each) for each in default_bets(n))
        return _betting_bound(few, n, delta, np.asarray(bets), np.asarray(weights))

    def _bounded(self, unit: Unit, factor: float) -> tuple[Portion, ...]:
        """The recursion, or the plain bound, with `factor` times the units and draws."""
        names = [entry.name for entry in fields(Measured)]
        measured = []
        for portion in self._portions(unit):
            own = Measured(**{name: getattr(portion, name) for name in names})
            many = {name: max(1, round(getattr(own, name) * factor)) for name in _COUNTED}
            measured.append(replace(own, **many))
        return bound_portions(measured, ledger=self.ledger, kappa=self.options.kappa)

    def terms(self) -> Terms:
        unit, c = self.options.unit, self.certificate
        hidden = 0.0
        if unit == "step":
            share = min(c.effective_n / max(c.portions[-1].n, 1), 1.0)
            if self.found is None:
                fewer = final_bound(self._bounded(unit, share))[0]
            else:
                values = unit_values(self.found.losses, self.found.episode, unit)
                fewer = self._betting(values, max(1, round(share * len(values))), unit)
            hidden = max(fewer - c.bound, 0.0)
        return Terms(breakdown(c.portions, c.ledger, self.options.kappa)[-1], hidden)


def _betting_bound(values: Values, n: int, delta: float, bets: Values, weights: Values) -> float:
    """(H.3) on n values with the distribution of these, without making n of them."""
    lower, upper = float(values.mean()), 1.0
    for _ in range(_HALVINGS):
        middle = lower + (upper - lower) / 2
        payoff = (1.0 - values) / (1.0 - middle)
        with np.errstate(divide="ignore"):
            gains = [np.log(1.0 - bet + bet * payoff).mean() for bet in bets]
        capital = logsumexp(n * np.array(gains), b=weights)
        lower, upper = (lower, middle) if capital >= -np.log(delta) else (middle, upper)
    return upper


def _resampled(values: Values, n: int) -> Values:
    """N values with the distribution of these, without dice."""
    return np.asarray(np.quantile(values, (np.arange(n) + 0.5) / n, method="inverted_cdf"))


def _with_tail(scores: Values, n: int) -> Values:
    """As many scores like these; beyond the largest seen with an exponential tail."""
    at = (np.arange(n) + 0.5) / n
    found = _resampled(scores, n)
    start = float(np.quantile(scores, 1 - _TAIL))
    excess = float(np.mean(np.maximum(scores[scores >= start] - start, 0.0)))
    beyond = at > 1 - 0.5 / len(scores)
    tail = start + excess * np.log(_TAIL / (1 - at[beyond]))
    found[beyond] = np.maximum(found[beyond], tail)
    return found
