"""Statements on a predictor that was fixed before the episodes they rest on were looked at.

Nothing is drawn and no KL is paid: section H of docs/theory.md for the mean over steps, section T
for statements per episode.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tightrope.bounds import (
    betting_upper,
    joint_tolerance,
    mean_from_tolerance,
    tolerance_share,
)
from tightrope.certificates.assumptions import INDEPENDENT_EPISODES, nth
from tightrope.certificates.beforehand import Beforehand
from tightrope.certificates.data import Data, View
from tightrope.certificates.measure import unit_values
from tightrope.certificates.options import Unit
from tightrope.certificates.portions import Portion
from tightrope.certificates.statements import Statement
from tightrope.posteriors import Chain, Network

__all__ = [
    "SHARES",
    "Errors",
    "band",
    "errors",
    "mean_risk",
    "profile_at",
    "tolerances",
    "widths_at",
]

SHARES = (0.8, 0.9, 0.95)
_TOP = 0.83  # of the tolerance statement's failure probability: the largest score's part


@dataclass(frozen=True)
class Errors:
    """Errors of a fixed predictor on the rows of the episodes that its bounds rest on."""

    losses: NDArray[np.float64]  # (rows,) clipped squared errors on the normalised scale
    raw: NDArray[np.float64]  # (rows,) unclipped errors in return units
    episode: NDArray[np.int64]  # (rows,)
    step: NDArray[np.int64]  # (rows,)
    thin: int = 1  # every `thin`-th step is a row

    @property
    def steps(self) -> str:
        """The steps that the rows are, in words."""
        return f"every {nth(self.thin)}step"

    @property
    def scores(self) -> NDArray[np.float64]:
        """(episodes,) RMS error of each episode, in return units."""
        return np.sqrt(unit_values(np.square(self.raw), self.episode, "episode"))


def errors(network: Network, data: Data, view: View, start: int) -> Errors:
    """Errors on the validation rows from `start` on."""
    predicted = network(view.rows.inputs[start:])
    returns = data.validation.returns[start:]
    return Errors(
        losses=np.square(predicted - view.targets[start:]),
        raw=view.scaling.returns(predicted) - returns,
        episode=data.validation.episode[start:],
        step=data.validation.step[start:],
        thin=data.thin,
    )


def mean_risk(found: Errors, *, unit: Unit, delta: float, beforehand: Beforehand) -> Portion:
    """The portfolio of bets (H.3) on the mean loss over units."""
    values = unit_values(found.losses, found.episode, unit)
    if unit == "step":
        bets, weights = beforehand.bets, beforehand.weights
    else:
        bets, weights = beforehand.episode_bets, beforehand.episode_weights
    bound = float(
        betting_upper(
            np.clip(values, 0.0, 1.0), delta=delta, bets=bets or None, weights=weights or None
        )
    )
    mean = float(values.mean())
    return Portion(
        episodes=len(found.scores),
        n=len(values),
        kl=0.0,
        draws=0,
        loss=mean,
        mean=mean,
        mean_plus=mean,
        kind="holdout",
        upper_plus=mean,
        value=bound,
        bound=bound,
    )


def tolerances(
    found: Errors, *, delta: float, width: float, confidence: float, joint: float
) -> tuple[list[Statement], Portion]:
    """Tolerance statements (T.1), jointly, and the mean risk of an episode that follows (T.4)."""
    scores = found.scores
    n = len(scores)
    made = joint_tolerance(SHARES, n=n, delta=delta, top=_TOP)
    ordered = np.sort(scores)
    said = []
    for one in made:
        score = float(ordered[one.rank - 1])
        said.append(
            Statement(
                kind="tolerance",
                quantity=f"RMS error of the predicted return over {found.steps} of a new episode",
                unit="episode",
                direction="at-most",
                value=score / width,
                value_raw=score,
                rms_raw=score,
                estimate=float(np.quantile(scores, one.share)),
                share=one.share,
                n=n,
                assumes=INDEPENDENT_EPISODES,
                confidence=confidence,
                joint_confidence=joint,
                note=f"the {_ordinal(n - one.rank + 1)}largest of {n} episodes",
            )
        )
    # Clipping moves returns towards predictions, which are inside the range: the certified loss of
    # an episode is at most its squared score, and at most 1.
    shares = np.minimum(np.square(scores / width), 1.0)
    bound = float(mean_from_tolerance(shares, tolerances=made))
    losses = unit_values(found.losses, found.episode, "episode")
    mean = float(losses.mean())
    portion = Portion(
        episodes=n,
        n=n,
        kl=0.0,
        draws=0,
        loss=mean,
        mean=mean,
        mean_plus=mean,
        kind="tolerance",
        upper_plus=float(shares.mean()),
        value=bound,
        bound=bound,
    )
    return said, portion


def band(
    found: Errors,
    view: View,
    *,
    delta: float,
    profile: tuple[float, ...],
    confidence: float,
    joint: float,
) -> Statement:
    """A band around the prediction that holds whole return curves at once (T.2)."""
    widths = profile_at(found.step, profile, view)
    largest = np.maximum.reduceat(
        np.abs(found.raw) / widths, np.flatnonzero(np.diff(found.episode, prepend=-1))
    )
    n = len(largest)
    share = float(tolerance_share(n, n=n, delta=delta))
    score = float(largest.max())
    shape = "" if len(profile) == 1 else ", times a profile over elapsed time that is at most 1"
    return Statement(
        kind="band",
        quantity=f"error of the predicted return at {found.steps} of a new episode at once",
        unit="episode",
        direction="at-most",
        value=score / view.scaling.width,
        value_raw=score,
        rms_raw=None,
        estimate=float(np.quantile(largest, share)),
        share=share,
        n=n,
        assumes=INDEPENDENT_EPISODES,
        confidence=confidence,
        joint_confidence=joint,
        note=f"half-width{shape}",
    )


def profile_at(
    step: NDArray[np.int64], profile: tuple[float, ...], view: View | Chain
) -> NDArray[np.float64]:
    """(rows,) the profile at each elapsed step."""
    clock = view.scaling.clock
    return widths_at(step, profile, None if clock is None else clock.limit)


def widths_at(
    step: NDArray[np.int64], profile: tuple[float, ...], limit: int | None
) -> NDArray[np.float64]:
    """(rows,) the profile at each elapsed step, its parts spread over the time limit."""
    values = np.asarray(profile)
    if len(values) == 1 or limit is None:
        return np.full(len(step), values[0])
    return np.asarray(values[np.minimum(step * len(values) // limit, len(values) - 1)])


def _ordinal(rank: int) -> str:
    return {1: "", 2: "second ", 3: "third "}.get(rank, f"{rank}th ")
