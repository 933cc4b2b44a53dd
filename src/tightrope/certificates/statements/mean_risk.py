"""The mean clipped loss of a fixed predictor by bets fixed beforehand; docs/theory.md, H.3, H.7."""

from collections.abc import Iterable, Sequence

import numpy as np

from tightrope.bounds import betting_upper, default_bets, planned_bets, target_bets
from tightrope.certificates.evidence import Evidence
from tightrope.certificates.options import Unit
from tightrope.certificates.statements.base import Chosen, Family, Limit, Task, Values
from tightrope.certificates.statements.failure import Event
from tightrope.errors import InputError

__all__ = ["LargeError", "MeanRisk", "require_bets"]

_EASIEST = 0.999  # target of a bet, of the squared range
_MOST_BETS = 1000


class MeanRisk(Family):
    """Mean squared error over steps or over episodes, by a portfolio of bets (H.3).

    With the bets of a search it holds at every number of units at once (H.7).
    """

    kind = "mean-risk"
    scale = "loss"

    def __init__(self, unit: Unit) -> None:
        self.unit = unit
        self.name = f"mean over {unit}s"
        self.quantity = f"RMS error of the predicted return, {self.name}"

    def choose(self, fit: Evidence | None, task: Task) -> Chosen:
        """Bets for so many units with losses like those that the fit left out."""
        if fit is None:
            return _as_chosen(([], []))  # the default ones of the bound
        rows = len(fit.pairs) / len(fit) / task.thin if self.unit == "step" else 1.0
        n = max(1, round(rows * task.episodes))
        if not fit.is_predicted:  # how many there will be is all that is known
            return _as_chosen(default_bets(n) if task.target is not None else ([], []))
        losses = self._values(fit)
        if task.target is None:
            return _as_chosen(planned_bets(losses, n=n, delta=task.delta))
        goal = min((task.target / fit.scaling.width) ** 2, _EASIEST)
        return _as_chosen(target_bets(losses, target=goal, n=n))

    def check(self, chosen: Chosen) -> None:
        """As many weights as bets."""
        require_bets(chosen)

    def scores(self, seen: Evidence, chosen: Chosen) -> Values:
        """Clipped losses: of every row, or the mean of each episode."""
        return self._values(seen)

    def limits(self, scores: Values, *, delta: float, chosen: Chosen) -> Sequence[Limit]:
        """The bound of the portfolio."""
        return [Limit(_betting(scores, delta, chosen), None, float(scores.mean()))]

    def _values(self, seen: Evidence) -> Values:
        values = seen.losses if self.unit == "step" else seen.mean_by_episode(seen.losses)
        return np.clip(values, 0.0, 1.0)


class LargeError(Event):
    """How often an episode's unclipped RMS error exceeds the target of a search (H.7)."""

    target = "large-error"
    name = "large errors"

    def __init__(self, limit: float) -> None:
        self.limit = limit
        self.quantity = f"probability that the RMS error of an episode exceeds {limit:.12g}"

    def choose(self, fit: Evidence | None, task: Task) -> Chosen:
        """Bets that depend on the largest number of episodes alone."""
        return _as_chosen(default_bets(task.episodes))

    def check(self, chosen: Chosen) -> None:
        """As many weights as bets."""
        require_bets(chosen)

    def scores(self, seen: Evidence, chosen: Chosen) -> Values:
        """(episodes,) 1 where the error is larger than the target."""
        return (seen.rms > self.limit).astype(np.float64)

    def limits(self, scores: Values, *, delta: float, chosen: Chosen) -> Sequence[Limit]:
        """The bound of the portfolio on a probability."""
        note = f"{int(scores.sum())} of {len(scores)} episodes"
        return [Limit(_betting(scores, delta, chosen), None, float(scores.mean()), note)]

    def words(self, seen: Evidence) -> str:
        """With the steps that count."""
        return f"{self.quantity} (over {seen.steps}, not clipped)"


def require_bets(chosen: Chosen) -> None:
    """Raise InputError unless there are as many weights as bets; their bound checks the values."""
    bets, weights = chosen["bets"], chosen["weights"]
    listed = isinstance(bets, list) and isinstance(weights, list)
    if not listed or len(bets) != len(weights) or len(bets) > _MOST_BETS:
        raise InputError(
            f"expected at most {_MOST_BETS} bets with a weight each, found {str(chosen)[:80]}"
        )


def _betting(scores: Values, delta: float, chosen: Chosen) -> float:
    bets, weights = chosen["bets"] or None, chosen["weights"] or None
    return float(betting_upper(np.clip(scores, 0.0, 1.0), delta=delta, bets=bets, weights=weights))


def _as_chosen(planned: tuple[Iterable[float], Iterable[float]]) -> Chosen:
    return {"bets": [float(bet) for bet in planned[0]], "weights": [float(w) for w in planned[1]]}
