"""Forecast what more episodes would certify: another number of episodes in the same bounds.

A forecast, not a promise: what was measured (the predictor, its scores, a posterior's divergence)
is taken to stay as it is.
"""

from collections.abc import Iterable
from dataclasses import replace

import numpy as np

from tightrope.certificates.certificate import Certificate
from tightrope.certificates.evidence import Evidence
from tightrope.certificates.recompute import headline_of
from tightrope.certificates.statements import families_for, ledger_for
from tightrope.certificates.statements.base import Family, Statement, Values
from tightrope.certificates.statements.pac_bayes import Portion, bound_chain, final_bound
from tightrope.certificates.statements.tolerance import LEVELS
from tightrope.certificates.text import limit_text, percent, title
from tightrope.deploy.check import Conditions, check
from tightrope.errors import InputError, as_lines
from tightrope.rollouts.results_table import table_of

__all__ = ["episodes_for", "forecast", "summary", "target_summary"]

_MOST = 10_000  # episodes that a search goes up to
_FINEST = 50_000  # units that stand for more of them
_TAIL = 0.2  # of the scores, whose excess tells how far larger ones would be
_COUNTED = ("episodes", "n", "draws")


def forecast(certificate: Certificate, episodes: int) -> tuple[Statement, ...]:
    """The statements that so many episodes would give, if all else stayed as it is.

    Episodes count those to fit and to calibrate together, and as many are fitted to as in the
    certificate. More to fit to would give a better predictor, which is not foreseen.

    Raises:
        InputError: there are fewer episodes than the scheme needs.
    """
    return _Forecast(certificate).statements(episodes)


