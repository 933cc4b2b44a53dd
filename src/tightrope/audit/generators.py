"""Synthetic tasks, from harmless to nasty: episodes from a generator, without any environment.

Observations are N(0, 1) in each of two features unless a task says otherwise, and rewards are
`SLOPE` times the first one plus noise, so that there is something to predict and something that
cannot be. Everything is drawn as arrays (episodes, steps) and cut to length.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from tightrope.certificates.statements.base import Assumption, Target
from tightrope.environments import EnvInfo
from tightrope.rollouts import Episodes, PolicySource

__all__ = [
    "ALIKE_EPISODES",
    "FEATURES",
    "SLOPE",
    "SYNTHETIC",
    "TASKS",
    "Assumed",
    "Drawn",
    "Generator",
    "Steps",
    "SyntheticTask",
    "recorded",
]

SLOPE, FEATURES = 0.8, 2
Assumed = Assumption | Literal["alike episodes"]
ALIKE_EPISODES: Assumed = "alike episodes"
_STEPS: frozenset[Assumed] = frozenset({"independent steps"})
# What defaults are settled for: as if a policy was rolled out.
SYNTHETIC = PolicySource(None, EnvInfo("synthetic", "custom", 1, False, "a generator"), None)
_NOW = 1.0  # when new episodes are drawn, if a task changes between 0 and 1


class Drawn(NamedTuple):
    """Episodes as arrays; what is after the length of an episode does not count."""

    observations: NDArray[np.float32]  # (episodes, most steps, features)
    rewards: NDArray[np.float64]  # (episodes, most steps)
    lengths: NDArray[np.int64]  # (episodes,)
    terminated: NDArray[np.bool_]  # (episodes,); the others are cut by a time limit


class Generator(Protocol):
    """What draws the episodes of a synthetic task."""

    def draw(
        self,
        count: int,
        rng: np.random.Generator,
        when: NDArray[np.float64] | float = _NOW,
    ) -> Drawn:
        """New episodes, each at its time between 0 and 1."""


def recorded(drawn: Drawn, subject: Mapping[str, Any]) -> Episodes:
    """As recorded episodes, in the order drawn."""
    count, most = drawn.rewards.shape
    inside = np.arange(most) < drawn.lengths[:, None]  # (episodes, most steps)
    return Episodes(
        observations=drawn.observations[inside],
        rewards=drawn.rewards[inside],
        offsets=np.concatenate([[0], np.cumsum(drawn.lengths)]).astype(np.int64),
        terminated=drawn.terminated,
        truncated=~drawn.terminated,
        seeds=np.arange(count, dtype=np.int64),
        subject=dict(subject),
    )


@dataclass(frozen=True)
class Steps:
    """Independent steps, but for an offset that all rewards of an episode share.

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

    def draw(
        self,
        count: int,
        rng: np.random.Generator,
        when: NDArray[np.float64] | float = _NOW,
    ) -> Drawn:
        """New episodes, each at its time between 0 and 1."""
        shape = (count, self.steps)
        x = rng.normal(size=(*shape, FEATURES)).astype(np.float32)
        shared = self.offset * rng.normal(size=(count, 1))
        shared = shared + self.drift * np.broadcast_to(when, count)[:, None]
        rewards = SLOPE * x[:, :, 0] + shared + self.noise * rng.normal(size=shape)
        rewards = np.clip(rewards.astype(np.float64), -self.largest, self.largest)
        struck = rng.random(count) < self.disasters
        if self.disasters:
            rewards[struck] = -self.largest
        ends = struck | (rng.random(count) < self.falls)
        return Drawn(x, rewards, np.full(count, self.steps), ends)


