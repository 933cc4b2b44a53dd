"""Named recipes for the prior and the fit; the reasons are in docs/guide.md."""

import contextlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import torch

from tightrope.posteriors.fit import FitSettings
from tightrope.posteriors.gaussians import Gaussians, kaiming_means
from tightrope.posteriors.network import HIDDEN, Network
from tightrope.posteriors.regression import Regression
from tightrope.seeds import Stream, child_seed

__all__ = [
    "PRESETS",
    "Preset",
    "PresetName",
    "changed_presets",
    "informed_prior",
    "random_prior",
    "shortened",
]

PresetName = Literal["paper", "tight"]


@dataclass(frozen=True)
class Preset:
    """A prior and a way to fit.

    Attributes:
        name: what users type.
        clock: whether elapsed time is an input where the time limit is known.
        regression: how data that are free are fitted; None leaves the first prior random and fits
            free portions like the others.
        prior_log_variance: of every weight and bias in a prior with random means.
        informed_log_variance: the same around means that were fitted to free data.
        fit: how a posterior is fitted.
        hidden: widths of the hidden layers.
    """

    name: PresetName
    clock: bool
    regression: Regression | None
    prior_log_variance: float
    informed_log_variance: float
    fit: FitSettings
    hidden: tuple[int, ...] = HIDDEN


PRESETS: dict[str, Preset] = {
    # The paper's recipe. Batch size and epochs are not in the paper; see docs/guide.md.
    "paper": Preset(
        name="paper",
        clock=False,
        regression=None,
        prior_log_variance=-4.6,
        informed_log_variance=-4.6,
        fit=FitSettings(
            objective="mcallester",
            sampling="local",
            learning_rate=2e-2,
            decay=0.5,
            decay_epochs=10,
            epochs=40,
            epoch_steps=40,
            batch=128,
            clip=1.0,
            whitened=False,
        ),
    ),
    # What goes into a prior, or into a predictor that is fixed beforehand, is plain regression; a
    # posterior then minimises the bound itself.
    "tight": Preset(
        name="tight",
        clock=True,
        regression=Regression(
            folds=5,
            steps=2000,
            batch=256,
            exact_steps=1000,
            exact_batch=128,
            learning_rate=1e-3,
            memory=200,
        ),
        prior_log_variance=-9.0,
        informed_log_variance=-16.0,
        fit=FitSettings(
            objective="inverse-kl",
            sampling="local",
            learning_rate=2e-2,
            decay=0.5,
            decay_epochs=5,
            epochs=20,
            epoch_steps=25,
            batch=64,
            clip=1.0,
            whitened=True,
        ),
    ),
}


def random_prior(chosen: Preset, features: int, seeds: Sequence[int]) -> Gaussians:
    """A prior with random means for each member: independent of all data by construction."""
    own = [child_seed(seed, Stream.PRIOR_MEANS, 0) for seed in seeds]
    means = kaiming_means((features, *chosen.hidden, 1), own)
    return Gaussians(
        means, tuple(torch.full_like(mean, chosen.prior_log_variance) for mean in means)
    )


def informed_prior(chosen: Preset, networks: Sequence[Network]) -> Gaussians:
    """A prior around networks that were fitted to free data, one for each member."""
    layers = zip(*(network.layers for network in networks), strict=True)
    means = tuple(torch.cat(layer) for layer in layers)
    return Gaussians(
        means, tuple(torch.full_like(mean, chosen.informed_log_variance) for mean in means)
    )


@contextlib.contextmanager
def changed_presets(change: Callable[[Preset], Preset]) -> Iterator[None]:
    """Presets under their own names, but changed; what a guarantee says depends on none of them.

    For audits and tests of guarantees. A certificate does not record such a change, so that its
    verification must make the same one.
    """
    before = dict(PRESETS)
    PRESETS.update({name: change(preset) for name, preset in before.items()})
    try:
        yield
    finally:
        PRESETS.update(before)


def shortened(preset: Preset, *, updates: int | None = None, width: int | None = None) -> Preset:
    """The preset with at most so many updates in each fit, and hidden layers of that width.

    >>> short = shortened(PRESETS["tight"], updates=60, width=16)
    >>> short.regression.steps, short.fit.steps, short.hidden
    (60, 60, (16, 16))
    """
    fit, regression = preset.fit, preset.regression
    hidden = preset.hidden if width is None else (width,) * len(preset.hidden)
    if updates is not None and updates < fit.steps:
        epochs = min(fit.epochs, updates)
        fit = replace(fit, epochs=epochs, epoch_steps=updates // epochs)
    if regression is not None:
        most = regression.steps if updates is None else updates
        regression = replace(
            regression,
            steps=min(regression.steps, most),
            exact_steps=min(regression.exact_steps, most),
            hidden=hidden,
        )
    return replace(preset, fit=fit, regression=regression, hidden=hidden)
