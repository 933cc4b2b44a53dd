"""From what was fitted and the episodes to every number of a certificate; `verify` runs it too."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tightrope.certificates.assumptions import INDEPENDENT_EPISODES, INDEPENDENT_STEPS
from tightrope.certificates.beforehand import Beforehand
from tightrope.certificates.checks import dependence, drift
from tightrope.certificates.data import Data, View
from tightrope.certificates.deviations import alarm_statement
from tightrope.certificates.fixed import band, errors, mean_risk, tolerances
from tightrope.certificates.ledger import (
    Ledger,
    auto_ledger,
    beside,
    holdout_ledger,
    recursive_ledger,
)
from tightrope.certificates.links import starts
from tightrope.certificates.measure import (
    Drawn,
    effective_size,
    measure_excess,
    measure_risk,
    unit_mean,
)
from tightrope.certificates.options import Options, Unit
from tightrope.certificates.outcomes import failure_names, outcomes, return_names
from tightrope.certificates.portions import Portion, bound_portions, final_bound
from tightrope.certificates.statements import Statement
from tightrope.posteriors import Chain, draw_losses, kl_divergence
from tightrope.rollouts import Pairs
from tightrope.seeds import Stream, child_seed

__all__ = ["Assessment", "assess", "ledger_of"]

_COMPARISON_PASSES = 5  # of train and test errors, which enter no bound
_UNITS: tuple[Unit, Unit] = ("step", "episode")


@dataclass(frozen=True)
class Comparison:
    """Errors that enter no bound, on the normalised scale, in the certificate's unit.

    Attributes:
        train_error: of the predictor on the validation episodes.
        test_error: on the test episodes; None without any.
        constant_error: of predicting the mean validation return, on test (or validation).
        per_step_error: of predicting the mean validation return of the same elapsed step, there.
        effective_n: independent steps worth of information on the loss, on the last portion.
        dependence: p-value of independent steps, from the losses there.
        drift: p-value of episodes that are alike, from the returns of all validation episodes.
    """

    train_error: float
    test_error: float | None
    constant_error: float
    per_step_error: float
    effective_n: float
    dependence: float
    drift: float


@dataclass(frozen=True)
class Assessment:
    """The numbers of a certificate, on the normalised scale."""

    ledger: Ledger
    portions: dict[Unit, tuple[Portion, ...]]
    statements: tuple[Statement, ...]
    headline: int
    comparison: Comparison


def ledger_of(data: Data, options: Options) -> Ledger:
    """Which failure probability goes where."""
    kind = options.division.kind
    if kind == "auto":
        return auto_ledger(
            return_names(data, options),
            failure_names(data, options),
            delta=options.delta,
            delta_prime=options.delta_prime,
            candidates=options.candidates,
        )
    if kind == "holdout":
        return holdout_ledger(
            delta=options.delta, delta_prime=options.delta_prime, candidates=options.candidates
        )
    return recursive_ledger(
        len(options.division.weights) if kind == "recursive" else 1,
        delta=options.delta,
        delta_prime=options.delta_prime,
        candidates=options.candidates,
    )


def assess(
    chain: Chain, data: Data, view: View, options: Options, beforehand: Beforehand
) -> Assessment:
    """Every number of the certificate of what was fitted."""
    ledger = ledger_of(data, options)
    if options.division.kind == "auto":
        portions, said = _jointly(chain, data, view, options, beforehand, ledger)
    else:
        portions = _singly(chain, data, view, options, beforehand, ledger)
        said = _own_statements(portions, chain, data, view, options, beforehand, ledger)
    usable = [i for i, s in enumerate(said) if s.kind == "tolerance" and s.value < 1]
    return Assessment(
        ledger=ledger,
        portions=portions,
        statements=tuple(said),
        headline=usable[-1] if usable else 0,
        comparison=_compare(chain, data, view, options),
    )


def _jointly(
    chain: Chain, data: Data, view: View, options: Options, beforehand: Beforehand, ledger: Ledger
) -> tuple[dict[Unit, tuple[Portion, ...]], list[Statement]]:
    """All statements of a fixed predictor, under one ledger."""
    joint, width = ledger.confidence, view.scaling.width
    found = errors(chain.network, data, view, data.row_of_episode(view.free_count))
    step = mean_risk(
        found, unit="step", delta=ledger.failure("mean risk, unit step"), beforehand=beforehand
    )
    said, episode = tolerances(
        found,
        delta=ledger.failure("tolerance"),
        width=width,
        confidence=ledger.confidence_in("tolerance"),
        joint=joint,
    )
    portions: dict[Unit, tuple[Portion, ...]] = {"step": (step,), "episode": (episode,)}
    spent = {"step": "mean risk, unit step", "episode": "tolerance"}
    said += [
        _risk_statement(portions[unit], unit, width, ledger.confidence_in(spent[unit]), joint)
        for unit in _UNITS
    ]
    said.append(
        band(
            found,
            view,
            delta=ledger.failure("band"),
            profile=beforehand.profile,
            confidence=ledger.confidence_in("band"),
            joint=joint,
        )
    )
    alarm = ledger.failure("monitor"), ledger.confidence_in("monitor")
    said.append(_alarm(chain, data, view, options, beforehand, *alarm, joint))
    return portions, said + outcomes(data, options, failure=ledger.failure, joint=joint)


def _singly(
    chain: Chain, data: Data, view: View, options: Options, beforehand: Beforehand, ledger: Ledger
) -> dict[Unit, tuple[Portion, ...]]:
    """The bound of one scheme, in both units."""
    first = starts(data, options)
    if options.division.fixed:
        found = errors(chain.network, data, view, data.row_of_episode(first[1]))
        failure = ledger.failure("hold-out: risk")
        return {
            unit: (mean_risk(found, unit=unit, delta=failure, beforehand=beforehand),)
            for unit in _UNITS
        }
    posteriors = chain.gaussians[1:]
    divergences = [
        float(kl_divergence(posterior, prior)[0])
        for prior, posterior in zip(chain.gaussians[:-1], posteriors, strict=True)
    ]
    if options.division.kind == "recursive":
        drawn = [
            _drawn(chain, t, data, view, options, data.row_of_episode(first[t - 1]))
            for t in range(1, len(chain.gaussians))
        ]
    else:  # only the last posterior is in a statement, on the second portion
        last = len(posteriors)
        drawn = [_drawn(chain, last, data, view, options, data.row_of_episode(first[1]))]
        divergences = divergences[-1:]
    return {
        unit: _recursion(drawn, divergences, unit, options, beforehand, ledger) for unit in _UNITS
    }


def _recursion(
    drawn: Sequence[Drawn],
    divergences: Sequence[float],
    unit: Unit,
    options: Options,
    beforehand: Beforehand,
    ledger: Ledger,
) -> tuple[Portion, ...]:
    bet = beforehand.bet if unit == options.unit else None
    measured = [measure_risk(drawn[0], kl=divergences[0], unit=unit, bet=bet)]
    measured += [
        measure_excess(drawn[t], drawn[t - 1], kl=divergences[t], unit=unit, kappa=options.kappa)
        for t in range(1, len(drawn))
    ]
    return bound_portions(measured, ledger=ledger, kappa=options.kappa)


def _own_statements(
    portions: dict[Unit, tuple[Portion, ...]],
    chain: Chain,
    data: Data,
    view: View,
    options: Options,
    beforehand: Beforehand,
    ledger: Ledger,
) -> list[Statement]:
    """The bound of one scheme, and beside it statements with confidences of their own."""
    alone = ledger.confidence
    other: Unit = "episode" if options.unit == "step" else "step"
    names = [*return_names(data, options), *failure_names(data, options)]
    fixed = options.division.fixed
    sequential = options.division.first is not None  # then only mean risks hold where it stops
    count = 0 if sequential else len(names) + fixed
    joint = max(0.0, 1.0 - 2.0 * (1.0 - alone) - count * options.delta)
    failure = beside(delta=options.delta, candidates=options.candidates)
    watched = []
    if fixed and not sequential:
        confidence = 1.0 - options.candidates * failure
        watched.append(_alarm(chain, data, view, options, beforehand, failure, confidence, joint))
    return [
        *(
            _risk_statement(portions[unit], unit, view.scaling.width, alone, joint)
            for unit in (options.unit, other)
        ),
        *watched,
        *([] if sequential else outcomes(data, options, failure=lambda _: failure, joint=joint)),
    ]


def _alarm(
    chain: Chain,
    data: Data,
    view: View,
    options: Options,
    beforehand: Beforehand,
    failure: float,
    confidence: float,
    joint: float,
) -> Statement:
    """The monitor's statement, on the whole episodes that a fixed predictor was not fitted to."""
    validation = data.shares.validation
    return alarm_statement(
        chain,
        validation.span(view.free_count, len(validation)),
        gamma=options.gamma,
        window=beforehand.window,
        widths=beforehand.widths,
        delta=failure,
        confidence=confidence,
        joint=joint,
    )