@dataclass(frozen=True)
class Falling:
    """A hidden frailty of each episode decides when it falls; those that go on are the sturdy ones.

    The second feature hints at the frailty, with noise. A reward of 1 for every step survived, less
    what the first feature takes, so that long episodes return more and have more steps.

    Attributes:
        limit: steps at which an episode is cut.
        hazard: probability of a fall at a step, for an episode of middling frailty.
        spread: of the logarithm of the frailty.
    """

    limit: int
    hazard: float
    spread: float

    def draw(
        self,
        count: int,
        rng: np.random.Generator,
        when: NDArray[np.float64] | float = _NOW,
    ) -> Drawn:
        """New episodes; they are the same at all times."""
        shape = (count, self.limit)
        frailty = self.spread * rng.normal(size=(count, 1))
        x = rng.normal(size=(*shape, FEATURES)).astype(np.float32)
        x[:, :, 1] += frailty.astype(np.float32)
        rewards = 1.0 + 0.3 * np.clip(x[:, :, 0].astype(np.float64), -2.0, 2.0)
        hazard = np.minimum(self.hazard * np.exp(frailty), 0.9)[:, 0]
        falls = rng.geometric(hazard)  # the step, from 1, at which an episode falls
        lengths = np.minimum(falls, self.limit)
        return Drawn(x, rewards, lengths, falls <= self.limit)


@dataclass(frozen=True)
class Wandering:
    """A state that wanders and is seen, and rewards that follow it; every episode is cut.

    Attributes:
        limit: steps at which every episode is cut.
        memory: of the state, from one step to the next.
        noise: deviation of what cannot be predicted of a reward.
    """

    limit: int
    memory: float
    noise: float

    def draw(
        self,
        count: int,
        rng: np.random.Generator,
        when: NDArray[np.float64] | float = _NOW,
    ) -> Drawn:
        """New episodes; they are the same at all times."""
        shape = (count, self.limit)
        x = np.empty((*shape, FEATURES), dtype=np.float32)
        state = rng.normal(size=(count, FEATURES))
        fresh = np.sqrt(1.0 - self.memory**2)
        for step in range(self.limit):
            x[:, step] = state
            state = self.memory * state + fresh * rng.normal(size=state.shape)
        rewards = 1.0 + SLOPE * x[:, :, 0] + self.noise * rng.normal(size=shape)
        return Drawn(
            x,
            rewards.astype(np.float64),
            np.full(count, self.limit),
            np.zeros(count, dtype=np.bool_),
        )


@dataclass(frozen=True)
class SyntheticTask:
    """Episodes of known properties, and how they are certified.

    Attributes:
        words: what it is.
        generator: draws its episodes.
        options: of its certificates; the return range is given, so that it does not vary.
        violates: assumptions that do not hold of it: statements that need them may fail.
        known: targets whose expectation or probability is known in closed form.
    """

    words: str
    generator: Generator
    options: Mapping[str, Any]
    violates: frozenset[Assumed] = frozenset()
    known: Mapping[Target, float] = field(default_factory=dict)

    def record(self, count: int, rng: np.random.Generator) -> Episodes:
        """Episodes as somebody would record them, one after the other."""
        when = np.linspace(0.0, 1.0, count)
        return recorded(self.generator.draw(count, rng, when), {"log": "a synthetic task"})

    def new(self, count: int, rng: np.random.Generator) -> Episodes:
        """New episodes, all of them from when the recording ends."""
        return recorded(self.generator.draw(count, rng), {"log": "a synthetic task"})


_ALONE: dict[str, Any] = {"gamma": 0.0, "thin": 1}  # the return of a step is its reward
_BOUNDED = {**_ALONE, "return_floor": -50.0, "discounted_floor": -2.5}  # 20 steps of at least -2.5

TASKS: dict[str, SyntheticTask] = {
    "independent": SyntheticTask(
        "independent steps: the return of a step is its own reward",
        Steps(noise=0.5, steps=20, largest=2.5, falls=0.2),
        {**_BOUNDED, "return_range": (-2.5, 2.5), "time_limit": 20},
        known={
            "early-termination": 0.2,
            "discounted-return": 0.0,
            "undiscounted-return": 0.0,
        },
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
            "early-termination": 1 / 200,
            "discounted-return": -2.5 / 200,
            "undiscounted-return": -50.0 / 200,
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
        Falling(limit=60, hazard=0.04, spread=1.0),
        {"gamma": 0.95, "thin": 3, "return_range": (0.0, 25.0), "time_limit": 60},
        violates=_STEPS,
    ),
    "time-limit": SyntheticTask(
        "every episode runs into the time limit; overlapping returns",
        Wandering(limit=60, memory=0.9, noise=0.5),
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
