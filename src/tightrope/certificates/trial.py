"""What was promised against test episodes, which no statement has seen."""

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from tightrope.bounds import clopper_pearson_lower, clopper_pearson_upper
from tightrope.certificates.certificate import Certificate
from tightrope.certificates.fixed import widths_at
from tightrope.certificates.outcomes import failures, returns_of
from tightrope.certificates.statements import Statement
from tightrope.rollouts import Episodes, pairs

__all__ = ["Curves", "Tried", "curves", "half_width", "trial"]

_CHANCE = 5e-2  # how rarely a promise that holds would be called contradicted, for each of them

Verdict = Literal["kept", "within chance", "contradicted"]


@dataclass(frozen=True)
class Curves:
    """Returns and predictions at the steps that statements are about, of all episodes."""

    episode: NDArray[np.int64]  # (rows,), non-decreasing
    step: NDArray[np.int64]  # (rows,)
    returns: NDArray[np.float64]  # (rows,)
    predicted: NDArray[np.float64]  # (rows,)
    episodes: int

    @property
    def errors(self) -> NDArray[np.float64]:
        """(rows,) predicted minus observed."""
        return self.predicted - self.returns

    @property
    def rms(self) -> NDArray[np.float64]:
        """(episodes,) RMS error over the steps of each."""
        rows = np.bincount(self.episode, minlength=self.episodes)
        squares = np.bincount(self.episode, np.square(self.errors), self.episodes)
        return np.asarray(np.sqrt(squares / rows))

    def span(self, start: int, stop: int) -> "Curves":
        """Episodes `start` up to `stop`, numbered from 0."""
        first, last = np.searchsorted(self.episode, [start, stop])
        kept = slice(int(first), int(last))
        return Curves(
            self.episode[kept] - start,
            self.step[kept],
            self.returns[kept],
            self.predicted[kept],
            stop - start,
        )


@dataclass(frozen=True)
class Tried:
    """A statement on test episodes.

    Attributes:
        observed: a share of episodes, where the promise is about one, or a probability; otherwise
            the mean in the units of the promise.
        count: of the episodes that `observed` counts; None for a mean.
        n: test episodes.
        verdict: whether `observed` is on the promised side; where it is not, whether it would be no
            surprise all the same.
    """

    observed: float
    count: int | None
    n: int
    verdict: Verdict


def curves(certificate: Certificate) -> Curves:
    """Predictions of the certificate's predictor, without dice, along all recorded episodes."""
    c = certificate
    shown = pairs(c.rollouts, gamma=c.options.gamma, thin=c.thin)
    elapsed = None if c.time_limit is None else shown.step
    mean = c.predictor(shown.observations, elapsed=elapsed).mean
    return Curves(shown.episode, shown.step, shown.returns, mean, shown.episodes)


def half_width(
    certificate: Certificate, statement: Statement, step: NDArray[np.int64]
) -> NDArray[np.float64]:
    """(rows,) half-width of a band statement at each elapsed step, in return units."""
    profile = certificate.beforehand.profile
    return statement.value_raw * widths_at(step, profile, certificate.time_limit)


def trial(certificate: Certificate, found: Curves) -> tuple[Tried | None, ...]:
    """Every statement on the test episodes; None where there is nothing to compare it with.

    Args:
        certificate: the promises.
        found: :func:`curves` of all its episodes.
    """
    c = certificate
    total = c.episodes.pilot + c.episodes.validation + c.episodes.test
    first = total - c.episodes.test
    if not c.episodes.test:
        return (None,) * len(c.statements)
    test, seen = found.span(first, total), c.rollouts.span(first, total)
    return tuple(_tried(c, statement, test, seen) for statement in c.statements)


def _tried(c: Certificate, s: Statement, test: Curves, seen: Episodes) -> Tried | None:
    if s.kind == "mean-risk":
        if s.unit != c.unit or c.test_error is None or s.rms_raw is None:
            return None
        return _mean(c.test_error**0.5 * c.width, s.rms_raw, "at-most", test.episodes)
    if s.kind == "tolerance":
        return _share(s, test.rms <= s.value_raw)
    if s.kind == "band":
        outside = np.abs(test.errors) > half_width(c, s, test.step)
        return _share(s, np.bincount(test.episode, outside, test.episodes) == 0)
    if s.kind == "return":
        return _returned(s, returns_of(seen, c.options.gamma))
    if s.kind == "failure":
        for event, happened in failures(seen, c.options).items():
            if s.quantity == f"probability that {event}":
                return _probability(s, happened)
    return None


def _returned(s: Statement, returns: dict[str, NDArray[np.float64]]) -> Tried | None:
    for name, values in returns.items():
        if s.share is not None and s.quantity == f"{name} of a new episode":
            return _share(s, values >= s.value_raw)
        if s.share is None and s.quantity == f"expected {name} of a new episode":
            return _mean(float(values.mean()), s.value_raw, "at-least", len(values))
    return None


def _share(s: Statement, kept: NDArray[np.bool_]) -> Tried:
    assert s.share is not None  # these kinds are about a share of episodes
    count, n = int(kept.sum()), len(kept)
    possible = float(clopper_pearson_upper(count, n=n, delta=_CHANCE))
    return Tried(count / n, count, n, _verdict(count / n >= s.share, possible >= s.share))


def _probability(s: Statement, happened: NDArray[np.bool_]) -> Tried:
    count, n = int(happened.sum()), len(happened)
    possible = float(clopper_pearson_lower(count, n=n, delta=_CHANCE))
    return Tried(count / n, count, n, _verdict(count / n <= s.value, possible <= s.value))


def _mean(observed: float, promised: float, direction: str, n: int) -> Tried:
    """A mean over test episodes has an error of its own that is not known: no contradiction."""
    kept = observed <= promised if direction == "at-most" else observed >= promised
    return Tried(observed, None, n, _verdict(kept, True))


def _verdict(kept: bool, possible: bool) -> Verdict:
    return "kept" if kept else "within chance" if possible else "contradicted"