def _risk_statement(
    portions: Sequence[Portion], unit: Unit, width: float, confidence: float, joint: float
) -> Statement:
    bound, void = final_bound(portions)
    return Statement(
        kind="mean-risk",
        quantity="mean squared error of the predicted return on new episodes",
        unit=unit,
        direction="at-most",
        value=bound,
        value_raw=bound * width**2,
        rms_raw=float(np.sqrt(bound)) * width,
        estimate=float(np.sqrt(portions[-1].loss)) * width,
        share=None,
        n=portions[-1].n if portions[-1].kind != "excess" else portions[0].n,
        assumes=INDEPENDENT_STEPS if unit == "step" else INDEPENDENT_EPISODES,
        confidence=confidence,
        joint_confidence=joint,
        note="void: a step of the recursion is negative, so its portions differ" if void else "",
    )


def _drawn(chain: Chain, t: int, data: Data, view: View, options: Options, start: int) -> Drawn:
    """Losses of the t-th posterior on the validation rows from `start` on."""
    losses = draw_losses(
        chain.gaussians[t],
        view.rows.inputs[start:],
        view.targets[start:],
        passes=options.mc_passes,
        seed=child_seed(_seed(options), Stream.DRAWS, t - 1),
        sampling=options.sampling,
    )
    return Drawn(losses, data.validation.episode[start:], options.sampling == "weights")


