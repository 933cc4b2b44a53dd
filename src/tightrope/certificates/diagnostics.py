"""Errors compared, effective sample size, and tests of independence and drift; no bound uses them.

Both permutation tests are exact: if the assumption holds, each rejects with probability `LEVEL` at
most. A test that does not reject proves nothing.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
from numpy.typing import NDArray
from pydantic import Field
from scipy.stats import rankdata

from tightrope.certificates.evidence import Evidence
from tightrope.certificates.split import Split
from tightrope.certificates.statements.pac_bayes import starts_of, unit_mean
from tightrope.posteriors import draw_losses
from tightrope.records import Strict
from tightrope.rollouts import Pairs
from tightrope.rollouts.results_table import table_of
from tightrope.seeds import Stream, child_seed

if TYPE_CHECKING:
    from tightrope.certificates.fitting import FittedPredictor

__all__ = ["LEVEL", "Checks", "compare_errors", "dependence", "drift", "drift_of", "effective_size"]

LEVEL = 5e-3
_PERMUTATIONS = 199  # with the order found, 200: the smallest p-value is LEVEL
_TIE = 1e-9  # relative: what differs only by the order of a sum is a tie, which counts against
_PASSES = 5  # of train and test errors, which enter no bound

Values = NDArray[np.float64]
PValue = Annotated[float, Field(gt=0, le=1)]


@dataclass(frozen=True)
class Checks(Strict):
    """P-values of what statements assume.

    Attributes:
        dependence: that losses within an episode are no more alike than across episodes.
        drift: that returns do not depend on the order in which episodes were recorded; None without
            an order, and `dependence` without steps.
    """

    dependence: PValue | None
    drift: PValue | None

    @property
    def dependent(self) -> bool:
        """Whether the losses show that steps are not independent."""
        return self.dependence is not None and self.dependence <= LEVEL

    @property
    def drifting(self) -> bool:
        """Whether the returns show that episodes are not alike."""
        return self.drift is not None and self.drift <= LEVEL


def compare_errors(fitted: "FittedPredictor", split: Split, seen: Evidence) -> dict[str, Any]:
    """Fields of the record that compare the predictor with a constant and the mean of each step.

    The baselines are fixed on the fitting set of a fixed predictor, and otherwise on the validation
    episodes, as the predictor is.

    Args:
        fitted: the predictor.
        split: the episodes.
        seen: the calibration episodes with predictions.
    """
    fixed, unit = split.settings.scheme.fixed, split.settings.unit
    known = split.pairs_of(split.fit) if fixed and split.fit is not None else split.rows
    rows = seen.pairs if fixed else split.rows
    train = seen.losses if fixed else _drawn_losses(fitted, rows, split, Stream.TRAIN_ERROR)
    of, test = rows, None
    if split.test is not None:
        of = split.pairs_of(split.test)
        if fixed:
            tested = Evidence.of(fitted.predictor, split.test, gamma=seen.gamma, thin=seen.thin)
            losses = tested.losses
        else:
            losses = _drawn_losses(fitted, of, split, Stream.TEST_ERROR)
        test = unit_mean(losses, of.episode, unit)
    goal, past = split.scaling.targets(of.returns), split.scaling.targets(known.returns)
    counts = np.bincount(known.step)
    by_step = np.bincount(known.step, weights=past) / np.maximum(counts, 1)
    by_step = np.where(counts > 0, by_step, past.mean())
    reached = np.minimum(of.step, len(by_step) - 1)
    last = slice(0 if fixed else split.row_of(split.starts[-2]), None)
    train_last, episode = train[last], rows.episode[last]
    seed = child_seed(split.settings.seed, Stream.CHECKS, 0)
    return {
        "train_error": unit_mean(train, rows.episode, unit),
        "test_error": test,
        "constant_error": unit_mean(np.square(goal - past.mean()), of.episode, unit),
        "per_step_error": unit_mean(np.square(goal - by_step[reached]), of.episode, unit),
        "effective_n": effective_size(train_last, episode),
        "checks": Checks(dependence(train_last, episode, seed), drift_of(split)),
    }


def drift_of(split: Split) -> float | None:
    """P-value of episodes that are alike; None for a table whose order tells nothing."""
    numbers, ends, table = [split.validation.returns(1.0)], [], table_of(split.used)
    if table is not None:
        if not table["ordered"]:
            return None
        success = split.validation.success
        numbers = numbers if table["returns"] else []
        numbers += [] if success is None else [success.astype(float)]
        ends = np.cumsum([count for _, count in table["tasks"]])[:-1].tolist()
    tasks = np.split(np.stack(numbers), ends, axis=1)
    return drift(tasks, child_seed(split.settings.seed, Stream.CHECKS, 1))


def effective_size(loss: Values, episode: NDArray[np.int64]) -> float:
    """Independent steps that carry as much information on the mean loss as all of them do.

    N divided by the design effect of episodes as clusters: the variance of the mean over
    independent episodes, in ratio to what it would be over independent steps.
    """
    starts = starts_of(episode)
    count = len(starts)
    deviation = loss - loss.mean()
    variance = float(np.mean(deviation**2))
    if count < 2 or variance == 0:
        return float(count)
    totals = np.add.reduceat(deviation, starts)
    clustered = count / (count - 1) * float(np.sum(totals**2)) / len(loss) ** 2
    effect = clustered / (variance / len(loss))
    return float(np.clip(len(loss) / effect, 1.0, len(loss))) if effect > 0 else float(len(loss))


def dependence(losses: Values, episode: NDArray[np.int64], seed: int) -> float:
    """P-value of independent steps: how often shuffled losses would differ as much by episode.

    The statistic is the sum of squares between episodes, which the design effect rests on.

    Args:
        losses: (rows,) of the steps that a bound is evaluated on.
        episode: (rows,) non-decreasing, the episode of each.
        seed: of the permutations.
    """
    starts = starts_of(episode)
    counts = np.diff(starts, append=len(episode))
    deviation = losses - losses.mean()

    def between(values: Values) -> float:
        return float(np.sum(np.add.reduceat(values, starts) ** 2 / counts))

    rng, found = np.random.default_rng(seed), between(deviation)
    shuffled = [between(rng.permutation(deviation)) for _ in range(_PERMUTATIONS)]
    reached = sum(other >= found * (1.0 - _TIE) for other in shuffled)
    return (1 + reached) / (1 + _PERMUTATIONS)


def drift(tasks: Sequence[Values], seed: int) -> float:
    """P-value of episodes that are alike: how often another order would show as large a change.

    The statistic is the largest difference, for any episodes in a row, between the sum of their
    ranks and what it would be on average. It is taken of the returns and of their distances from
    the median, and the larger counts: a change of level, or of spread, for good or for a while. Of
    several numbers, or tasks, the one counts whose change is the most unusual among all orders.

    Args:
        tasks: (episodes,) of each, or (numbers, episodes), in recorded order.
        seed: of the permutations.
    """
    rng = np.random.default_rng(seed)
    found = np.concatenate([_changes(np.atleast_2d(each), rng) for each in tasks], axis=1)
    mean, spread = found.mean(axis=0), found.std(axis=0)
    unusual = (found - mean) / np.where(spread > _TIE * (1.0 + mean), spread, np.inf)
    first, others = unusual[0].max(), unusual[1:].max(axis=1)
    return (1 + int(np.sum(others >= first - _TIE))) / (1 + _PERMUTATIONS)


def _changes(numbers: Values, rng: np.random.Generator) -> Values:
    """(orders, numbers) the largest change of each, in the order found and then in others."""
    distances = np.abs(numbers - np.median(numbers, axis=1, keepdims=True))
    ranks = rankdata(np.stack([numbers, distances]), axis=-1)
    ranks = ranks - ranks.mean(axis=-1, keepdims=True)  # (2, numbers, episodes)

    def largest(order: NDArray[np.int64]) -> Values:
        sums = np.cumsum(ranks[..., order], axis=-1)  # the last is 0, as the one before the first
        return np.asarray((sums.max(axis=-1) - sums.min(axis=-1)).max(axis=0))

    count = numbers.shape[1]
    others = (rng.permutation(count) for _ in range(_PERMUTATIONS))
    return np.stack([largest(order) for order in (np.arange(count), *others)])


def _drawn_losses(fitted: "FittedPredictor", of: Pairs, split: Split, stream: Stream) -> Values:
    """(rows,) squared errors of predictors drawn from the last posterior, averaged over draws."""
    drawn = draw_losses(
        fitted.posteriors[-1],
        split.scaling.inputs(of.observations, of.step),
        split.scaling.targets(of.returns),
        passes=_PASSES,
        seed=child_seed(split.settings.seed, stream),
        sampling=split.settings.sampling,
    )
    return np.asarray(drawn.mean(axis=0))
