"""Companion statements: what a deploying engineer also asks, each with a confidence of its own.

From the same validation episodes, one value per episode, so no assumption on steps is needed.
They do not share the certificate's confidence: each fails with probability at most delta.
"""

from dataclasses import dataclass

import numpy as np

from tightrope.bounds import betting_lower, clopper_pearson_upper
from tightrope.certificates.data import Data
from tightrope.rollouts import Episodes, discounted_returns

__all__ = ["Companion", "companions"]


@dataclass(frozen=True)
class Companion:
    """One statement.

    Attributes:
        quantity: what is bounded, in words.
        side: ``at least`` or ``at most``.
        bound: in return units, or a probability.
        confidence: of this statement alone.
        n: episodes.
        estimate: the plain mean (of what was clipped) or share.
        note: what is clipped, and where the range comes from; empty for probabilities.
    """

    quantity: str
    side: str
    bound: float
    confidence: float
    n: int
    estimate: float
    note: str = ""


def companions(
    data: Data, *, gamma: float, delta: float, fail_below: float | None
) -> list[Companion]:
    """Lower bounds on the expected return, upper bounds on failure probabilities."""
    validation, pilot = data.shares.validation, data.shares.pilot
    statements = []
    low, high = data.scaling.low, data.scaling.high
    discounted = discounted_returns(validation, gamma)[validation.offsets[:-1]]
    name = f"expected discounted return of an episode (gamma {gamma:g}), clipped"
    statements.append(_mean(name, discounted, low, high, data.scaling.source, delta))
    if gamma < 1 and pilot is not None:  # without a pilot there is no range for sums
        sums = _sums(pilot)
        margin = 0.1 * max(float(np.ptp(sums)), 1e-12 * max(1.0, float(np.abs(sums).max())))
        low, high = float(sums.min()) - margin, float(sums.max()) + margin
        total = _sums(validation)
        statements.append(
            _mean(
                "expected undiscounted return of an episode, clipped",
                total,
                low,
                high,
                "pilot",
                delta,
            )
        )
    statements.append(_share("an episode terminates early", validation.terminated, delta))
    if validation.success is not None:
        statements.append(_share("an episode is no success", ~validation.success, delta))
    if fail_below is not None:
        failed = _sums(validation) < fail_below
        statements.append(
            _share(f"an episode's undiscounted return is below {fail_below:g}", failed, delta)
        )
    return statements


def _mean(
    quantity: str, values: np.ndarray, low: float, high: float, source: str, delta: float
) -> Companion:
    clipped = np.clip(values, low, high)
    scaled = (clipped - low) / (high - low)
    bound = low + (high - low) * float(betting_lower(np.clip(scaled, 0.0, 1.0), delta=delta))
    note = f"clipped to [{low:.6g}, {high:.6g}], the range of the {source}"
    below = int(np.sum(values < low))
    if below:
        note += (
            f"; {below} of {len(values)} episodes returned less and count as {low:.6g}: the "
            "unclipped mean may be below this bound"
        )
    mean = float(clipped.mean())
    return Companion(quantity, "at least", bound, 1 - delta, len(values), mean, note)


def _share(event: str, events: np.ndarray, delta: float) -> Companion:
    count = int(np.sum(events))
    bound = float(clopper_pearson_upper(count, n=len(events), delta=delta))
    quantity = f"probability that {event}"
    return Companion(quantity, "at most", bound, 1 - delta, len(events), count / len(events))


def _sums(episodes: Episodes) -> np.ndarray:
    return np.add.reduceat(episodes.rewards, episodes.offsets[:-1])