def _compare(chain: Chain, data: Data, view: View, options: Options) -> Comparison:
    unit, validation = options.unit, data.validation
    train = _losses(chain, validation, view, options, Stream.TRAIN_ERROR)
    test = None
    if data.test is not None:
        test = _losses(chain, data.test, view, options, Stream.TEST_ERROR)
    of = validation if data.test is None else data.test
    goal, seen = view.scaling.targets(of.returns), view.targets
    by_step = np.bincount(validation.step, weights=seen) / np.maximum(
        np.bincount(validation.step), 1
    )
    reached = np.minimum(of.step, len(by_step) - 1)
    last = data.row_of_episode(starts(data, options)[-2])
    losses, episode = train[last:], validation.episode[last:]
    whole = data.shares.validation
    totals = np.add.reduceat(whole.rewards, whole.offsets[:-1])
    return Comparison(
        train_error=unit_mean(train, validation.episode, unit),
        test_error=None if test is None else unit_mean(test, of.episode, unit),
        constant_error=unit_mean(np.square(goal - seen.mean()), of.episode, unit),
        per_step_error=unit_mean(np.square(goal - by_step[reached]), of.episode, unit),
        effective_n=effective_size(losses, episode),
        dependence=dependence(losses, episode, child_seed(_seed(options), Stream.CHECKS, 0)),
        drift=drift(totals, child_seed(_seed(options), Stream.CHECKS, 1)),
    )


def _losses(
    chain: Chain, of: Pairs, view: View, options: Options, stream: Stream
) -> NDArray[np.float64]:
    """(rows,) squared errors of the predictor, averaged over a few draws if it has any."""
    targets = view.scaling.targets(of.returns)
    if options.division.fixed:
        return np.square(chain.predictions(of.observations, of.step) - targets)
    drawn = draw_losses(
        chain.gaussians[-1],
        view.scaling.inputs(of.observations, of.step),
        targets,
        passes=_COMPARISON_PASSES,
        seed=child_seed(_seed(options), stream),
        sampling=options.sampling,
    )
    return np.asarray(drawn.mean(axis=0))


def _seed(options: Options) -> int:
    assert isinstance(options.seed, int)  # resolved before anything is drawn
    return options.seed
