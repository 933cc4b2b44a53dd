"""What a monitor watches: how far an episode is from what was predicted of it; section T.3.

One definition for the calibration here and for the monitor at run time. The steps of an episode
are cut into windows. With s the first step of the window that t - 1 is in,

    M_t = sum_{s <= i < t} gamma^(i - s) r_i + gamma^(t - s) g(s_t, t) - g(s_s, s),

and g is 0 after the last step, whether the episode terminated or was cut: G counts no reward
beyond. The score of an episode is max_t |M_t| / w(t), with a width w for each window.
"""

import math

import numpy as np
from numpy.typing import NDArray

from tightrope.bounds import tolerance_share
from tightrope.certificates.assumptions import INDEPENDENT_EPISODES
from tightrope.certificates.statements import Statement
from tightrope.posteriors import Chain
from tightrope.rollouts import Episodes

__all__ = [
    "alarm_statement",
    "deviations",
    "largest_deviations",
    "predictions_along",
    "widths_from",
    "widths_of_steps",
    "window_of",
]

# Of the return range: float32 predictions of another processor, or of plain arrays, differ by
# about 1e-6 of it. The threshold is raised by this much, so that rounding never raises an alarm.
_ROUNDING = 1e-5
_NARROWEST = 0.05  # width of a window, the widest being 1
_FEWEST = 5  # free episodes that must reach a window for a width of its own


def window_of(gamma: float) -> int | None:
    """Steps of a window: twice the horizon of the discount; None, one window, without one.

    In a single window what happens late in an episode would weigh gamma^t, and go unseen.
    """
    return None if gamma == 1 else max(1, round(2 / (1 - gamma)))


def deviations(
    rewards: NDArray[np.float64],
    predictions: NDArray[np.float64],
    *,
    gamma: float,
    window: int | None,
) -> NDArray[np.float64]:
    r"""The deviations :math:`M_1, \dots, M_T` of episodes of T steps, Eq. (T.3).

    Args:
        rewards: (..., T) of their steps.
        predictions: (..., T) predicted returns at their steps.
        gamma: discount factor.
        window: steps of a window; None for a single one.

    >>> deviations(np.ones(3), np.array([3.0, 2.5, 1.0]), gamma=1.0, window=None)
    array([0.5, 0. , 0. ])
    >>> deviations(np.ones(3), np.array([3.0, 2.5, 1.0]), gamma=1.0, window=1)
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


def widths_of_steps(
    steps: int, *, window: int | None, widths: tuple[float, ...]
) -> NDArray[np.float64]:
    """(steps,) the widths w(1), ..., w(steps); the last window's stands for all later ones."""
    number = np.arange(steps) // (window or max(steps, 1))
    return np.asarray(widths)[np.minimum(number, len(widths) - 1)]


def widths_from(
    residuals: NDArray[np.float64],
    episode: NDArray[np.int64],
    step: NDArray[np.int64],
    *,
    gamma: float,
    window: int | None,
) -> tuple[float, ...]:
    r"""Widths of the windows, the largest 1, from errors of predicted returns on free episodes.

    With e_t = g(s_t, t) - G_t, the deviation is :math:`M_t = \gamma^{t-s} e_t - e_s`; a width is
    the largest of them in its window. Any widths are valid that the episodes of the statement had
    no part in.

    Args:
        residuals: (rows,) prediction minus return.
        episode: (rows,) the episode of each row.
        step: (rows,) elapsed steps of each row.
        gamma: discount factor.
        window: steps of a window; None for a single one, whose width is 1.
    """
    if window is None or not len(step):
        return (1.0,)
    number = step // window
    first = np.flatnonzero((np.diff(episode, prepend=-1) != 0) | (np.diff(number, prepend=-1) != 0))
    begins = np.repeat(first, np.diff(first, append=len(step)))
    discount = gamma ** (step - step[begins])
    size = np.maximum(np.abs(discount * residuals - residuals[begins]), np.abs(residuals[begins]))
    windows = int(number.max()) + 1
    reached = np.bincount(number[first], minlength=windows)
    largest = np.zeros(windows)
    np.maximum.at(largest, number, size)
    top = largest.max()
    if not top > 0:
        return (1.0,)
    widths = np.where(reached >= _FEWEST, np.maximum(largest / top, _NARROWEST), 1.0)
    return tuple(float(width) for width in widths / widths.max())


def predictions_along(chain: Chain, episodes: Episodes) -> NDArray[np.float64]:
    """(steps,) what is predicted at all steps, thinned or not, in return units."""
    elapsed = np.arange(len(episodes.rewards)) - np.repeat(episodes.offsets[:-1], episodes.lengths)
    return chain.scaling.returns(chain.predictions(episodes.observations, elapsed))


def largest_deviations(
    predicted: NDArray[np.float64],
    episodes: Episodes,
    *,
    gamma: float,
    window: int | None,
    widths: tuple[float, ...],
) -> NDArray[np.float64]:
    """(episodes,) max over all steps of |M_t| / w(t), in return units.

    Args:
        predicted: (steps,) by :func:`predictions_along`.
        episodes: with these steps.
        gamma: discount factor.
        window: steps of a window; None for a single one.
        widths: of the windows.
    """
    starts, lengths = episodes.offsets[:-1], episodes.lengths
    scores = np.empty(len(episodes))
    for length in np.unique(lengths):
        alike = np.flatnonzero(lengths == length)
        rows = starts[alike, None] + np.arange(length)
        found = deviations(episodes.rewards[rows], predicted[rows], gamma=gamma, window=window)
        wide = widths_of_steps(length, window=window, widths=widths)
        scores[alike] = (np.abs(found) / wide).max(axis=1)
    return scores


def alarm_statement(
    chain: Chain,
    episodes: Episodes,
    *,
    gamma: float,
    window: int | None,
    widths: tuple[float, ...],
    delta: float,
    confidence: float,
    joint: float,
) -> Statement:
    """The threshold of the monitor, and how rarely episodes like these exceed it (T.3).

    Args:
        chain: with the predictor, fixed before the episodes.
        episodes: that it was not fitted to.
        gamma: discount factor.
        window: steps of a window, fixed before the episodes.
        widths: of the windows, fixed before the episodes.
        delta: failure probability of this statement.
        confidence: of this statement alone.
        joint: of all statements of the certificate.
    """
    predicted = predictions_along(chain, episodes)
    scores = largest_deviations(predicted, episodes, gamma=gamma, window=window, widths=widths)
    n, width = len(scores), chain.scaling.width
    share = float(tolerance_share(n, n=n, delta=delta))
    threshold = float(scores.max()) + _ROUNDING * width / min(widths)
    rarely = math.ceil(1000 * (1.0 - share)) / 10
    shape = "" if len(widths) == 1 else ", times a profile over windows that is at most 1"
    return Statement(
        kind="monitor",
        quantity="deviation from the prediction, at all steps of a new episode at once,",
        unit="episode",
        direction="at-most",
        value=threshold / width,
        value_raw=threshold,
        rms_raw=None,
        estimate=float(np.quantile(scores, share)),
        share=share,
        n=n,
        assumes=INDEPENDENT_EPISODES,
        confidence=confidence,
        joint_confidence=joint,
        note=f"threshold of the monitor{shape}: false alarms in at most {rarely:g} % of episodes",
    )
