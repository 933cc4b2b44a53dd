"""Fit the predictor of a certificate: a regression on the fitting set, or a chain of posteriors."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from tightrope.certificates.certificate import FitRecord
from tightrope.certificates.ledger import Ledger
from tightrope.certificates.split import Split
from tightrope.posteriors import (
    Curves,
    Ensemble,
    Gaussians,
    PosteriorStep,
    ReturnPredictor,
    horizons_of,
    informed_prior,
    posterior_predictor,
    random_prior,
)
from tightrope.posteriors import fit_posterior as _fit_posterior
from tightrope.posteriors import regress as _regress
from tightrope.progress import progress_bar
from tightrope.seeds import Stream, child_seed

__all__ = ["FittedPredictor", "fit_predictor", "posterior_steps", "regress_fitting_set"]

Advance = Callable[[int], None]  # called with the number of updates just done


@dataclass(frozen=True)
class FittedPredictor:
    """What was fitted for one certificate.

    Attributes:
        predictor: the deterministic one: an ensemble, or the means of the last posterior.
        posteriors: the first prior, then one posterior per fit; empty for an ensemble.
        left_out: (rows of the fitting set,) clipped predictions by networks that have not seen the
            episode; None where nothing was left out.
        fits: how the fits went.
    """

    predictor: ReturnPredictor
    posteriors: tuple[Gaussians, ...]
    left_out: NDArray[np.float64] | None
    fits: tuple[FitRecord, ...]


def fit_predictor(
    split: Split,
    *,
    regress: Callable[..., Ensemble] = _regress,
    fit_posterior: Callable[..., tuple[Gaussians, Curves]] = _fit_posterior,
    advance: Advance | None = None,
) -> FittedPredictor:
    """Fit what the scheme asks for; each posterior uses the rows up to its own portion only.

    Args:
        split: the episodes and what is done with them.
        regress: fits the ensemble; a cache around it shares fits between schemes.
        fit_posterior: fits one posterior, likewise.
        advance: progress.
    """
    settings, preset = split.settings, split.settings.preset
    ensemble = regress_fitting_set(split, regress=regress, advance=advance)
    left_out, steps = None, posterior_steps(split)
    fits, posteriors = [], []
    if ensemble is not None:
        rows, left_out = len(ensemble.left_out), ensemble.left_out
        fits.append(_record("regression", rows, ensemble.checks, loss=ensemble.errors))
    if steps:
        posteriors = [first_prior(split, ensemble)]
        inputs, targets = split.scaling.rows(split.rows)
        own = replace(preset.fit, sampling=settings.sampling)
    for index, step in enumerate(steps):
        posterior, curves = fit_posterior(
            posteriors[-1],
            inputs,
            targets,
            step,
            own,
            child_seed(settings.seed, Stream.FIT, index),
            device=settings.device,
            advance=advance,
        )
        posteriors.append(posterior)
        updates = own.epoch_steps * (1 + np.arange(len(curves.loss)))
        fits.append(_record("posterior", step.stop - step.start, updates, **vars(curves)))
    if steps:
        predictor = posterior_predictor(posteriors[-1], split.scaling)
    else:
        assert ensemble is not None  # one of the two fits
        predictor = ReturnPredictor(ensemble.layers, split.scaling, preset.layer_norm)
    return FittedPredictor(predictor, tuple(posteriors), left_out, tuple(fits))


def fit_with_bar(
    split: Split, fit: Callable[..., FittedPredictor], *, shown: bool
) -> FittedPredictor:
    """Fit with a bar on standard error, if it is to be shown."""
    preset, done = split.settings.preset, 0
    total = len(posterior_steps(split)) * preset.fit.steps
    if preset.regression is not None and split.fit is not None:
        total += preset.regression.updates(split.settings.scheme.reproducible_prior)
    with progress_bar("fitting", total, shown=shown) as report:

        def advance(updates: int) -> None:
            nonlocal done
            done += updates
            report(done, "updates")

        return fit(split, advance=advance)


def regress_fitting_set(
    split: Split, *, regress: Callable[..., Ensemble] = _regress, advance: Advance | None = None
) -> Ensemble | None:
    """The regression on the fitting set, if the preset has one and there are episodes for it.

    Where its result is a prior that no validation episode may have moved, it is exact and on the
    CPU, so that whoever verifies the certificate can repeat it.
    """
    settings, rows = split.settings, split.fit_rows
    if settings.preset.regression is None or rows is None:
        return None
    exact = settings.scheme.reproducible_prior
    inputs, targets = split.scaling.rows(rows)
    return regress(
        inputs,
        targets,
        rows.episode,
        settings.preset.regression,
        child_seed(settings.seed, Stream.REGRESSION),
        layer_norm=settings.preset.layer_norm,
        exact=exact,
        device="cpu" if exact else settings.device,
        horizons=None if split.fit is None else horizons_of(split.fit, rows, split.scaling),
        advance=advance,
    )


def first_prior(split: Split, ensemble: Ensemble | None) -> Gaussians:
    """The prior that the chain starts at: random, or around what regression has fitted."""
    settings = split.settings
    if ensemble is not None:
        return informed_prior(settings.preset, ensemble.single)
    return random_prior(settings.preset, split.scaling.features, settings.seed)


def posterior_steps(split: Split) -> list[PosteriorStep]:
    """The posteriors a scheme fits, and the rows each may use; none where regression is enough."""
    settings, scheme, starts = split.settings, split.settings.scheme, split.starts
    rows = [split.row_of(episode) for episode in starts]

    def units_from(portion: int) -> int:
        """Units in this portion and later, as far as a fit that ends with this portion may know.

        How many rows later episodes have is part of the data that a prior must not depend on, so
        they are taken to be as long as those seen.
        """
        seen = min(portion + 1, len(starts) - 1)
        per_episode = 1.0 if settings.unit == "episode" else rows[seen] / starts[seen]
        return int(max(1, round(per_episode * (starts[-1] - starts[portion]))))

    portions = len(scheme.weights) if scheme.kind == "recursive" else 2
    ledger = Ledger.chain(portions, delta=settings.delta, delta_prime=settings.delta_prime)
    share = ledger.failure("portion 1: risk")  # the same for every portion
    if scheme.kind == "recursive":
        return [
            PosteriorStep(0, rows[t + 1], units_from(t), share, settings.kappa if t else 0.0)
            for t in range(portions)
        ]
    # The fitting set is regressed where the preset can. Otherwise the first portion is fitted like
    # that of rec-2, so that the schemes can share it.
    regressed = settings.preset.regression is not None
    first = [] if regressed else [PosteriorStep(0, rows[1], units_from(0), share, 0.0)]
    if scheme.fixed:
        return first
    return [*first, PosteriorStep(rows[1], rows[2], units_from(1), settings.delta, 0.0)]


def _record(
    kind: Literal["regression", "posterior"], rows: int, updates: Iterable[int], **curves: Any
) -> FitRecord:
    """How a fit went, its curves rounded; a regression has a loss alone."""
    short = {
        name: tuple(float(f"{value:.6g}") for value in curves.get(name, ()))
        for name in ("loss", "kl", "objective")
    }
    return FitRecord(kind=kind, rows=rows, updates=tuple(int(each) for each in updates), **short)
