"""Small environments that misbehave on purpose, and policies for them.

Importing this module registers them, in the test and, since the policies below are pickled by
reference, in every worker process as well.
"""

import os
import time
import warnings
from dataclasses import dataclass
from pathlib import Path

import gymnasium as gym
import numpy as np
from gymnasium.spaces import Box, Dict, Discrete, MultiBinary, MultiDiscrete, Sequence, Tuple

ACTIONS = Box(-1.0, 1.0, (1,), np.float32)
VECTOR = Box(-np.inf, np.inf, (3,), np.float64)
HANG, SLOW = 600.0, 0.6  # seconds of a step that hangs, and of a slow reset
LOW, HIGH = np.float32([-2.0, 0.5]), np.float32([-1.0, 3.0])  # neither symmetric nor of one width


class Counting(gym.Env):
    """Observation (seed's draw, step, last action); reward is the step; ends after `length`."""

    observation_space = VECTOR
    action_space = ACTIONS

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.seed, self.step_count, self.draw = seed, 0, self.np_random.normal()
        self.length = self.choose_length()
        return self.observation(0.0), {}

    def choose_length(self):
        return 5 + self.seed % 3

    def observation(self, action):
        return np.array([self.draw, self.step_count, action])

    def step(self, action):
        self.step_count += 1
        done = self.step_count >= self.length
        observation = self.observation(float(np.ravel(action)[0]))
        return observation, float(self.step_count), done, False, {}


class Varying(Counting):
    """Episodes of 1, 2, 3 or 400 steps: by the seed, in turn."""

    def choose_length(self):
        return (400, 1, 2, 3)[self.seed % 4]


class Failing(Counting):
    """Of four consecutive seeds one fails, in its third step (or in its reset)."""

    def __init__(self, kind):
        self.kind = kind

    def reset(self, *, seed=None, options=None):
        if self.kind == "sleep in reset" and seed % 4 == 3:
            time.sleep(HANG)
        observation, info = super().reset(seed=seed)
        if self.kind == "single observation in reset" and seed % 4 == 3:
            observation = observation[:1]
        return observation, info

    def choose_length(self):
        return 40 if self.seed % 4 == 3 else 2 + self.seed % 4

    def step(self, action):
        observation, reward, *rest = super().step(action)
        if self.seed % 4 == 3 and self.step_count == 3:
            if self.kind == "raise":
                raise RuntimeError("the motor\nburnt out")
            if self.kind == "exit":
                os._exit(7)
            if self.kind == "sleep":
                if "HANGING_MARKER" in os.environ:
                    Path(os.environ["HANGING_MARKER"]).touch()
                time.sleep(HANG)
            if self.kind in ("nan", "inf"):
                reward = float(self.kind)
            if self.kind == "nan observation":
                observation = observation * np.nan
            observation = self.spoilt(observation)
        return observation, reward, *rest

    def spoilt(self, observation):
        """Another shape or kind; the second and third could be broadcast into a row."""
        return {
            "short observation": observation[:2],
            "single observation": observation[:1],
            "batched observation": observation[None],
            "scalar observation": observation[0],
            "worded observation": np.array(["1", "2", "3"]),
        }.get(self.kind, observation)


class Leftover(Counting):
    """A reset leaves something behind: from step 40 on, how many episodes came before shows."""

    before = 0

    def choose_length(self):
        self.before += 1
        return 60

    def observation(self, action):
        found = super().observation(action)
        return found + (self.before - 1) * (self.step_count >= 40)


class SlowReset(Counting):
    """Not one reset takes long, but several in a row do."""

    def reset(self, *, seed=None, options=None):
        time.sleep(SLOW)
        return super().reset(seed=seed)


class Loud(Counting):
    """Prints with Python and, like a simulator written in C, straight to the descriptor."""

    def reset(self, *, seed=None, options=None):
        print("python says reset")
        os.write(1, b"the simulator says reset\n")
        return super().reset(seed=seed)


class LoudConstructor(Counting):
    def __init__(self):
        print("python says hello")


class Complaining(Counting):
    def __init__(self):
        warnings.warn("the gripper is low on oil", UserWarning, stacklevel=2)
        warnings.warn("the calibration is out of date", UserWarning, stacklevel=2)


class Succeeding(Counting):
    """Reports success in its second step only, for even seeds; keeps quiet in the first."""

    def step(self, action):
        *result, info = super().step(action)
        if self.step_count > 1:
            info = {"success": float(self.step_count == 2 and self.seed % 2 == 0)}
        return *result, info


