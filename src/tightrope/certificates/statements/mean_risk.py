"""The mean clipped loss of a fixed predictor by bets fixed beforehand; docs/theory.md, H.3, H.7."""

from collections.abc import Iterable, Sequence

import numpy as np

from tightrope.bounds import betting_upper, default_bets, planned_bets, target_bets
from tightrope.certificates.evidence import Evidence, every
from tightrope.certificates.options import Unit
from tightrope.certificates.statements.base import Chosen, Family, Kind, Limit, Scale, Task, Values

__all__ = ["LargeError", "MeanRisk"]

_EASIEST = 0.999  # target of a bet, of the squared range


class MeanRisk(Family):
    """Mean squared error over steps or over episodes, by a portfolio of bets (H.3).

    With the bets of a search it holds at every number of units at once (H.7).
    """

    kind: Kind = "mean-risk"
    scale: Scale = "loss"

    def __init__(self, unit: Unit) -> None:
        self.unit = unit
        self.name = f"mean over {unit}s"
        self.quantity = f"RMS error of the predicted return, {self.name}"

    def choose(self, fit: Evidence | None, task: Task) -> Chosen:
        """Bets for so many units with losses like those that the fit left out."""
        if fit is None or (task.target is None and not fit.is_predicted):
            return _as_chosen(([], []))  # the default ones of the bound
        n = fit.units(self.unit, task.episodes, task.thin)
        if task.target is None:
            return _as_chosen(planned_bets(fit.risks(self.unit), n=n, delta=task.delta))
        if not fit.is_predicted:  # how many there will be is all that is known
            return _as_chosen(default_bets(n))
        goal = min((task.target / fit.scaling.width) ** 2, _EASIEST)
        return _as_chosen(target_bets(fit.risks(self.unit), target=goal, n=n))

    def scores(self, seen: Evidence, chosen: Chosen) -> Values:
        """Clipped losses: of every row, or the mean of each episode."""
        return seen.risks(self.unit)

    def limits(self, scores: Values, *, delta: float, chosen: Chosen) -> Sequence[Limit]:
        """The bound of the portfolio."""
        bets, weights = chosen["bets"] or None, chosen["weights"] or None
        inside = np.clip(scores, 0.0, 1.0)
        bound = float(betting_upper(inside, delta=delta, bets=bets, weights=weights))
        return [Limit(bound, None, float(scores.mean()))]


class LargeError(MeanRisk):
    """How often an episode's unclipped RMS error exceeds the target of a search (H.7)."""

    kind = "failure"
    target = "large-error"
    scale = "probability"

    def __init__(self, limit: float) -> None:
        self.limit = limit
        self.name = "large errors"
        self.quantity = f"probability that the RMS error of an episode exceeds {limit:.12g}"

    def choose(self, fit: Evidence | None, task: Task) -> Chosen:
        """Bets that depend on the largest number of episodes alone."""
        return _as_chosen(default_bets(task.episodes))

    def scores(self, seen: Evidence, chosen: Chosen) -> Values:
        """(episodes,) 1 where the error is larger than the target."""
        return (seen.rms > self.limit).astype(np.float64)

    def limits(self, scores: Values, *, delta: float, chosen: Chosen) -> Sequence[Limit]:
        """The bound of the portfolio on a probability."""
        (limit,) = super().limits(scores, delta=delta, chosen=chosen)
        return [limit._replace(note=f"{int(scores.sum())} of {len(scores)} episodes")]

    def sentence(self, seen: Evidence) -> str:
        """With the steps that count."""
        return f"{self.quantity} (over {every(seen.thin)}, not clipped)"


def _as_chosen(planned: tuple[Iterable[float], Iterable[float]]) -> Chosen:
    return {"bets": [float(bet) for bet in planned[0]], "weights": [float(w) for w in planned[1]]}
