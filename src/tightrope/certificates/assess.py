"""From fitted posteriors and episodes to every number of a certificate; also what `verify` runs."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tightrope.certificates.companions import Companion, companions
from tightrope.certificates.data import Data
from tightrope.certificates.ledger import recursive_ledger
from tightrope.certificates.options import Options
from tightrope.certificates.statements import (
    Drawn,
    Statement,
    Unit,
    clipped,
    effective_size,
    holdout_statement,
    recursive_statements,
    unit_means,
)
from tightrope.posteriors import (
    Chain,
    Gaussians,
    Link,
    Stage,
    child_seed,
    draw_losses,
    kl_divergence,
)
from tightrope.rollouts import Pairs

__all__ = ["Assessment", "assess", "links"]

_COMPARISON_PASSES = 5  # of train and test errors, which enter no bound


@dataclass(frozen=True)
class Assessment:
    """The numbers of a certificate, on the normalised scale."""

    statements: tuple[Statement, ...]
    other_statements: tuple[Statement, ...]  # the same posteriors, the other unit
    effective_n: float
    clipped_share: float
    train_error: float
    test_error: float | None
    constant_error: float  # of predicting the mean validation return, on test (or validation)
    companions: tuple[Companion, ...]

    @property
    def bound(self) -> float:
        """The certificate: the last step of the recursion, inside [0, 1]."""
        return clipped(self.statements[-1].bound)

    @property
    def other_bound(self) -> float:
        """The certificate in the other unit."""
        return clipped(self.other_statements[-1].bound)


def links(data: Data, options: Options) -> list[Link]:
    """The fits of a scheme: what each may see, and which bound it will be put into."""
    starts = [0, *np.cumsum(options.plan.sizes(data.validation.episodes)).tolist()]
    rows = [data.row_of_episode(start) for start in starts]

    def units_from(portion: int) -> int:
        """Units in this portion and later, as far as a fit that ends with this portion may know.

        How many rows later episodes have is part of the data that a prior must not depend on, so
        they are taken to be as long as those seen.
        """
        seen = min(portion + 1, len(starts) - 1)
        per_episode = 1.0 if options.unit == "episode" else rows[seen] / starts[seen]
        return int(max(1, round(per_episode * (starts[-1] - starts[portion]))))

    if options.plan.kind == "recursive":
        share = options.ledger().failure("portion 1: risk")  # the same for every portion
        kappas = [0.0, *[options.kappa] * (len(options.plan.weights) - 1)]
        return [
            Link(0, rows[t + 1], Stage(units_from(t), share, kappas[t]))
            for t in range(len(options.plan.weights))
        ]
    # The same first fit as that of rec-2, so that the two can share it.
    two = recursive_ledger(2, delta=options.delta, delta_prime=options.delta_prime)
    first = Link(0, rows[1], Stage(units_from(0), two.failure("portion 1: risk"), 0.0))
    if options.plan.kind == "holdout":
        return [first]
    return [first, Link(rows[1], rows[2], Stage(units_from(1), options.delta, 0.0))]


def assess(chain: Chain, data: Data, options: Options) -> Assessment:
    """Every number of the certificate of a fitted chain."""
    starts = [0, *np.cumsum(options.plan.sizes(data.validation.episodes)).tolist()]
    posteriors, kind = chain.gaussians[1:], options.plan.kind
    if kind == "recursive":
        drawn = [
            _drawn(posterior, data, options, data.row_of_episode(starts[t]), t)
            for t, posterior in enumerate(posteriors)
        ]
    else:  # only the last posterior is in a statement, on the second portion
        drawn = [_drawn(posteriors[-1], data, options, data.row_of_episode(starts[1]), 0)]
    divergences = [
        float(kl_divergence(posterior, prior)[0])
        for prior, posterior in zip(chain.gaussians[:-1], posteriors, strict=True)
    ]
    other: Unit = "episode" if options.unit == "step" else "step"
    final, seed = posteriors[-1], options.seed
    train = _comparison(final, data, data.validation, options, child_seed(seed, 3))
    test = None
    if data.test is not None:
        test = _comparison(final, data, data.test, options, child_seed(seed, 4))
    return Assessment(
        statements=_statements(drawn, divergences, options, options.unit),
        other_statements=_statements(drawn, divergences, options, other),
        effective_n=effective_size(train.losses, train.episode),
        clipped_share=data.scaling.clipped_share(data.validation.returns),
        train_error=unit_means(train.losses, train.episode, options.unit),
        test_error=None if test is None else unit_means(test.losses, test.episode, options.unit),
        constant_error=_constant_error(data, options.unit),
        companions=tuple(
            companions(
                data, gamma=options.gamma, delta=options.delta, fail_below=options.fail_below
            )
        ),
    )


def _statements(
    drawn: Sequence[Drawn], divergences: Sequence[float], options: Options, unit: Unit
) -> tuple[Statement, ...]:
    ledger = options.ledger()
    if options.plan.kind == "holdout":
        return (holdout_statement(drawn[0], unit=unit, ledger=ledger),)
    own = divergences if options.plan.kind == "recursive" else divergences[-1:]
    return tuple(recursive_statements(drawn, own, unit=unit, ledger=ledger, kappa=options.kappa))


def _drawn(posterior: Gaussians, data: Data, options: Options, start: int, t: int) -> Drawn:
    losses = draw_losses(
        posterior,
        data.rows.inputs[start:],
        data.targets[start:],
        passes=options.mc_passes,
        seed=child_seed(options.seed, 2, t),
        sampling=options.sampling,
    )
    return Drawn(losses, data.validation.episode[start:], options.sampling == "weights")


def _comparison(posterior: Gaussians, data: Data, of: Pairs, options: Options, seed: int) -> Drawn:
    losses = draw_losses(
        posterior,
        data.scaling.inputs(of.observations),
        data.scaling.targets(of.returns),
        passes=_COMPARISON_PASSES,
        seed=seed,
        sampling=options.sampling,
    )
    return Drawn(losses, of.episode)


def _constant_error(data: Data, unit: Unit) -> float:
    of = data.validation if data.test is None else data.test
    errors = np.square(data.scaling.targets(of.returns) - data.targets.mean())
    return unit_means(errors[None], of.episode, unit)
