"""Synthetic recordings and short fits for the tests of posteriors and certificates."""

import contextlib
import dataclasses
from unittest.mock import patch

import numpy as np
import torch

from tightrope.certificates.certify import certify
from tightrope.posteriors import PRESETS
from tightrope.rollouts import Episode, join

torch.set_num_threads(1)  # the networks are small, and the cores are shared


def recording(
    count=16, steps=6, features=3, seed=0, *, offset=0.0, noise=0.3, terminated=False, subject=None
):
    """Episodes whose steps are independent: reward = first feature + noise (+ an offset of each).

    `steps` is the length of all episodes or a sequence of lengths; with `offset` > 0 all rewards
    of an episode are shifted by one draw from N(0, offset^2).
    """
    rng = np.random.default_rng(seed)
    lengths = np.broadcast_to(steps, count)
    episodes = []
    for index, length in enumerate(lengths):
        observations = rng.normal(size=(length, features)).astype(np.float32)
        rewards = observations[:, 0] + noise * rng.normal(size=length) + offset * rng.normal()
        episodes.append(
            Episode(observations, rewards.astype(float), terminated, not terminated, seed=index)
        )
    return join(episodes, {"log": "synthetic"} if subject is None else subject)


def changed(episodes, index, **fields):
    """The same recording with one episode changed."""
    single = [
        dataclasses.replace(episode, **fields) if i == index % len(episodes) else episode
        for i, episode in enumerate(episodes)
    ]
    return join(single, episodes.subject)


def short(name="tight", updates=20, width=16, prior=None, **settings):
    """A preset with short fits, small networks and, if wanted, another prior."""
    preset = PRESETS[name].shortened(updates, width)
    if preset.regression is not None:
        sizes = dict.fromkeys(("batch", "exact_batch"), 32)
        regression = dataclasses.replace(preset.regression, folds=2, **sizes)
        preset = dataclasses.replace(preset, regression=regression)
    if prior is not None:
        preset = dataclasses.replace(preset, prior_log_variance=prior)
    return dataclasses.replace(preset, fit=dataclasses.replace(preset.fit, **settings))


@contextlib.contextmanager
def short_fits(**changes):
    """Within it every preset is the short one of its name, for what takes a preset by its name."""
    with patch.dict(PRESETS, {name: short(name, **changes) for name in PRESETS}):
        yield


def certified(episodes, /, **options):
    """The certificate of a recording with short fits."""
    preset = "paper" if options.get("paper") else options.get("preset", "tight")
    return certify(episodes, preset_values=short(preset), **options)


def same(left, right):
    """Whether two Gaussians are the same, bit for bit."""
    return all(
        np.array_equal(a, b)
        for a, b in zip(
            (*left.means, *left.log_variances), (*right.means, *right.log_variances), strict=True
        )
    )
