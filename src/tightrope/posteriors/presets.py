"""Named recipes for the prior and the fit; the reasons are in docs/guide.md."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from tightrope.errors import InputError
from tightrope.posteriors.fit import Rows, Settings, pretrain
from tightrope.posteriors.gaussians import Gaussians, kaiming_means
from tightrope.posteriors.seeds import child_seed

__all__ = ["HIDDEN", "PRESETS", "Preset", "initial_prior", "preset"]

HIDDEN = (256, 256)


@dataclass(frozen=True)
class Preset:
    """A prior and a way to fit.

    Attributes:
        name: what users type.
        prior_log_variance: of every weight and bias in the first prior.
        pilot_log_variance: the same where the pilot episodes gave the first prior its means.
        pilot_steps: updates of that fit to the pilot episodes; 0 leaves the means random.
        settings: how each portion is fitted.
    """

    name: str
    prior_log_variance: float
    pilot_log_variance: float
    pilot_steps: int
    settings: Settings


PRESETS = {
    # The paper's recipe. Batch size and epochs are not in the paper; see docs/guide.md.
    "paper": Preset(
        name="paper",
        prior_log_variance=-4.6,
        pilot_log_variance=-4.6,
        pilot_steps=0,
        settings=Settings(
            objective="mcallester",
            sampling="local",
            learning_rate=2e-2,
            decay=0.5,
            decay_epochs=10,
            epochs=40,
            epoch_steps=100,
            batch=256,
            clip=1.0,
            whitened=False,
        ),
    ),
    # The first prior's means come from the pilot episodes, which are in no bound; the objective is
    # the bound itself.
    "tight": Preset(
        name="tight",
        prior_log_variance=-9.0,
        pilot_log_variance=-14.0,
        pilot_steps=1000,
        settings=Settings(
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


def preset(name: str) -> Preset:
    """The preset of that name.

    Raises:
        InputError: there is none.
    """
    if name not in PRESETS:
        raise InputError(f"expected a preset among {', '.join(PRESETS)}, found {name!r}")
    return PRESETS[name]


def initial_prior(
    chosen: Preset, features: int, pilot: Rows | None, seeds: Sequence[int]
) -> Gaussians:
    """The first prior of each member: independent of the validation data by construction."""
    means = kaiming_means((features, *HIDDEN, 1), [child_seed(seed, 0, 0) for seed in seeds])
    log_variance = chosen.prior_log_variance
    if pilot is not None and chosen.pilot_steps:
        own = [child_seed(seed, 0, 1) for seed in seeds]
        means = pretrain(means, pilot, own, steps=chosen.pilot_steps)
        log_variance = chosen.pilot_log_variance
    return Gaussians(means, tuple(torch.full_like(mean, log_variance) for mean in means))
