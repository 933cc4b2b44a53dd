"""What other episodes show of a statement: test episodes, or the true ones of an audit."""

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
from tightrope.certificates.statements import families_for
from tightrope.certificates.statements.base import Family, Statement, Values
from tightrope.certificates.statements.failure import Event
from tightrope.certificates.statements.mean_risk import LargeError

if TYPE_CHECKING:
    from tightrope.certificates.certificate import Certificate

__all__ = ["CHANCE", "Observation", "Verdict", "observed", "observed_in_test"]

CHANCE = 5e-2  # how rarely a statement that holds would be called violated

Verdict = Literal["held", "within chance", "violated"]


@dataclass(frozen=True)
class Observation:
    """A statement on other episodes.

    Attributes:
        value: the share of episodes within the limit, where the statement is about a share; how
            often the event happened, where it is about a probability; otherwise the mean, in the
            units of :attr:`Statement.limit`.
        low: the truth is at least this, but for the failure probability; -inf where no bound is
            known.
        high: the truth is at most this, likewise.
        count: of the episodes that `value` counts; None for a mean.
        n: independent units.
        verdict: whether `value` is on the stated side; if not, whether the truth may be.
    """

    value: float
    low: float
    high: float
    count: int | None
    n: int
    verdict: Verdict


def observed(
    statement: Statement, family: Family, seen: Evidence, *, delta: float = CHANCE
) -> Observation:
    """Compare a statement with episodes that it does not rest on.

    Args:
        statement: what is certified.
        family: that it comes from.
        seen: the other episodes, predicted by the certificate's predictor.
        delta: failure probability of `low` and of `high`.
    """
    s, scores = statement, family.scores(seen, statement.chosen)
    count, n = None, len(scores)
    if s.share is not None or isinstance(family, Event | LargeError):
        within = scores <= s.value_raw if s.direction == "at-most" else scores >= s.value_raw
        count = int((scores if s.share is None else within).sum())
        value = count / n
        low = float(clopper_pearson_lower(count, n=n, delta=delta))
        high = float(clopper_pearson_upper(count, n=n, delta=delta))
    else:
        value, low, high = _mean(s, family, seen, scores, delta)
    required = s.limit if s.share is None else s.share
    if s.share is not None or s.direction == "at-least":
        held, possible = value >= required, high >= required
    else:
        held, possible = value <= required, low <= required
    verdict: Verdict = "held" if held else "within chance" if possible else "violated"
    return Observation(value, low, high, count, n, verdict)


def _mean(
    s: Statement, family: Family, seen: Evidence, scores: Values, delta: float
) -> tuple[float, float, float]:
    """A mean with limits of the true one, where episodes have scores in [0, 1]."""

    def in_units(mean: float) -> float:
        _, raw, rms = family.units(mean, seen)
        return raw if rms is None else rms

    value = in_units(float(scores.mean()))
    if s.kind != "mean-risk" or s.unit == "step":
        return value, -np.inf, np.inf
    low, high = betting_lower(scores, delta=delta), betting_upper(scores, delta=delta)
    return value, in_units(float(low)), in_units(float(high))


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
    families = {family.name: family for family in families_for(c.settings, c.rollouts)}

    def compare(s: Statement) -> Observation | None:
        if s.name in families:
            return observed(s, families[s.name], seen)
        if s.unit != c.unit or c.test_error is None:
            return None
        value = float(np.sqrt(c.test_error)) * c.width
        verdict: Verdict = "held" if value <= s.limit else "within chance"
        return Observation(value, -np.inf, np.inf, None, c.episodes.test, verdict)

    return tuple(compare(s) for s in c.statements)
