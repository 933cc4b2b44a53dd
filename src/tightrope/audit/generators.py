"""Synthetic tasks, from harmless to nasty: episodes from a generator, without any environment.

Observations are N(0, 1) in each of two features unless a task says otherwise, and rewards are
`SLOPE` times the first one plus noise, so that there is something to predict and something that
cannot be. Everything is drawn as arrays (episodes, steps) and cut to length.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from tightrope.certificates.statements.base import Assumption, Target, Values
from tightrope.environments import EnvInfo
from tightrope.rollouts import Episodes, PolicySource

__all__ = ["ALIKE_EPISODES", "FEATURES", "SLOPE", "SYNTHETIC", "TASKS", "Steps", "SyntheticTask"]

SLOPE, FEATURES = 0.8, 2
Assumed = Assumption | Literal["alike episodes"]
ALIKE_EPISODES: Assumed = "alike episodes"
_STEPS: frozenset[Assumed] = frozenset({"independent steps"})
# What defaults are settled for: as if a policy was rolled out.
SYNTHETIC = PolicySource(None, EnvInfo("synthetic", "custom", 1, False, "a generator"), None)
# Draws as many episodes as there are times, each between 0 and 1, in case a task changes between.
Draw = Callable[[Values, np.random.Generator], Episodes]


@dataclass(frozen=True)
class SyntheticTask:
    """Episodes of known properties, and how they are certified.

    Attributes:
        words: what it is.
        draw: draws its episodes.
        options: of its certificates; the return range is given, so that it does not vary.
        violates: assumptions that do not hold of it: statements that need them may fail.
        known: targets whose expectation or probability is known in closed form.
    """

    words: str
    draw: Draw
    options: Mapping[str, Any]
    violates: frozenset[Assumed] = frozenset()
    known: Mapping[Target, float] = field(default_factory=dict)

    def record(self, count: int, rng: np.random.Generator) -> Episodes:
        """Episodes as somebody would record them, one after the other."""
        return self.draw(np.linspace(0.0, 1.0, count), rng)

    def new(self, count: int, rng: np.random.Generator) -> Episodes:
        """New episodes, all of them from when the recording ends."""
        return self.draw(np.ones(count), rng)


def _recorded(
    observations: NDArray[np.float32],  # (episodes, most steps, features)
    rewards: Values,  # (episodes, most steps)
    lengths: NDArray[np.int64] | int,  # (episodes,)
    terminated: NDArray[np.bool_],  # (episodes,); the others are cut by a time limit
) -> Episodes:
    """As recorded episodes, in the order drawn and cut to length."""
    count, most = rewards.shape
    lengths = np.broadcast_to(lengths, count)
    inside = np.arange(most) < lengths[:, None]  # (episodes, most steps)
    return Episodes(
        observations=observations[inside],
        rewards=rewards[inside],
        offsets=np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64),
        terminated=terminated,
        truncated=~terminated,
        seeds=np.arange(count, dtype=np.int64),
        subject={"log": "a synthetic task"},
    )


@dataclass(frozen=True)
class Steps:
    """Draws independent steps, but for an offset that all rewards of an episode share.

    Attributes:
        noise: deviation of what cannot be predicted of a reward.
        steps: of every episode.
        offset: deviation of the hidden factor of an episode.
        largest: reward, in absolute value.
        falls: share of episodes that end terminated, after all their steps.
        disasters: share of episodes in which every reward is `-largest`, and which end terminated.
        drift: of the rewards from time 0 to time 1.
    """

    noise: float
    steps: int
    offset: float = 0.0
    largest: float = np.inf
    falls: float = 0.0
    disasters: float = 0.0
    drift: float = 0.0

    def __call__(self, times: Values, rng: np.random.Generator) -> Episodes:
        """An episode for each of the times, between 0 and 1."""
        count, shape = len(times), (len(times), self.steps)
        x = rng.normal(size=(*shape, FEATURES)).astype(np.float32)
        shared = self.offset * rng.normal(size=(count, 1)) + self.drift * times[:, None]
        rewards = SLOPE * x[:, :, 0] + shared + self.noise * rng.normal(size=shape)
        rewards = np.clip(rewards.astype(np.float64), -self.largest, self.largest)
        struck = rng.random(count) < self.disasters
        if self.disasters:
            rewards[struck] = -self.largest
        ends = struck | (rng.random(count) < self.falls)
        return _recorded(x, rewards, self.steps, ends)


def _falling(times: Values, rng: np.random.Generator) -> Episodes:
    """A hidden frailty of each episode decides when it falls; those that go on are the sturdy ones.

    The second feature hints at the frailty, with noise. A reward of 1 for every step survived, less
    what the first feature takes, so that long episodes return more and have more steps.
    """
    count, limit = len(times), 60
    frailty = rng.normal(size=(count, 1))  # logarithm
    x = rng.normal(size=(count, limit, FEATURES)).astype(np.float32)
    x[:, :, 1] += frailty.astype(np.float32)
    rewards = 1.0 + 0.3 * np.clip(x[:, :, 0].astype(np.float64), -2.0, 2.0)
    hazard = np.minimum(0.04 * np.exp(frailty), 0.9)[:, 0]  # of a fall at a step
    falls = rng.geometric(hazard)  # the step, from 1, at which an episode falls
    return _recorded(x, rewards, np.minimum(falls, limit), falls <= limit)


def _wandering(times: Values, rng: np.random.Generator) -> Episodes:
    """A state that wanders and is seen, and rewards that follow it; every episode is cut."""
    shape, memory = (len(times), 60), 0.9
    x = np.empty((*shape, FEATURES), dtype=np.float32)
    state = rng.normal(size=(len(times), FEATURES))
    for step in range(shape[1]):
        x[:, step] = state
        state = memory * state + np.sqrt(1.0 - memory**2) * rng.normal(size=state.shape)
    rewards = 1.0 + SLOPE * x[:, :, 0] + 0.5 * rng.normal(size=shape)
    return _recorded(x, rewards, shape[1], np.zeros(len(times), dtype=np.bool_))


_ALONE: dict[str, Any] = {"gamma": 0.0, "thin": 1}  # the return of a step is its reward
_BOUNDED = {**_ALONE, "return_floor": -50.0, "discounted_floor": -2.5}  # 20 steps of at least -2.5
TASKS: dict[str, SyntheticTask] = {
    "independent": SyntheticTask(
        "independent steps: the return of a step is its own reward",
        Steps(noise=0.5, steps=20, largest=2.5, falls=0.2),
        {**_BOUNDED, "return_range": (-2.5, 2.5), "time_limit": 20},
        known={"early-termination": 0.2, "discounted-return": 0, "undiscounted-return": 0},
    ),
    "correlated": SyntheticTask(
        "steps that share a hidden factor of their episode",
        Steps(noise=0.2, steps=40, offset=0.8),
        {**_ALONE, "return_range": (-3.0, 3.0), "time_limit": 40},
        violates=_STEPS,
    ),
    "catastrophes": SyntheticTask(
        "one episode in 200 is a catastrophe from its first step on",
        Steps(noise=0.3, steps=20, largest=2.5, disasters=1 / 200),
        {**_BOUNDED, "return_range": (-2.5, 2.5), "time_limit": 20},
        violates=_STEPS,
        known={
            "early-termination": 0.005,
            "discounted-return": -0.0125,
            "undiscounted-return": -0.25,
        },
    ),
    "clipping": SyntheticTask(
        "four returns in five lie outside the return range",
        Steps(noise=0.5, steps=20),
        {**_ALONE, "return_range": (-0.25, 0.25), "time_limit": 20},
        known={"early-termination": 0.0},
    ),
    "survivorship": SyntheticTask(
        "episodes of variable length, of which the sturdy ones have most steps",
        _falling,
        {"gamma": 0.95, "thin": 3, "return_range": (0.0, 25.0), "time_limit": 60},
        violates=_STEPS,
    ),
    "time-limit": SyntheticTask(
        "every episode runs into the time limit; overlapping returns",
        _wandering,
        {"gamma": 0.95, "thin": 5, "return_range": (-15.0, 40.0), "time_limit": 60},
        violates=_STEPS,
        known={"early-termination": 0.0},
    ),
    "drifting": SyntheticTask(
        "rewards rise while episodes are recorded; new ones come after",
        Steps(noise=0.5, steps=20, offset=0.2, drift=1.5),
        {**_ALONE, "return_range": (-3.0, 4.0), "time_limit": 20},
        violates=frozenset({"independent steps", "alike episodes"}),
    ),
}
