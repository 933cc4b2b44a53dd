"""Certify a table of results: returns, failures and properties of whole episodes, no prediction."""

from typing import Any

import numpy as np

from tightrope.certificates.assumptions import table_assumptions
from tightrope.certificates.certificate import Certificate, Counts
from tightrope.certificates.diagnostics import Checks, drift
from tightrope.certificates.evidence import Evidence
from tightrope.certificates.options import Options
from tightrope.certificates.recompute import certificate_of, ledger_of, states
from tightrope.certificates.settings import Settings
from tightrope.certificates.statements import choose, families_for
from tightrope.certificates.statements.base import Task
from tightrope.errors import InputError
from tightrope.posteriors import Scaling
from tightrope.rollouts import Episodes, pairs
from tightrope.rollouts.results_table import table_of
from tightrope.seeds import Stream, child_seed

__all__ = ["certify_table"]

_LEAST = 2  # episodes of a task
# What only a predictor, or steps, would tell.
_UNPREDICTED: dict[str, Any] = dict.fromkeys(
    (
        *("bound", "effective_n", "time_limit", "return_range", "clipped_share", "train_error"),
        *(
            "test_error",
            "constant_error",
            "per_step_error",
            "steps",
            "truncated_episodes",
            "fitted",
        ),
    )
)


def certify_table(
    episodes: Episodes, settings: Settings, *, options: Options | None = None
) -> Certificate:
    """Compute every number of the certificate of a table; `verify` calls the same function.

    All rows calibrate. Whatever is about predicted returns is None.

    Raises:
        InputError: a task has a single episode, or a return is below the floor or the range.
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
    families = families_for(settings, episodes)
    high = settings.return_range[1] if settings.return_range else float(returns.max())
    task = Task(len(episodes), settings.delta, 1, high)
    chosen = choose(families, None, task, ledger)
    statements = states(families, seen, chosen, ledger)
    return certificate_of(
        statements,
        ledger,
        episodes,
        settings,
        options,
        **_UNPREDICTED,
        n=len(episodes),
        thin=1,
        checks=Checks(dependence=None, drift=_drift(episodes, settings)),
        portions=(),
        other_portions=(),
        fits=(),
        episodes=Counts(pilot=0, fit=0, calibration=len(episodes), test=0),
        assumptions=table_assumptions(settings, table),
        posteriors=(),
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
    ends = np.cumsum([count for _, count in table["tasks"]])
    tasks = np.split(np.stack(values), ends[:-1], axis=1)
    return drift(tasks, child_seed(settings.seed, Stream.CHECKS, 1))
