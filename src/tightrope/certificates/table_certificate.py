"""Certify a table of results: returns, failures and properties of whole episodes, no prediction."""

import numpy as np

from tightrope.certificates.assumptions import table_assumptions
from tightrope.certificates.certificate import Certificate, Counts
from tightrope.certificates.diagnostics import Checks, drift
from tightrope.certificates.evidence import Evidence
from tightrope.certificates.options import Options
from tightrope.certificates.recompute import headline_of, joint_confidence, ledger_of
from tightrope.certificates.settings import Settings
from tightrope.certificates.statements import choose, families_for
from tightrope.certificates.statements.base import Statement, Task
from tightrope.errors import InputError
from tightrope.posteriors import Scaling
from tightrope.rollouts import Episodes, pairs
from tightrope.rollouts.results_table import table_of
from tightrope.seeds import Stream, child_seed

__all__ = ["certify_table"]

_LEAST = 2  # episodes of a task


def certify_table(
    episodes: Episodes, settings: Settings, *, options: Options | None = None
) -> Certificate:
    """Compute every number of the certificate of a table; `verify` calls the same function.

    All rows calibrate. Whatever is about predicted returns is None.

    Raises:
        InputError: a task has a single episode, or a return is below the floor or above the range.
    """
    table = table_of(episodes)
    assert table is not None  # its settings say so
    for name, count in table["tasks"]:
        if count < _LEAST:
            raise InputError(
                f"expected at least {_LEAST} episodes{f' of {name}' if name else ''}, found {count}"
            )
    returns = episodes.returns(1.0)
    for limit, outside, words in (
        (settings.return_floor, returns.min(), "below the `return_floor`"),
        (settings.return_range and settings.return_range[0], returns.min(), "below the range of"),
    ):
        if limit is not None and outside < limit:
            raise InputError(
                f"expected no return {words} {limit:g}, found {outside:g}: a lower one may be "
                "certified on other episodes, or with `candidates`"
            )
    seen = evidence_of(episodes)
    ledger = ledger_of(settings, episodes)
    joint = joint_confidence(ledger)
    families = families_for(settings, episodes)
    high = settings.return_range[1] if settings.return_range else float(returns.max())
    task = Task(len(episodes), settings.delta, 1, high)
    chosen = choose(families, None, task, ledger)
    statements: list[Statement] = []
    for family in families:
        statements += family.state(seen, chosen[family.name], ledger, joint)
    return Certificate(
        options=options or Options(),
        settings=settings,
        bound=None,
        confidence=ledger.confidence,
        joint_confidence=joint,
        n=len(episodes),
        effective_n=None,
        thin=1,
        time_limit=None,
        checks=Checks(dependence=None, drift=_drift(episodes, settings)),
        return_range=None,
        clipped_share=None,
        train_error=None,
        test_error=None,
        constant_error=None,
        per_step_error=None,
        portions=(),
        other_portions=(),
        statements=tuple(statements),
        headline=headline_of(statements),
        ledger=ledger.entries(),
        fits=(),
        episodes=Counts(pilot=0, fit=0, calibration=len(episodes), test=0),
        steps=None,
        truncated_episodes=None,
        assumptions=table_assumptions(settings, table),
        subject=dict(episodes.subject),
        fitted=None,
        posteriors=(),
        rollouts=episodes,
    )


def evidence_of(episodes: Episodes) -> Evidence:
    """Episodes without predictions, returns as they are."""
    nothing = np.zeros(0, np.float32)
    scaling = Scaling(0.0, 1.0, "user", nothing, nothing)
    unknown = np.full(len(episodes.rewards), np.nan)
    return Evidence(episodes, pairs(episodes, gamma=1.0), unknown, scaling, 1.0, 1)


def _drift(episodes: Episodes, settings: Settings) -> float | None:
    """P-value of rows that are alike, of all tasks together; None where there is no order."""
    table = table_of(episodes)
    assert table is not None
    if not table["ordered"]:
        return None
    values = [episodes.returns(1.0)] if table["returns"] else []
    values += [episodes.success.astype(float)] if episodes.success is not None else []
    found, first = [], 0
    for index, (_, count) in enumerate(table["tasks"]):
        for which, each in enumerate(values):
            seed = child_seed(settings.seed, Stream.CHECKS, 1, index, which)
            found.append(drift(each[first : first + count], seed))
        first += count
    return min(1.0, len(found) * min(found))
