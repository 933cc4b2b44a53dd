"""What is true of a certificate or a comparison, from very many new episodes.

Each limit of the truth fails with probability `FAILURE`, from all new episodes, whatever they are.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np

from tightrope.bounds import betting_lower, betting_upper
from tightrope.certificates import Certificate, Evidence, Family, Statement
from tightrope.certificates.observed import Observation, Verdict, observed, observed_risk
from tightrope.certificates.statements import families_for, family_of
from tightrope.certificates.statements.base import Target
from tightrope.comparison.questions import Interval
from tightrope.posteriors import draw_predictions
from tightrope.rollouts import Episodes, Pairs, pairs

__all__ = ["FAILURE", "NewEpisodes", "Truth", "interval_verdict", "truths"]

FAILURE = 1e-4
_DRAWS = 0xA0D17  # root of the draws from posteriors
# Unclipped squared error, in squared widths of the range; larger ones count as this.
_LARGEST = 16.0


@dataclass(frozen=True)
class Truth:
    """What is true of a statement.

    Attributes:
        statement: that is judged.
        verdict: held or violated, if that is sure.
        value: what the statement's `value` would be if it were exact.
        claimed: False if the words were taken literally, at all steps and without clipping, which
            the statement does not claim.
    """

    statement: Statement
    verdict: Verdict
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
        c, rows, scaling = certificate, self.all_steps, certificate.predictor.scaling
        if c.settings.scheme.fixed:
            predicted = c.predictor.along(self.episodes)
        else:
            inputs = scaling.inputs(rows.observations, rows.step)
            drawn = draw_predictions(
                c.posteriors[-1], inputs, passes=1, seed=_DRAWS, sampling="local"
            )
            predicted = np.full(len(self.episodes.rewards), np.nan)
            at = self.episodes.offsets[rows.episode] + rows.step
            predicted[at] = scaling.returns(drawn[0].astype(np.float64))
        return Evidence(self.episodes, self.thinned, predicted, scaling, self.gamma, self.thin)


def truths(certificate: Certificate, new: NewEpisodes) -> list[Truth]:
    """What is true of every statement, and of the literal words of those on thinned errors."""
    families = families_for(certificate.settings, certificate.rollouts)
    seen = new.evidence(certificate)
    literal = replace(seen, pairs=new.all_steps, thin=1)
    found = []
    for s in certificate.statements:
        if s.kind == "mean-risk":
            squares = np.minimum(np.square(literal.errors / seen.scaling.width), _LARGEST)
            words = observed_risk(s, literal, squares, delta=FAILURE, largest=_LARGEST)
            for each, claimed in ((observed(s, (), seen, delta=FAILURE), True), (words, False)):
                exact = (each.value / seen.scaling.width) ** 2
                found.append(Truth(s, each.verdict, exact, claimed))
            continue
        family = family_of(s, families)
        found.append(_truth(s, family, seen, new.known))
        if s.kind == "tolerance":
            found.append(replace(_truth(s, family, literal, {}), claimed=False))
    return found


def _truth(s: Statement, family: Family, seen: Evidence, known: Mapping[Target, float]) -> Truth:
    found: Observation = observed(s, [family], seen, delta=FAILURE, known=known)
    exact = found.value
    if s.share is not None:
        share = s.share if s.direction == "at-most" else 1.0 - s.share
        exact = float(np.quantile(family.scores(seen, s.chosen), share))
    return Truth(s, found.verdict, family.units(exact, seen)[0])


def interval_verdict(stated: Interval, new: Interval) -> Verdict:
    """Whether an interval of a comparison has the true measure in it.

    Args:
        stated: the interval.
        new: of the same question on very many new episodes.
    """
    scaled = np.clip((1.0 + new.differences) / 2.0, 0.0, 1.0)
    low, high = (
        (2.0 * float(bound(scaled, delta=FAILURE)) - 1.0) * new.width
        for bound in (betting_lower, betting_upper)
    )
    if high < stated.low or low > stated.high:
        return "violated"
    return "held" if stated.low <= low and high <= stated.high else "inconclusive"
