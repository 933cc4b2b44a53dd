"""What is true of a statement, from very many new episodes: held, violated, or too close to call.

The family of a statement scores new episodes as it scored those of the certificate. A share or a
probability is known up to exact binomial limits, and a mean up to limits by bets, always from all
new episodes; each limit fails with probability `_FAILURE`.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Literal

import numpy as np

from tightrope.bounds import (
    betting_lower,
    betting_upper,
    clopper_pearson_lower,
    clopper_pearson_upper,
)
from tightrope.certificates import Certificate, Evidence, Family, Statement
from tightrope.certificates.statements import families_for, family_of, outcomes_for
from tightrope.certificates.statements.base import Target, Values
from tightrope.certificates.statements.returns import ExpectedReturn
from tightrope.posteriors import draw_predictions
from tightrope.rollouts import Episodes, Pairs, pairs

__all__ = ["NewEpisodes", "State", "Truth", "truths"]

State = Literal["held", "violated", "inconclusive"]
_FAILURE = 1e-4
_DRAWS = 0xA0D17  # root of the draws from posteriors
_LARGEST = (
    16.0  # unclipped squared error, in squared widths of the range; larger ones count as this
)


@dataclass(frozen=True)
class Truth:
    """What is true of a statement.

    Attributes:
        statement: that is judged.
        state: held or violated, if that is sure.
        value: what the statement's `value` would be if it were exact.
        claimed: False if the words were taken literally, at all steps and without clipping, which
            the statement does not claim.
    """

    statement: Statement
    state: State
    value: float
    claimed: bool = True


@dataclass(frozen=True)
class NewEpisodes:
    """New episodes as the statements of one subject speak of them.

    Attributes:
        episodes: that no certificate has seen.
        gamma: discount factor.
        thin: every `thin`-th step counts.
        known: targets whose expectation or probability is known in closed form.
    """

    episodes: Episodes
    gamma: float
    thin: int
    known: Mapping[Target, float] = field(default_factory=dict)

    @cached_property
    def thinned(self) -> Pairs:
        """The steps that count."""
        return pairs(self.episodes, gamma=self.gamma, thin=self.thin)

    @cached_property
    def all_steps(self) -> Pairs:
        """The same without thinning."""
        return self.thinned if self.thin == 1 else pairs(self.episodes, gamma=self.gamma)

    def evidence(self, certificate: Certificate) -> Evidence:
        """With predictions: deterministic ones, or one draw from the posterior at each step."""
        c, rows, predictor = certificate, self.all_steps, certificate.predictor
        if c.settings.scheme.fixed:
            predicted = predictor.along(self.episodes)
        else:
            inputs = predictor.scaling.inputs(rows.observations, rows.step)
            drawn = draw_predictions(
                c.posteriors[-1], inputs, passes=1, seed=_DRAWS, sampling="local"
            )
            predicted = np.full(len(self.episodes.rewards), np.nan)
            at = self.episodes.offsets[rows.episode] + rows.step
            predicted[at] = predictor.scaling.returns(drawn[0].astype(np.float64))
        return Evidence(
            self.episodes, self.thinned, predicted, predictor.scaling, self.gamma, self.thin
        )


def truths(certificate: Certificate, new: NewEpisodes) -> list[Truth]:
    """What is true of every statement, and of the literal words of those on thinned errors."""
    settings = certificate.settings
    stated = families_for if settings.scheme.fixed else outcomes_for
    families = stated(settings, certificate.rollouts)
    seen = new.evidence(certificate)
    literal = replace(seen, pairs=new.all_steps, thin=1)
    found = []
    for s in certificate.statements:
        if s.kind == "mean-risk":
            squares = np.minimum(np.square(literal.errors / seen.scaling.width), _LARGEST)
            longest = settings.time_limit or int(new.episodes.lengths.max())
            found.append(_mean_risk(s, seen, seen.losses, 1.0, longest))
            unclipped = _mean_risk(s, literal, squares, _LARGEST, longest)
            found.append(replace(unclipped, claimed=False))
            continue
        family = family_of(s, families)
        found.append(_truth(s, family, seen, new.known))
        if s.kind == "tolerance":
            found.append(replace(_truth(s, family, literal, {}), claimed=False))
    return found


def _truth(s: Statement, family: Family, seen: Evidence, known: Mapping[Target, float]) -> Truth:
    """Of a statement on episodes: a share of them, a probability or an expected return."""
    scores = family.scores(seen, s.chosen)
    at_most, n = s.direction == "at-most", len(scores)
    if s.share is not None:
        within = scores <= s.limit if at_most else scores >= s.limit
        exact = float(np.quantile(scores, s.share if at_most else 1.0 - s.share))
        state = _share(int(within.sum()), n, s.share, at_most=False)
    elif s.target in known:
        exact = known[s.target]
        state = "held" if (exact <= s.limit if at_most else exact >= s.limit) else "violated"
    elif isinstance(family, ExpectedReturn):
        exact = float(scores.mean())
        state = _mean(s.limit - scores, s.limit - s.chosen["top"], s.limit - family.floor)
    else:  # an event
        exact = float(scores.mean())
        state = _share(int(scores.sum()), n, s.limit, at_most=at_most)
    return Truth(s, state, family.units(exact, seen)[0])


def _mean_risk(s: Statement, seen: Evidence, losses: Values, largest: float, longest: int) -> Truth:
    """Of a mean over episodes or steps; over steps it is a ratio of means over episodes.

    Its sign is that of the mean of what the losses of an episode exceed the stated one by.
    """
    counts = np.bincount(seen.pairs.episode).astype(np.float64)
    totals = np.asarray(np.bincount(seen.pairs.episode, losses), dtype=np.float64)
    most = -(-longest // seen.thin)
    if s.unit == "episode":
        totals, counts, most = totals / counts, np.ones(len(counts)), 1
    excess = (totals - s.value * counts) / most
    return Truth(s, _mean(excess, -s.value, largest - s.value), float(totals.sum() / counts.sum()))


def _mean(excess: Values, low: float, high: float) -> State:
    """Whether the expectation of independent values in [low, high] is at most 0."""
    scaled, zero = np.clip((excess - low) / (high - low), 0.0, 1.0), -low / (high - low)
    if excess.mean() <= 0:
        return "held" if betting_upper(scaled, delta=_FAILURE) <= zero else "inconclusive"
    return "violated" if betting_lower(scaled, delta=_FAILURE) > zero else "inconclusive"


def _share(count: int, n: int, stated: float, *, at_most: bool) -> State:
    """Whether the probability behind `count` of `n` events is at most, or at least, the stated."""
    low = float(clopper_pearson_lower(count, n=n, delta=_FAILURE))
    high = float(clopper_pearson_upper(count, n=n, delta=_FAILURE))
    if (high <= stated) if at_most else (low >= stated):
        return "held"
    return "violated" if ((low > stated) if at_most else (high < stated)) else "inconclusive"
