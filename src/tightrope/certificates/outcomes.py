"""Statements on what episodes come to: their return, and how often they fail.

One value per episode, so no assumption on steps is needed, and no predictor: all validation
episodes count.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tightrope.bounds import betting_lower, clopper_pearson_upper, tolerance_rank, tolerance_share
from tightrope.certificates.assumptions import INDEPENDENT_EPISODES
from tightrope.certificates.data import Data
from tightrope.certificates.options import Options
from tightrope.certificates.statements import Statement, Target
from tightrope.errors import InputError
from tightrope.rollouts import Episodes, discounted_returns

__all__ = [
    "failure_names",
    "failures",
    "outcomes",
    "require_floor",
    "return_names",
    "returns_of",
]

_SHARE = 0.9  # of new episodes, in statements on the return, where the data allow it
_DISCOUNTED, _SUM = "discounted return", "undiscounted return"
_EARLY, _SUCCESS = "an episode terminates early", "an episode is no success"


_EVENTS: dict[str, Target] = {_EARLY: "early-termination", _SUCCESS: "no-success"}
_RETURNS: dict[str, Target] = {_DISCOUNTED: "discounted-return", _SUM: "undiscounted-return"}


class _Sure(NamedTuple):
    alone: float  # in whichever of the candidates is chosen
    jointly: float


def return_names(data: Data, options: Options) -> list[str]:
    """Names of the statements on returns that will be made; known before any number is."""
    totals = _totals(options)
    means = [] if options.return_floor == "off" else [f"expected {name}" for name in totals]
    return [*totals, *means]


def failure_names(data: Data, options: Options) -> list[str]:
    """Names of the statements on failure probabilities that will be made."""
    names = [_EARLY]
    names += [_SUCCESS] if data.shares.validation.success is not None else []
    return [*names, *([_below(options)] if options.fail_below != "off" else [])]


def outcomes(
    data: Data, options: Options, *, failure: Callable[[str], float], joint: float
) -> list[Statement]:
    """Lower limits of returns and upper bounds on failure probabilities.

    Args:
        data: its validation episodes, all of them.
        options: what was asked for.
        failure: the failure probability of the statement of that name.
        joint: confidence of all statements of the certificate.
    """
    require_floor(data, options)
    validation = data.shares.validation
    values = returns_of(validation, options.gamma)
    tops = _tops(data, options)

    def sure(name: str) -> _Sure:
        return _Sure(1.0 - options.candidates * failure(name), joint)

    said = []
    for name in return_names(data, options):
        total = name.removeprefix("expected ")
        if name == total:
            said.append(_quantile(name, values[total], data, failure(name), sure(name)))
        else:
            assert options.return_floor != "off"  # return_names asked
            floor, top = options.return_floor, tops[total]
            said.append(_mean(name, values[total], floor, top, data, failure(name), sure(name)))
    events = failures(validation, options)
    for name in failure_names(data, options):
        said.append(_share(name, events[name], failure(name), sure(name)))
    return said


def require_floor(data: Data, options: Options) -> None:
    """Refuse a floor that the episodes contradict; asked before anything is fitted."""
    floor = options.return_floor
    found = returns_of(data.shares.validation, options.gamma)
    for name in _totals(options):
        smallest = found[name].min()
        if floor != "off" and smallest < floor:
            raise InputError(
                f"expected no {name} below the floor {floor:g}, found {smallest:g}: give a lower "
                "`return_floor`"
            )


def _totals(options: Options) -> list[str]:
    """Without a discount both returns are one."""
    return [_SUM] if options.gamma == 1 else [_DISCOUNTED, _SUM]


def _below(options: Options) -> str:
    return f"an episode's undiscounted return is below {options.fail_below:g}"


def failures(episodes: Episodes, options: Options) -> dict[str, NDArray[np.bool_]]:
    """By name of the event, in which of the episodes it happened."""
    events = {_EARLY: episodes.terminated}
    if episodes.success is not None:
        events[_SUCCESS] = ~episodes.success
    if options.fail_below != "off":
        events[_below(options)] = returns_of(episodes, options.gamma)[_SUM] < options.fail_below
    return events


def returns_of(episodes: Episodes, gamma: float) -> dict[str, NDArray[np.float64]]:
    """Discounted and undiscounted return of every episode, by name."""
    starts = episodes.offsets[:-1]
    return {
        _DISCOUNTED: discounted_returns(episodes, gamma)[starts],
        _SUM: np.add.reduceat(episodes.rewards, starts),
    }


def _tops(data: Data, options: Options) -> dict[str, float]:
    """Where returns are clipped from above, which can only lower their mean."""
    pilot = data.shares.pilot
    if pilot is None:
        return {_DISCOUNTED: data.return_range[1], _SUM: data.return_range[1]}
    highest = {name: float(v.max()) for name, v in returns_of(pilot, options.gamma).items()}
    return {name: top + 0.1 * abs(top) for name, top in highest.items()}


def _quantile(
    name: str, values: NDArray[np.float64], data: Data, delta: float, sure: _Sure
) -> Statement:
    """An order statistic: what a share of new episodes reaches, with no range and no clipping."""
    n = len(values)
    rank = int(tolerance_rank(_SHARE, n=n, delta=delta)) or n
    share = float(tolerance_share(rank, n=n, delta=delta))
    reached = float(np.sort(values)[n - rank])
    said = f"mean of {n} episodes {values.mean():.6g}, smallest {values.min():.6g}"
    estimate = float(np.quantile(values, 1.0 - share))
    return _at_least(name, reached, n, data, sure, estimate=estimate, share=share, note=said)


def _mean(
    name: str,
    values: NDArray[np.float64],
    floor: float,
    top: float,
    data: Data,
    delta: float,
    sure: _Sure,
) -> Statement:
    top = max(top, np.nextafter(floor, np.inf))
    scaled = (np.minimum(values, top) - floor) / (top - floor)
    bound = floor + (top - floor) * float(betting_lower(np.clip(scaled, 0.0, 1.0), delta=delta))
    said = f"no return is below {floor:.6g}, said the user; above {top:.6g} they count as that"
    estimate = float(values.mean())
    return _at_least(name, bound, len(values), data, sure, estimate=estimate, share=None, note=said)


def _at_least(
    name: str,
    reached: float,
    n: int,
    data: Data,
    sure: _Sure,
    *,
    estimate: float,
    share: float | None,
    note: str,
) -> Statement:
    low, high = data.return_range
    return Statement(
        kind="return",
        quantity=f"{name} of a new episode",
        unit="episode",
        direction="at-least",
        value=(reached - low) / (high - low),
        value_raw=reached,
        rms_raw=None,
        estimate=estimate,
        share=share,
        n=n,
        assumes=INDEPENDENT_EPISODES,
        confidence=sure.alone,
        joint_confidence=sure.jointly,
        note=note,
        target=_RETURNS[name.removeprefix("expected ")],
    )


def _share(event: str, events: NDArray[np.bool_], delta: float, sure: _Sure) -> Statement:
    count, n = int(np.sum(events)), len(events)
    bound = float(clopper_pearson_upper(count, n=n, delta=delta))
    return Statement(
        kind="failure",
        quantity=f"probability that {event}",
        unit="episode",
        direction="at-most",
        value=bound,
        value_raw=bound,
        rms_raw=None,
        estimate=count / n,
        share=None,
        n=n,
        assumes=INDEPENDENT_EPISODES,
        confidence=sure.alone,
        joint_confidence=sure.jointly,
        note=f"{count} of {n} episodes",
        target=_EVENTS.get(event, "low-return"),
    )