class Shaped(gym.Env):
    """Any spaces at all: observations are samples, ten steps."""

    def __init__(self, observation_space, action_space=ACTIONS):
        self.observation_space, self.action_space = observation_space, action_space

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.observation_space.seed(seed)
        self.left = 10
        return self.observation_space.sample(), {}

    def step(self, action):
        self.left -= 1
        return self.observation_space.sample(), 0.0, self.left == 0, False, {}


DICTIONARY = Dict(
    {
        "velocity": Box(-1.0, 1.0, (2, 2), np.float64),
        "contact": Discrete(3),
        "angle": Box(-1.0, 1.0, (1,), np.float32),
    }
)
FIVE = Box(-np.inf, np.inf, (5,), np.float32)
STRETCHED = Box(LOW, HIGH, dtype=np.float32)
SHAPES = {
    "Dictionary-v0": (DICTIONARY,),
    "Pair-v0": (Tuple((Box(0.0, 1.0, (2,), np.float32), Box(0.0, 1.0, (3,), np.float32))),),
    "Grid-v0": (Box(-1.0, 1.0, (2, 3), np.float32),),
    "Image-v0": (Box(0, 255, (36, 36, 1), np.uint8), Discrete(4)),
    "Symbol-v0": (Discrete(4),),
    "Bits-v0": (MultiBinary(3),),
    "Ragged-v0": (Dict({"points": Sequence(Box(-1.0, 1.0, (2,), np.float32))}),),
    "Chords-v0": (VECTOR, MultiDiscrete([2, 3])),
    "Strings-v0": (MultiDiscrete([3, 2, 4]),),
    "Nested-v0": (VECTOR, Dict({"left": ACTIONS})),
    "Five-v0": (FIVE, STRETCHED),
    "FiveWide-v0": (FIVE, Box(-100.0, 100.0, (2,), np.float32)),
    "FiveNarrow-v0": (FIVE, Box(-1.0, 1.0, (1,), np.float32)),
    "FiveKeys-v0": (FIVE, Discrete(4)),
    "FiveSwitch-v0": (FIVE, Discrete(2)),
    "FiveChords-v0": (FIVE, MultiDiscrete([2, 3])),
    "FiveBits-v0": (FIVE, MultiBinary(3)),
    "FiveGrid-v0": (FIVE, Box(-1.0, np.float32([[1, 2], [3, 4]]), (2, 2), np.float32)),
}
KINDS = {
    "Raises-v0": "raise",
    "Exits-v0": "exit",
    "Hangs-v0": "sleep",
    "HangsInReset-v0": "sleep in reset",
    "NaN-v0": "nan",
    "Infinite-v0": "inf",
    "NaNObservation-v0": "nan observation",
    "ShortObservation-v0": "short observation",
    "SingleObservation-v0": "single observation",
    "SingleInReset-v0": "single observation in reset",
    "BatchedObservation-v0": "batched observation",
    "ScalarObservation-v0": "scalar observation",
    "WordedObservation-v0": "worded observation",
}
CLASSES = {
    "Counting-v0": Counting,
    "Varying-v0": Varying,
    "SlowReset-v0": SlowReset,
    "Loud-v0": Loud,
    "LoudConstructor-v0": LoudConstructor,
    "Complaining-v0": Complaining,
    "Succeeding-v0": Succeeding,
    "Leftover-v0": Leftover,
}


def _register(name, entry, **kwargs):
    if name not in gym.registry:
        gym.register(name, f"custom_environments:{entry}", kwargs=kwargs)


for _name, _class in CLASSES.items():
    _register(_name, _class.__name__)
for _name, _kind in KINDS.items():
    _register(_name, "Failing", kind=_kind)
for _name, _spaces in SHAPES.items():
    _register(
        _name, "Shaped", **dict(zip(("observation_space", "action_space"), _spaces, strict=False))
    )


def still(observations):
    """No action at all."""
    return np.zeros((len(observations), 1), np.float32)


def leaning(observations):
    """An action that depends on the observation, on each row by itself."""
    return np.tanh(observations[:, :1] + 0.1 * observations[:, 1:2]).astype(np.float32)


def too_far(observations):
    """Leaves the action space in the third step of the episodes whose draw is positive."""
    return np.where((observations[:, 1] == 2) & (observations[:, 0] > 0), 7.0, 0.0)[:, None]


def falling(observations):
    """Raises in the third step of an episode."""
    if (observations[:, 1] == 2).any():
        raise RuntimeError("the policy fell over")
    return still(observations)


@dataclass(frozen=True)
class Noisy:
    """A policy whose actions are its noise."""

    name: str = "noisy"
    digest: str | None = None
    deterministic: bool = False
    noise_size: int = 1

    def act(self, observations, noise):
        return np.tanh(noise)
