"""What jobs are expected to cost on one core, for estimates and simulations; nothing depends on it.

Seconds were measured on one core of an AMD EPYC without AVX-512 (benchmarks/scale.md); a study
that has finished some jobs of a stage corrects its estimates by them.
"""

import itertools
from collections.abc import Mapping
from typing import Any

from tightrope.agents.hyperparameters import AGENTS, SACSettings
from tightrope.certificates.options import Options
from tightrope.certificates.schemes import scheme
from tightrope.environments import EnvInfo
from tightrope.posteriors.presets import PRESETS

__all__ = ["certify_cost", "collect_cost", "train_cost"]

_FLOPS = 60e9  # per second in an update, of the 85e9 that matrix products alone reach
_UPDATE = 3.5e-3  # seconds of an update that do not depend on the width
_STEP = 1.2e-4  # seconds of a step of the environment with its policy
_ON_POLICY = 9e-4  # seconds that PPO takes for a step of its own, beside updates
_EPISODE_STEPS = 1000  # where no limit is known
_FIT_ROW = 7e-5  # seconds per row of a posterior's mini-batch
_REGRESSION = 1.5e-2  # seconds per update of a regression
_CERTIFICATE = 2.0  # seconds for draws and bounds of one certificate


def train_cost(spec: Mapping[str, Any]) -> tuple[float, float]:
    """Seconds and bytes of a training."""
    chosen, steps = spec["settings"], spec["levels"][-1]
    widths = list(chosen["hidden"])
    inner = sum(2 * a * b for a, b in itertools.pairwise(widths))  # CReLU doubles
    weights = 64 * widths[0] + inner
    if issubclass(AGENTS[spec["agent"]], SACSettings):
        critics = chosen.get("critics", 2)
        passes = 3 * critics + 2 * 2 + 3 * 2 + 3  # critics learn, targets, the actor's climb, actor
        updates = max(steps - chosen["warmup"], 0) * chosen["replay_ratio"]
        own_step = 0.0
    else:
        passes = 6
        updates = steps * chosen["epochs"] / chosen["batch"]
        own_step = _ON_POLICY
    flops = 2 * weights * chosen["batch"] * passes
    seconds = updates * (_UPDATE + flops / _FLOPS) + steps * (_STEP + own_step)
    return seconds, 3 * 4.0 * weights * (3 + chosen.get("critics", 2) * 4)


def collect_cost(environment: str, episodes: int) -> tuple[float, float]:
    """Seconds and bytes of a collection, if every episode runs into its time limit."""
    steps = episodes * (EnvInfo.of(environment).time_limit or _EPISODE_STEPS)
    return 3.0 + steps * _STEP, steps * 200.0


def certify_cost(environment: str, spec: Mapping[str, Any]) -> tuple[float, float]:
    """Seconds and bytes of the certificates of one policy, with fits that schemes share."""
    seconds, certificates = 5.0, 0
    fitted: set[Any] = set()
    for request in spec["requests"]:
        options = Options.of(request["options"])
        preset, repetitions = PRESETS[options.preset], len(request["seeds"])
        asked, episodes = scheme(options.scheme), int(options.episodes)
        quarter = max(episodes // 4, 1)
        fit = quarter if options.fit_episodes == "auto" else options.fit_episodes
        sizes = asked.sizes(episodes, fit)
        shared = (options.preset, options.sampling, episodes, options.clock)
        chain: tuple[Any, ...] = shared
        certificates += repetitions
        seconds += repetitions * _CERTIFICATE
        if preset.regression is not None:
            exact = asked.reproducible_prior
            chain = (*shared, 0 if exact else sizes[0])
            if chain not in fitted:
                seconds += repetitions * preset.regression.updates(exact) * _REGRESSION
        fitted.add(chain)
        if asked.fixed:  # without a regression, the first portion is fitted like the others
            sizes = [] if preset.regression is not None else sizes[:1]
        for size in sizes:
            chain = (*chain, size, options.unit)
            if chain not in fitted:
                rows = preset.fit.steps * preset.fit.batch
                seconds += repetitions * rows * _FIT_ROW
            fitted.add(chain)
    return seconds, certificates * 20_000.0