def episodes_for(certificate: Certificate, conditions: Conditions) -> int | None:
    """Episodes to fit and to calibrate that would meet the conditions of a check.

    None if no number up to 10,000 would.
    """
    ahead = _Forecast(certificate)

    def reached(count: int) -> bool:
        return check(ahead.certified(count), conditions).passed

    lower = upper = ahead.fewest
    while not reached(upper):
        if upper >= _MOST:
            return None
        lower, upper = upper, min(2 * upper, _MOST)
    while upper - lower > max(1, upper // 100):
        middle = (lower + upper) // 2
        lower, upper = (lower, middle) if reached(middle) else (middle, upper)
    return upper


def summary(certificate: Certificate, numbers: Iterable[int]) -> str:
    """A table of the statements as they are, and as they would be with so many episodes."""
    c = certificate
    lines = [title(c).replace("Risk certificate", "Forecast")]
    lines.append("A forecast, not a promise: what was measured is taken to stay as it is.")
    now = c.episodes.validation or len(c.rollouts)
    columns = {f"now ({now:,})": c.statements}
    for number in numbers:
        try:
            columns[f"{number:,}"] = forecast(c, number)
        except InputError:
            lines.append(f"{number:,} episodes are too few, with {c.episodes.fit} to fit.")
    return as_lines([*lines, "", *_table(columns)])


def target_summary(certificate: Certificate, conditions: Conditions) -> tuple[int | None, str]:
    """How many episodes would meet the conditions, and that in words."""
    count = episodes_for(certificate, conditions)
    if count is not None:
        kinds = "episodes" if table_of(certificate.rollouts) else "episodes to fit and to calibrate"
        return count, f"About {count:,} {kinds} would meet these conditions."
    report = check(_Forecast(certificate).certified(_MOST), conditions)
    failing = [f"  {each}" for each in report.conditions if not each.passed]
    return None, as_lines([f"Not even {_MOST:,} episodes would meet these conditions:", *failing])


class _Forecast:
    """What was measured once, for several numbers of episodes."""

    def __init__(self, certificate: Certificate) -> None:
        self.certificate = c = certificate
        families = families_for(c.settings, c.rollouts)
        self.settings, self.ledger = c.settings, ledger_for(c.settings, families)
        self.families = {each.name: each for each in families}
        first = c.episodes.pilot + (c.episodes.fit if c.settings.scheme.fixed else 0)
        rows = c.rollouts.span(first, c.episodes.pilot + c.episodes.validation)
        self.seen: Evidence = c.evidence(rows)
        self.scores: dict[str, Values] = {}
        self.fewest = max(len(c.settings.scheme.weights), c.settings.fit + 1, 2)

    def certified(self, episodes: int) -> Certificate:
        """The certificate with the statements of another number of episodes."""
        c, statements = self.certificate, self.statements(episodes)
        means = [s.value for s in statements if s.kind == "mean-risk" and s.unit == c.unit]
        bound = means[0] if means else None
        return replace(c, statements=statements, headline=headline_of(statements), bound=bound)

    def statements(self, episodes: int) -> tuple[Statement, ...]:
        """In the order of the certificate; the levels of a family may be others."""
        c, scheme = self.certificate, self.settings.scheme
        counted = scheme.sizes(episodes, self.settings.fit)[-1]  # those of the last portion
        counted = episodes if scheme.kind == "recursive" else counted
        found: list[Statement] = []
        for name in dict.fromkeys(s.name for s in c.statements):
            s = c.statement(name)
            if family := self.families.get(name):
                number = counted if scheme.fixed else episodes
                found += self._of_family(family, s, number / len(self.seen))
            else:
                portions = c.portions if s.unit == c.unit else c.other_portions
                found.append(self._of_posterior(s, portions, counted / portions[0].episodes))
        return tuple(found)

    def _of_family(self, family: Family, s: Statement, factor: float) -> list[Statement]:
        """The statements of its family on `factor` times the units, like those measured."""
        n = max(1, round(s.n * factor))
        if family.name not in self.scores:
            self.scores[family.name] = family.scores(family.within(self.seen), s.chosen)
        scores = self.scores[family.name]
        if s.share is not None:
            side = 1.0 if s.direction == "at-most" else -1.0
            scores = side * _with_tail(side * scores, n)
        else:
            scores = _resampled(scores, min(n, max(_FINEST, len(scores))))
        delta, joint = self.ledger.failure(family.budget), self.certificate.joint_confidence
        return [
            family.stated(limit, n, self.seen, s.chosen, s.confidence, joint)
            for limit in family.limits(scores, delta=delta, chosen=s.chosen)
        ]

    def _of_posterior(
        self, s: Statement, portions: tuple[Portion, ...], factor: float
    ) -> Statement:
        """The bound on a posterior's risk with `factor` times the units and draws."""
        measured = []
        for portion in portions:
            counts = {name: max(1, round(getattr(portion, name) * factor)) for name in _COUNTED}
            measured.append(replace(portion, **counts))
        chain = bound_chain(measured, ledger=self.ledger, kappa=self.settings.kappa)
        (bound, void), width = final_bound(chain), self.certificate.width
        raw, rms = bound * width**2, float(np.sqrt(bound)) * width
        now = replace(s, value=bound, value_raw=raw, rms_raw=rms, n=chain[0].n, note="")
        return replace(now, void=void, vacuous=bound >= 1.0)


def _resampled(values: Values, n: int) -> Values:
    """N values with the distribution of these; nothing is drawn."""
    return np.asarray(np.quantile(values, (np.arange(n) + 0.5) / n, method="inverted_cdf"))


def _with_tail(scores: Values, n: int) -> Values:
    """As many scores like these; beyond the largest seen with an exponential tail."""
    at = (np.arange(n) + 0.5) / n
    found = _resampled(scores, n)
    start = float(np.quantile(scores, 1 - _TAIL))
    excess = float(np.mean(np.maximum(scores[scores >= start] - start, 0.0)))
    beyond = at > 1 - 0.5 / len(scores)
    tail = start + excess * np.log(_TAIL / (1 - at[beyond]))
    found[beyond] = np.maximum(found[beyond], tail)
    return found


def _table(columns: dict[str, tuple[Statement, ...]]) -> list[str]:
    """A row for each statement, a column for each number of episodes."""
    rows: dict[tuple[str, str], dict[str, str]] = {}
    for column, statements in columns.items():
        for s in statements:
            level = "" if s.share is None else percent(s.share)
            cell = f"{'≤' if s.direction == 'at-most' else '≥'} {limit_text(s)}"
            if level and s.share not in LEVELS:
                level, cell = "other levels", f"{cell} ({level})"
            rows.setdefault((s.name, level), {})[column] = cell
    order = list(dict.fromkeys(name for name, _ in rows))
    named = sorted(rows.items(), key=lambda row: (order.index(row[0][0]), row[0][1]))
    cells = [["", *columns]]
    cells += [[", ".join(filter(None, key)), *(row.get(c, "-") for c in columns)]
              for key, row in named]  # fmt: skip
    wide, *widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    return [
        f"{name:<{wide}}" + "".join(f"  {c:>{w}}" for c, w in zip(row, widths, strict=True))
        for name, *row in cells
    ]
