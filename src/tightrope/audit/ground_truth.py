"""Certificates and comparisons against the truth: very many new episodes, or what is known.

Each limit of the truth fails with probability `FAILURE`, from all new episodes, whatever they are.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np

from tightrope.bounds import betting_lower, betting_upper
from tightrope.certificates import Certificate, Evidence, Family, Statement
from tightrope.certificates.observed import Verdict, observed, observed_risk
from tightrope.certificates.statements import families_for, family_of
from tightrope.certificates.statements.base import INDEPENDENT_EPISODES, Target
from tightrope.comparison import Comparison
from tightrope.comparison.questions import Interval
from tightrope.posteriors import draw_predictions
from tightrope.rollouts import Episodes, Pairs, pairs

__all__ = ["ALL", "WARNINGS", "Check", "NewEpisodes", "checks_of", "checks_of_comparison"]

Check = dict[str, Any]  # a statement against the truth: a row of checks.csv
ALL = "all at once"
WARNINGS = ("dependent steps", "drift", "vacuous", "void", "failed fit")
FAILURE = 1e-4
_DRAWS = 0xA0D17  # root of the draws from posteriors
# Unclipped squared error, in squared widths of the range; larger ones count as this.
_LARGEST = 16.0


@dataclass(frozen=True)
class NewEpisodes:
    """New episodes as the certificates of one subject speak of them.

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

    def evidence(self, c: Certificate) -> Evidence:
        """With predictions: deterministic ones, or one draw from the posterior at each step."""
        rows, scaling = self.all_steps, c.predictor.scaling
        if c.settings.scheme.fixed:
            predicted = c.predictor.along(self.episodes)
        else:
            inputs = scaling.inputs(rows.observations, rows.step)
            posterior = c.posteriors[-1]
            drawn = draw_predictions(posterior, inputs, passes=1, seed=_DRAWS, sampling="local")
            predicted = np.full(len(self.episodes.rewards), np.nan)
            at = self.episodes.offsets[rows.episode] + rows.step
            predicted[at] = scaling.returns(drawn[0].astype(np.float64))
        return Evidence(self.episodes, self.thinned, predicted, scaling, self.gamma, self.thin)


def checks_of(certificate: Certificate, new: NewEpisodes) -> Iterator[Check]:
    """A row for each statement of a certificate, for what its words literally say, and for all.

    Literally, errors are those at all steps, without clipping, which no statement claims. A row has
    `value` and what it would be if it were `exact`.
    """
    c, families = certificate, families_for(certificate.settings, certificate.rollouts)
    seen = new.evidence(c)
    literal = replace(seen, pairs=new.all_steps, thin=1)
    joint = []
    for s in c.statements:
        truth, exact = _judged(s, families, seen, new.known)
        if s.joint_confidence is not None:
            joint.append(truth)
        yield _check(c.scheme, s, truth, exact)
        if s.kind in ("mean-risk", "tolerance"):
            yield _check(c.scheme, s, *_judged(s, families, literal, {}, clipped=False), False)
    fired = (c.checks.dependent, c.checks.drifting, c.vacuous, c.void, c.failed_fit)
    warnings = dict(zip(WARNINGS, fired, strict=True))
    yield {**_together(c.scheme, ALL, joint, c.joint_confidence), **warnings}


def _judged(
    s: Statement,
    families: Sequence[Family],
    seen: Evidence,
    known: Mapping[Target, float],
    clipped: bool = True,
) -> tuple[Verdict, float]:
    """Whether a statement is true, and what its `value` would be if it were exact."""
    width = seen.scaling.width
    if s.kind == "mean-risk":
        squares = np.minimum(np.square(seen.errors / width), _LARGEST)
        losses, largest = (seen.losses, 1.0) if clipped else (squares, _LARGEST)
        found = observed_risk(s, seen, losses, delta=FAILURE, largest=largest)
        return found.verdict, (found.value / width) ** 2
    found, family = observed(s, families, seen, delta=FAILURE, known=known), family_of(s, families)
    exact = found.value
    if s.share is not None:
        share = s.share if s.direction == "at-most" else 1.0 - s.share
        exact = float(np.quantile(family.scores(seen, s.chosen), share))
    return found.verdict, family.units(exact, seen)[0]


def _check(scheme: str, s: Statement, truth: Verdict, exact: float, claimed: bool = True) -> Check:
    share = "" if s.share is None else f", {100 * s.share:.1f} %"
    gap = s.value - exact
    return {
        "scheme": scheme,
        "statement": f"{s.name}{share}{'' if claimed else ': all steps, unclipped'}",
        "claimed": claimed,
        "assumes": s.assumes,
        "nominal": 1.0 - s.confidence,
        "truth": truth,
        "value": s.value,
        "exact": exact,
        "tightness": gap if s.direction == "at-most" else -gap,
    }


def _together(scheme: str, name: str, verdicts: Sequence[Verdict], confidence: float) -> Check:
    worst: tuple[Verdict, ...] = ("violated", "inconclusive")
    return {
        "scheme": scheme,
        "statement": name,
        "claimed": True,
        "assumes": INDEPENDENT_EPISODES,
        "nominal": 1.0 - confidence,
        "truth": next((each for each in worst if each in verdicts), "held"),
    }


def checks_of_comparison(comparison: Comparison, true: Comparison) -> Iterator[Check]:
    """A row for each interval of a comparison, against that of very many new episodes; for all."""
    verdicts = []
    for each in comparison.intervals:
        name = each.name
        verdicts.append(_has_truth(each, true.interval(name)))
        one = _together("compare", name, verdicts[-1:], each.confidence)
        yield {**one, "tightness": each.high - each.low}
    yield _together("compare", ALL, verdicts, comparison.confidence)


def _has_truth(stated: Interval, new: Interval) -> Verdict:
    """Whether an interval has the true measure in it."""
    scaled = np.clip((1.0 + new.differences) / 2.0, 0.0, 1.0)
    low, high = (
        (2.0 * float(bound(scaled, delta=FAILURE)) - 1.0) * new.width
        for bound in (betting_lower, betting_upper)
    )
    if high < stated.low or low > stated.high:
        return "violated"
    return "held" if stated.low <= low and high <= stated.high else "inconclusive"
