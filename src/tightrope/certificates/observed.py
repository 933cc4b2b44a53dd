"""Whether statements hold on other episodes: test episodes, or the true ones of an audit."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np

from tightrope.bounds import (
    betting_lower,
    betting_upper,
    clopper_pearson_lower,
    clopper_pearson_upper,
)
from tightrope.certificates.evidence import Evidence
from tightrope.certificates.statements import families_for, family_of
from tightrope.certificates.statements.base import Family, Statement, Target, Values
from tightrope.certificates.statements.returns import ExpectedReturn

if TYPE_CHECKING:
    from tightrope.certificates.certificate import Certificate

__all__ = ["CHANCE", "Observation", "Verdict", "observed", "observed_in_test", "observed_risk"]

CHANCE = 5e-2  # how rarely a statement that holds would be called violated

Verdict = Literal["held", "inconclusive", "violated"]


@dataclass(frozen=True)
class Observation:
    """A statement on other episodes.

    Attributes:
        value: the share of episodes within the limit, where the statement is about a share; how
            often the event happened, where it is about a probability; otherwise the mean, in the
            units of :attr:`Statement.limit`.
        count: of the episodes that `value` counts; None for a mean.
        n: independent units.
        held: whether `value` is on the stated side.
        sure: whether the truth is on that side as well, but for the failure probability.
    """

    value: float
    count: int | None
    n: int
    held: bool
    sure: bool

    @property
    def verdict(self) -> Verdict:
        """Whether the statement is true, if that is sure."""
        if not self.sure:
            return "inconclusive"
        return "held" if self.held else "violated"


def observed(
    statement: Statement,
    families: Sequence[Family],
    seen: Evidence,
    *,
    delta: float = CHANCE,
    known: Mapping[Target, float] | None = None,
) -> Observation:
    """Compare a statement with episodes that it does not rest on.

    A share or a probability has exact binomial limits, a mean limits by bets: whatever their
    number, and however rare large losses are, a limit fails with probability `delta`.

    Args:
        statement: what is certified.
        families: one of them is that it comes from; a mean risk needs none.
        seen: the other episodes, predicted by the certificate's predictor.
        delta: failure probability of each limit.
        known: expectations and probabilities that are known exactly.
    """
    s = statement
    if s.kind == "mean-risk":
        return observed_risk(s, seen, seen.losses, delta=delta)
    family = family_of(s, families)
    scores, at_most = family.scores(seen, s.chosen), s.direction == "at-most"
    n = len(scores)
    if s.share is not None:
        within = int((scores <= s.limit if at_most else scores >= s.limit).sum())
        return _counted(within, n, s.share, at_most=False, delta=delta)
    exact = (known or {}).get(s.target)
    if exact is not None:
        return Observation(exact, None, n, exact <= s.limit if at_most else exact >= s.limit, True)
    if not isinstance(family, ExpectedReturn):  # an event
        return _counted(int(scores.sum()), n, s.limit, at_most=at_most, delta=delta)
    ends = s.limit - s.chosen["top"], s.limit - family.floor
    held, sure = _not_above_zero(s.limit - scores, *ends, delta)
    return Observation(float(scores.mean()), None, n, held, sure)


def observed_risk(
    s: Statement, seen: Evidence, losses: Values, *, delta: float, largest: float = 1.0
) -> Observation:
    """Compare a mean risk with that of other episodes, whose steps have losses up to `largest`.

    A mean over steps is a ratio of means over episodes. It is above the stated one if and only if
    what the losses of an episode exceed that by is above 0 in the mean.
    """
    counts = np.bincount(seen.pairs.episode).astype(np.float64)
    totals = np.asarray(np.bincount(seen.pairs.episode, losses), dtype=np.float64)
    most = -(-(seen.time_limit or int(seen.episodes.lengths.max())) // seen.thin)
    if s.unit == "episode":
        totals, counts, most = totals / counts, np.ones(len(counts)), 1
    excess = (totals - s.value * counts) / most
    held, sure = _not_above_zero(excess, -s.value, largest - s.value, delta)
    mean = float(totals.sum() / counts.sum())
    return Observation(mean**0.5 * seen.scaling.width, None, len(excess), held, sure)


def _counted(count: int, n: int, limit: float, *, at_most: bool, delta: float) -> Observation:
    """A probability behind `count` of `n` events against a limit of it."""
    low = float(clopper_pearson_lower(count, n=n, delta=delta))
    high = float(clopper_pearson_upper(count, n=n, delta=delta))
    if at_most:
        held, sure = count / n <= limit, high <= limit or low > limit
    else:
        held, sure = count / n >= limit, low >= limit or high < limit
    return Observation(count / n, count, n, held, sure)


def _not_above_zero(excess: Values, low: float, high: float, delta: float) -> tuple[bool, bool]:
    """Whether the mean of independent values in [low, high] is at most 0, and if that is sure."""
    scaled, zero = np.clip((excess - low) / (high - low), 0.0, 1.0), -low / (high - low)
    if excess.mean() <= 0:
        return True, bool(betting_upper(scaled, delta=delta) <= zero)
    return False, bool(betting_lower(scaled, delta=delta) > zero)


def observed_in_test(
    certificate: "Certificate", seen: Evidence | None = None
) -> tuple[Observation | None, ...]:
    """Every statement on the test episodes; None without any.

    The mean risk of a posterior is about random draws: of it there is the test error alone, in the
    unit of the certificate.

    Args:
        certificate: whose statements are compared.
        seen: its test episodes, if they are predicted already.
    """
    c = certificate
    if not c.episodes.test:
        return (None,) * len(c.statements)
    if seen is None:
        total = len(c.rollouts)
        seen = c.evidence(c.rollouts.span(total - c.episodes.test, total))
    families = families_for(c.settings, c.rollouts)

    def compare(s: Statement) -> Observation | None:
        if s.kind != "mean-risk" or c.settings.scheme.fixed:
            return observed(s, families, seen)
        if s.unit != c.unit or c.test_error is None:
            return None
        value = float(np.sqrt(c.test_error)) * c.width
        return Observation(value, None, c.episodes.test, value <= s.limit, sure=False)

    return tuple(compare(s) for s in c.statements)
