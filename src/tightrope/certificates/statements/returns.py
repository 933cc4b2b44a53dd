"""Lower limits of returns: what a share of new episodes reaches, and what is expected."""

from collections.abc import Sequence

import numpy as np

from tightrope.bounds import betting_lower
from tightrope.certificates.evidence import Evidence
from tightrope.certificates.statements.base import Chosen, Family, Limit, Task, Values, limit_at

__all__ = ["ExpectedReturn", "Return"]


class Return(Family):
    """At least 90 % of new episodes return at least this; no range, no clipping."""

    kind = "return"
    direction = "at-least"
    scale = "return"

    def __init__(self, gamma: float) -> None:
        self.gamma = gamma
        self.target = "undiscounted-return" if gamma == 1 else "discounted-return"
        self.name = self.quantity = self.target.replace("-", " ")

    def scores(self, seen: Evidence, chosen: Chosen) -> Values:
        """(episodes,) the return of each."""
        return seen.episodes.returns(self.gamma)

    def limits(self, scores: Values, *, delta: float, chosen: Chosen) -> Sequence[Limit]:
        """An order statistic from below."""
        about = f"; mean of all {scores.mean():.6g}, smallest {scores.min():.6g}"
        return [limit_at(scores, delta=delta, at_least=True, note=about)]


class ExpectedReturn(Return):
    """A lower bound on the expected return, for which the user gives a floor."""

    def __init__(self, gamma: float, floor: float) -> None:
        super().__init__(gamma)
        self.floor = floor
        self.name = self.quantity = f"expected {self.quantity}"

    def choose(self, fit: Evidence | None, task: Task) -> Chosen:
        """Where returns are clipped from above, which can only lower their mean."""
        top = task.high
        if fit is not None:
            highest = float(fit.episodes.returns(self.gamma).max())
            top = highest + 0.1 * abs(highest)
        return {"top": max(top, float(np.nextafter(self.floor, np.inf)))}

    def scores(self, seen: Evidence, chosen: Chosen) -> Values:
        """(episodes,) the return of each, clipped from above."""
        return np.asarray(np.minimum(super().scores(seen, chosen), chosen["top"]))

    def limits(self, scores: Values, *, delta: float, chosen: Chosen) -> Sequence[Limit]:
        """A betting bound on the scale from the floor to the top."""
        top, width = chosen["top"], chosen["top"] - self.floor
        scaled = np.clip((scores - self.floor) / width, 0.0, 1.0)
        bound = self.floor + width * float(betting_lower(scaled, delta=delta))
        note = f"you stated that no return is below {self.floor:.6g}; those above {top:.6g} "
        return [Limit(bound, None, float(scores.mean()), f"{note}count as that")]
