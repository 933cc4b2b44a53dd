"""What is true of a statement, from a very large number of new episodes, with its error.

A statement is kept by a margin: how far what it promises is on the safe side of what is true. The
margin is known up to the error of the sample, so a statement is surely kept, surely broken, or too
close to call.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from scipy.stats import binomtest

from tightrope.certificates import Certificate, Statement
from tightrope.certificates.deviations import largest_deviations, predictions_along
from tightrope.certificates.fixed import Errors, profile_at
from tightrope.certificates.options import Unit
from tightrope.certificates.statements import Kind, Target
from tightrope.errors import InputError
from tightrope.posteriors import draw_predictions
from tightrope.rollouts import Episodes, Pairs, discounted_returns, pairs

__all__ = ["EVALUATORS", "Answer", "NewEpisodes", "Seen", "State", "answers"]

State = Literal["kept", "broken", "unclear"]
Values = NDArray[np.float64]
_ERRORS = 4.0  # standard errors of a mean: more is left out once in 16,000 times
_SURE = 1.0 - 1e-4  # of the exact interval of a share
_FIRST_LOOK = 10  # part of the new episodes; the others decide what is too close to call
_DRAWS = 0xA0D17  # root of the draws from posteriors


@dataclass(frozen=True)
class Answer:
    """What is true of a statement.

    Attributes:
        low: the margin by which it is kept, at least; negative if it may be broken. On the
            normalised scale, or as a share of episodes.
        high: the same, at most.
        truth: what the statement's `value` would be if it were exact.
    """

    low: float
    high: float
    truth: float

    @property
    def state(self) -> State:
        """Kept or broken, if that is sure."""
        if self.low >= 0:
            return "kept"
        return "broken" if self.high < 0 else "unclear"


@dataclass(frozen=True)
class NewEpisodes:
    """New episodes as statements speak of them.

    Attributes:
        whole: the episodes.
        pairs: their thinned steps.
        returns: of whole episodes, by target.
        known: targets whose expectation or probability needs no sample.
    """

    whole: Episodes
    pairs: Pairs
    returns: Mapping[Target, Values]
    known: Mapping[Target, float] = field(default_factory=dict)

    @classmethod
    def of(
        cls,
        episodes: Episodes,
        *,
        gamma: float,
        thin: int,
        known: Mapping[Target, float] | None = None,
    ) -> "NewEpisodes":
        """With returns discounted by `gamma`, and every `thin`-th step."""
        starts = episodes.offsets[:-1]
        returns: dict[Target, Values] = {
            "discounted-return": discounted_returns(episodes, gamma)[starts],
            "undiscounted-return": np.add.reduceat(episodes.rewards, starts),
        }
        return cls(episodes, pairs(episodes, gamma=gamma, thin=thin), returns, known or {})

    def first(self, count: int) -> "NewEpisodes":
        """The first so many of them."""
        row = int(np.searchsorted(self.pairs.episode, count))
        cut = Pairs(
            observations=self.pairs.observations[:row],
            returns=self.pairs.returns[:row],
            episode=self.pairs.episode[:row],
            step=self.pairs.step[:row],
            episodes=count,
        )
        returns = {target: values[:count] for target, values in self.returns.items()}
        return NewEpisodes(self.whole.span(0, count), cut, returns, self.known)


class Seen:
    """New episodes as one certificate sees them."""

    def __init__(self, certificate: Certificate, new: NewEpisodes) -> None:
        self.certificate, self.new = certificate, new

    @cached_property
    def predicted(self) -> Values:
        """(steps,) by the predictor without dice at all steps, in return units."""
        return predictions_along(self.certificate.chain, self.new.whole)

    @cached_property
    def errors(self) -> Errors:
        """Of the predictor without dice."""
        scaling, rows = self.certificate.chain.scaling, self.new.pairs
        predicted = self.predicted[self.new.whole.offsets[rows.episode] + rows.step]
        normalised = (predicted - scaling.low) / scaling.width
        return Errors(
            losses=np.square(normalised - scaling.targets(rows.returns)),
            raw=predicted - rows.returns,
            episode=rows.episode,
            step=rows.step,
        )

    @cached_property
    def losses(self) -> Values:
        """(rows,) of what mean risks are about: drawn from the posterior, if there is one."""
        chain, rows = self.certificate.chain, self.new.pairs
        if not chain.gaussians or self.certificate.options.division.fixed:
            return self.errors.losses
        drawn = draw_predictions(
            chain.gaussians[-1],
            chain.scaling.inputs(rows.observations, rows.step),
            passes=1,
            seed=_DRAWS,
            sampling="local",
        )
        targets = chain.scaling.targets(rows.returns)
        return np.asarray(np.square(drawn[0].astype(np.float64) - targets))

    @property
    def width(self) -> float:
        """Return units per 1 of the normalised scale."""
        return self.certificate.width


def answers(certificate: Certificate, new: NewEpisodes) -> list[Answer]:
    """What is true of each statement; all new episodes are looked at where a tenth is too few.

    Raises:
        InputError: there is a statement of a kind that nothing here can judge.
    """
    for statement in certificate.statements:
        if statement.kind not in EVALUATORS:
            raise InputError(
                f"expected statements of the kinds {', '.join(EVALUATORS)}, found "
                f"{statement.kind!r}: add what judges it to EVALUATORS"
            )
    few = len(new.whole) // _FIRST_LOOK
    found = []
    first = Seen(certificate, new.first(few)) if few > 1 else None
    every = Seen(certificate, new)
    for statement in certificate.statements:
        judge = EVALUATORS[statement.kind]
        answer = judge(statement, first) if first is not None else None
        if answer is None or answer.state == "unclear":
            answer = judge(statement, every)
        found.append(answer)
    return found


# --- a judge for each kind ----------------------------------------------------------------------


def _mean_risk(statement: Statement, seen: Seen) -> Answer:
    mean, error = _risk(seen.losses, seen.new.pairs.episode, statement.unit)
    return _upper(statement.value, mean, error)


def _tolerance(statement: Statement, seen: Seen) -> Answer:
    return _scores(statement, seen.errors.scores, seen)


def _band(statement: Statement, seen: Seen) -> Answer:
    found, c = seen.errors, seen.certificate
    widths = profile_at(found.step, c.beforehand.profile, c.chain)
    starts = np.flatnonzero(np.diff(found.episode, prepend=-1))
    return _scores(statement, np.maximum.reduceat(np.abs(found.raw) / widths, starts), seen)


def _monitor(statement: Statement, seen: Seen) -> Answer:
    c = seen.certificate
    scores = largest_deviations(
        seen.predicted,
        seen.new.whole,
        gamma=c.options.gamma,
        window=c.beforehand.window,
        widths=c.beforehand.widths,
    )
    return _scores(statement, scores, seen)


def _return(statement: Statement, seen: Seen) -> Answer:
    low = seen.certificate.return_range.low
    values = seen.new.returns[statement.target]
    if statement.share is not None:
        truth = (float(np.quantile(values, 1.0 - statement.share)) - low) / seen.width
        return _covered(values >= statement.value_raw, statement.share, truth)
    known = seen.new.known.get(statement.target)
    mean, error = (known, 0.0) if known is not None else _mean(values)
    margin, slack = (mean - statement.value_raw) / seen.width, _ERRORS * error / seen.width
    return Answer(margin - slack, margin + slack, (mean - low) / seen.width)


def _failure(statement: Statement, seen: Seen) -> Answer:
    known = seen.new.known.get(statement.target)
    if known is not None:
        return _upper(statement.value, known, 0.0)
    whole = seen.new.whole
    if statement.target == "early-termination":
        events = whole.terminated
    elif statement.target == "no-success":
        assert whole.success is not None  # the certificate speaks of it
        events = ~whole.success
    else:
        threshold = seen.certificate.options.fail_below
        assert threshold != "off"  # the certificate speaks of it
        events = seen.new.returns["undiscounted-return"] < threshold
    low, high = _share(events)
    return Answer(statement.value - high, statement.value - low, float(events.mean()))


Judge = Callable[[Statement, Seen], Answer]
EVALUATORS: dict[Kind, Judge] = {
    "mean-risk": _mean_risk,
    "tolerance": _tolerance,
    "band": _band,
    "monitor": _monitor,
    "return": _return,
    "failure": _failure,
}


def _scores(statement: Statement, scores: Values, seen: Seen) -> Answer:
    """At least a share of new episodes has a score of at most the value."""
    assert statement.share is not None
    truth = float(np.quantile(scores, statement.share)) / seen.width
    return _covered(scores <= statement.value_raw, statement.share, truth)


def _covered(reached: NDArray[np.bool_], share: float, truth: float) -> Answer:
    low, high = _share(reached)
    return Answer(low - share, high - share, truth)


def _upper(promised: float, mean: float, error: float) -> Answer:
    slack = _ERRORS * error
    return Answer(promised - mean - slack, promised - mean + slack, mean)


# --- estimates and their errors -----------------------------------------------------------------


def _share(events: NDArray[np.bool_]) -> tuple[float, float]:
    """An exact interval of the probability behind independent events."""
    found = binomtest(int(events.sum()), len(events)).proportion_ci(_SURE, "exact")
    return float(found.low), float(found.high)


def _mean(values: Values) -> tuple[float, float]:
    """Mean of independent values, and its standard error."""
    return float(values.mean()), float(values.std(ddof=1)) / len(values) ** 0.5


def _risk(losses: Values, episode: NDArray[np.int64], unit: Unit) -> tuple[float, float]:
    """Mean loss over episodes or over steps, and its standard error; episodes are independent."""
    sums, counts = np.bincount(episode, losses), np.bincount(episode)
    if unit == "episode":
        return _mean(sums / counts)
    mean = float(sums.sum() / counts.sum())  # a ratio of two means
    return mean, _mean((sums - mean * counts) / counts.mean())[1]
