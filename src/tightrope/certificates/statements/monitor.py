"""How far an episode departs from what was predicted of it; docs/theory.md, T.3.

One definition for the calibration here and for the monitor at run time. The steps of an episode
are cut into windows. With s the first step of the window that t - 1 is in,

    M_t = sum_{s <= i < t} gamma^(i - s) r_i + gamma^(t - s) g(s_t, t) - g(s_s, s),

and g is 0 after the last step, whether the episode terminated or was cut: G counts no reward
beyond. The score of an episode is max_t |M_t| / w(t), with a width w for each window.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from tightrope.certificates.evidence import Evidence
from tightrope.certificates.statements.base import (
    Chosen,
    Family,
    Limit,
    Task,
    Values,
    limit_at,
    rarely,
)

__all__ = ["MonitorThreshold", "departures", "widths_of_steps"]

_NARROWEST = 0.05  # width of a window, the widest being 1
_FEWEST = 5  # fitting episodes that must reach a window for a width of its own


class MonitorThreshold(Family):
    """At least 90 % of new episodes never depart further, so false alarms are rare."""

    kind = "monitor"
    quantity = "largest departure of the running return from its prediction"
    name = "monitor"
    scale = "error"

    def __init__(self, gamma: float) -> None:
        self.gamma = gamma

    def choose(self, fit: Evidence | None, task: Task) -> Chosen:
        """Windows of twice the discount's horizon, and widths from cross-fitted errors.

        In a single window what happens late in an episode would weigh gamma^t, and go unseen.
        """
        window = None if self.gamma == 1 else max(1, round(2 / (1 - self.gamma)))
        return {"window": window, "widths": _widths(fit, window, self.gamma)}

    def scores(self, seen: Evidence, chosen: Chosen) -> Values:
        """(episodes,) max over all steps of |M_t| / w(t), in return units."""
        episodes, scores = seen.episodes, np.empty(len(seen))
        for length in np.unique(episodes.lengths):  # episodes of one length at a time
            alike: NDArray[np.int64] = np.flatnonzero(episodes.lengths == length)
            rows = episodes.offsets[alike, None] + np.arange(length)
            found = departures(
                episodes.rewards[rows],
                seen.predicted[rows],
                gamma=self.gamma,
                window=chosen["window"],
            )
            scores[alike] = (np.abs(found) / widths_of_steps(length, chosen)).max(axis=1)
        return scores

    def limits(self, scores: Values, *, delta: float, chosen: Chosen) -> Sequence[Limit]:
        """An order statistic: the threshold of the monitor."""
        shape = "; times a width per window that is at most 1" if len(chosen["widths"]) > 1 else ""
        found = limit_at(scores, delta=delta, note=shape)
        alarms = f"; false alarms in at most {rarely(found.share or 0.0):g} % of episodes"
        return [found._replace(note=found.note + alarms)]

    def sentence(self, seen: Evidence) -> str:
        """At all steps, thinned or not."""
        return f"{self.quantity} at any step"


def departures(rewards: Values, predictions: Values, *, gamma: float, window: int | None) -> Values:
    r"""Departures :math:`M_1, \dots, M_T` of episodes of T steps, Eq. (T.3).

    Args:
        rewards: (..., T) of their steps.
        predictions: (..., T) predicted returns at their steps.
        gamma: discount factor.
        window: steps of a window; None for a single one.

    >>> departures(np.ones(3), np.array([3.0, 2.5, 1.0]), gamma=1.0, window=None)
    array([0.5, 0. , 0. ])
    >>> departures(np.ones(3), np.array([3.0, 2.5, 1.0]), gamma=1.0, window=1)
    array([ 0.5, -0.5, 0. ])
    """
    steps = rewards.shape[-1]
    stride = window or steps
    later = np.zeros(predictions.shape)  # nothing is left after the last step
    later[..., :-1] = predictions[..., 1:]
    found = np.empty(rewards.shape)
    for start in range(0, steps, stride):
        stop = min(start + stride, steps)
        discount = gamma ** np.arange(stop - start + 1)
        earned = np.cumsum(discount[:-1] * rewards[..., start:stop], axis=-1)
        promised = discount[1:] * later[..., start:stop] - predictions[..., start, None]
        found[..., start:stop] = earned + promised
    return found


def widths_of_steps(steps: int, chosen: Chosen) -> Values:
    """(steps,) the widths w(1), ..., w(steps); the last window's is that of all later ones."""
    number = np.arange(steps) // (chosen["window"] or max(steps, 1))
    widths = np.asarray(chosen["widths"], dtype=np.float64)
    return widths[np.minimum(number, len(widths) - 1)]


def _widths(fit: Evidence | None, window: int | None, gamma: float) -> list[float]:
    r"""Widths of the windows, the largest 1, from errors of predicted returns.

    With e_t = g(s_t, t) - G_t, the departure is :math:`M_t = \gamma^{t-s} e_t - e_s`; a width is
    the largest of them in its window.
    """
    if fit is None or window is None or not fit.is_predicted:
        return [1.0]
    step, episode, errors = fit.pairs.step, fit.pairs.episode, fit.errors
    number = step // window
    first = np.flatnonzero((np.diff(episode, prepend=-1) != 0) | (np.diff(number, prepend=-1) != 0))
    begins = np.repeat(first, np.diff(first, append=len(step)))
    discount = gamma ** (step - step[begins])
    size = np.maximum(np.abs(discount * errors - errors[begins]), np.abs(errors[begins]))
    windows = int(number.max()) + 1
    reached = np.bincount(number[first], minlength=windows)
    largest = np.zeros(windows)
    np.maximum.at(largest, number, size)
    top = largest.max()
    if not top > 0:
        return [1.0]
    widths = np.where(reached >= _FEWEST, np.maximum(largest / top, _NARROWEST), 1.0)
    found: list[float] = (widths / widths.max()).tolist()
    return found
