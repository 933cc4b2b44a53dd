"""Recorded episodes: flat arrays with episode offsets, frozen and checked; returns from a step."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any, SupportsIndex, overload

import numpy as np
from numpy.typing import NDArray

from tightrope.errors import InputError

__all__ = [
    "GAMMA",
    "Episode",
    "Episodes",
    "Pairs",
    "discounted_returns",
    "first_visits",
    "join",
    "pairs",
    "require_subject",
]

GAMMA = 0.99

# Parts of a subject that are looked into: objects, and the lists and counts in some of them.
_PARTS = ("policy", "environment", "versions", "recording", "table")
_LISTS = (("table", "tasks"), ("table", "notes"), ("recording", "left_out"))
_COUNTS = (("environment", "thin"), ("environment", "time_limit"))

# What each array is: its type (None: any numbers), and its axes (of actions: the first).
_ARRAYS: dict[str, tuple[Any, tuple[str, ...]]] = {
    "observations": (np.float32, ("steps", "features")),
    "rewards": (np.float64, ("steps",)),
    "offsets": (np.int64, ("episodes + 1",)),
    "terminated": (np.bool_, ("episodes",)),
    "truncated": (np.bool_, ("episodes",)),
    "seeds": (np.int64, ("episodes",)),
    "actions": (None, ("steps",)),
    "final_observations": (np.float32, ("episodes", "features")),
    "success": (np.bool_, ("episodes",)),
}


@dataclass(frozen=True)
class Episode:
    """One episode on its way into an `Episodes` record."""

    observations: NDArray[np.float32]  # (steps, features), where the actions were taken
    rewards: NDArray[np.float64]  # (steps,)
    terminated: bool
    truncated: bool
    seed: int = -1  # -1: not recorded
    actions: NDArray[Any] | None = None  # (steps, ...)
    final_observation: NDArray[np.float32] | None = None  # (features,), after the last action
    success: bool | None = None


@dataclass(frozen=True, repr=False)
class Episodes:
    """Whole episodes of one policy in one environment.

    Attributes:
        observations: (steps, features) float32, all episodes one after the other.
        rewards: (steps,) float64.
        offsets: (episodes + 1,) int64; episode i is rows offsets[i] to offsets[i + 1].
        terminated: (episodes,) bool: the environment ended the episode.
        truncated: (episodes,) bool: a time limit did; the return is then a finite-horizon one.
        seeds: (episodes,) int64; -1 where not recorded.
        actions: (steps, ...) or None.
        final_observations: (episodes, features) float32 or None.
        success: (episodes,) bool or None: whether info["success"] was ever true.
        properties: (episodes,) float64 each, by name: numbers of the user's own.
        subject: JSON-like record of the policy, the environment and the versions.

    Raises:
        InputError: shapes disagree, a number is not finite, or an episode has no end.
    """

    observations: NDArray[np.float32]
    rewards: NDArray[np.float64]
    offsets: NDArray[np.int64]
    terminated: NDArray[np.bool_]
    truncated: NDArray[np.bool_]
    seeds: NDArray[np.int64]
    actions: NDArray[Any] | None = None
    final_observations: NDArray[np.float32] | None = None
    success: NDArray[np.bool_] | None = None
    properties: Mapping[str, NDArray[np.float64]] = field(default_factory=dict)
    subject: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        steps, count = self.rewards.size, self.offsets.size - 1
        if count < 1:
            raise InputError("expected at least one episode, found none")
        features = self.observations.shape[-1] if self.observations.ndim else 0
        sizes = {"steps": steps, "episodes": count, "episodes + 1": count + 1, "features": features}
        arrays = [(name, getattr(self, name), *layout) for name, layout in _ARRAYS.items()]
        arrays += [
            (f"property {name!r}", values, np.float64, ("episodes",))
            for name, values in self.properties.items()
        ]
        arrays = [entry for entry in arrays if entry[1] is not None]
        for name, array, dtype, axes in arrays:
            shape = tuple(sizes[axis] for axis in axes)
            numbers = array.dtype == dtype if dtype else array.dtype.kind in "biuf"
            if not numbers or (array.shape if dtype else array.shape[:1]) != shape:
                kind = np.dtype(dtype).name if dtype else "numbers"
                raise InputError(
                    f"expected {name} of {kind} and shape ({', '.join(axes)}), which is {shape}, "
                    f"found {array.dtype} of shape {array.shape}"
                )
        if self.offsets[0] != 0 or self.offsets[-1] != steps or (self.lengths < 1).any():
            raise InputError(
                f"expected episodes of at least one step that add up to {steps} steps, "
                f"found offsets from {self.offsets[0]} to {self.offsets[-1]}"
            )
        for name, array, _, axes in arrays:
            if array.dtype.kind == "f" and not np.isfinite(array).all():
                row = np.argwhere(~np.isfinite(array))[0, 0]
                episode = self.episode_of_step[row] if axes[0] == "steps" else row
                raise InputError(
                    f"expected finite {name}, found NaN or infinity in {self._place(episode)}"
                )
        for episode in np.flatnonzero(~(self.terminated | self.truncated))[:1]:
            raise InputError(
                "expected every episode to end terminated or truncated, found "
                f"{self._place(episode)} with neither"
            )

    def _place(self, episode: Any) -> str:
        seed = int(self.seeds[episode])
        return f"episode {episode}" + (f" (seed {seed})" if seed >= 0 else "")

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def __iter__(self) -> Iterator[Episode]:
        return (self[index] for index in range(len(self)))

    @overload
    def __getitem__(self, index: SupportsIndex) -> Episode: ...

    @overload
    def __getitem__(self, index: slice) -> "Episodes": ...

    def __getitem__(self, index: SupportsIndex | slice) -> "Episode | Episodes":
        """One episode, or the whole episodes of a slice, as views; both as Python's lists count.

        Raises:
            IndexError: there is no such episode.
            InputError: the slice has a step, or holds no episode.
        """
        if isinstance(index, slice):
            start, stop, step = index.indices(len(self))
            if step != 1:
                raise InputError(f"expected a slice of episodes in a row, found a step of {step}")
            return self.span(start, stop)
        index = range(len(self))[index]
        rows = slice(int(self.offsets[index]), int(self.offsets[index + 1]))
        final = self.final_observations
        return Episode(
            observations=self.observations[rows],
            rewards=self.rewards[rows],
            terminated=bool(self.terminated[index]),
            truncated=bool(self.truncated[index]),
            seed=int(self.seeds[index]),
            actions=None if self.actions is None else self.actions[rows],
            final_observation=None if final is None else final[index],
            success=None if self.success is None else bool(self.success[index]),
        )

    def __repr__(self) -> str:
        parts = ", ".join(
            f"{name}={array.dtype}{list(array.shape)}"
            for name in _ARRAYS
            if (array := getattr(self, name)) is not None
        )
        return f"Episodes({len(self)} episodes, {len(self.rewards)} steps: {parts})"

    @property
    def lengths(self) -> NDArray[np.int64]:
        """Steps of each episode."""
        return np.diff(self.offsets)

    @property
    def episode_of_step(self) -> NDArray[np.int64]:
        """(steps,) the episode that each step belongs to."""
        return np.repeat(np.arange(len(self)), self.lengths)

    def span(self, start: int, stop: int) -> "Episodes":
        """Episodes `start` to `stop`, as views: whole episodes, never parts of one."""
        if not 0 <= start < stop <= len(self):
            raise InputError(f"expected 0 <= start < stop <= {len(self)}, found {start} and {stop}")
        first, last = int(self.offsets[start]), int(self.offsets[stop])
        rows = {"steps": slice(first, last), "episodes": slice(start, stop)}
        cut = {
            name: array[rows[axes[0]]]
            for name, (_, axes) in _ARRAYS.items()
            if name != "offsets" and (array := getattr(self, name)) is not None
        }
        cut["offsets"] = self.offsets[start : stop + 1] - first
        properties = {name: values[start:stop] for name, values in self.properties.items()}
        return replace(self, **cut, properties=properties)

    def returns(self, gamma: float) -> NDArray[np.float64]:
        """(episodes,) the return of each from its start."""
        starts = self.offsets[:-1]
        if gamma == 1:
            return np.add.reduceat(self.rewards, starts)
        return discounted_returns(self, gamma)[starts]


def require_subject(subject: Mapping[str, Any]) -> None:
    """Refuse metadata of a stranger whose parts are not what tightrope writes.

    Raises:
        InputError: a part is no object, or an entry of one is no list, or no count.
    """
    wrong = [(name, "an object") for name in _PARTS if not isinstance(subject.get(name, {}), dict)]
    if not wrong:
        entries = {(n, k): v for n in _PARTS for k, v in subject.get(n, {}).items()}
        wrong = [
            (".".join(x), "a list") for x in _LISTS if not isinstance(entries.get(x, []), list)
        ]
        for each in _COUNTS:
            value = entries.get(each)
            if value is not None and (type(value) is not int or value < 1):
                wrong.append((".".join(each), "a whole number of at least 1"))
    for name, kind in wrong:
        raise InputError(f"expected {kind} as {name} of the subject, found something else")


def join(episodes: Sequence[Episode], subject: Mapping[str, Any] | None = None) -> Episodes:
    """Single episodes as one record; an optional field is kept if all of them have it.

    Raises:
        InputError: there are none, or their shapes differ.
    """
    if not episodes:
        raise InputError("expected at least one episode, found none")

    def column(name: str, combine: Callable[..., Any], dtype: Any = None) -> Any:
        values = [getattr(episode, name) for episode in episodes]
        if any(value is None for value in values):
            return None
        for index, (value, episode) in enumerate(zip(values, episodes, strict=True)):
            steps = episode.rewards.shape if combine is np.concatenate else ()
            expected = (*steps, *np.shape(values[0])[len(steps) :])
            if np.shape(value) != expected:
                raise InputError(
                    f"expected {name} of shape {expected} in episode {index}, found "
                    f"{np.shape(value)}"
                )
        return np.asarray(combine(values), dtype)

    return Episodes(
        observations=column("observations", np.concatenate, np.float32),
        rewards=column("rewards", np.concatenate, np.float64),
        offsets=np.cumsum([0, *(len(episode.rewards) for episode in episodes)], dtype=np.int64),
        terminated=column("terminated", np.array, np.bool_),
        truncated=column("truncated", np.array, np.bool_),
        seeds=column("seed", np.array, np.int64),
        actions=column("actions", np.concatenate),
        final_observations=column("final_observation", np.stack, np.float32),
        success=column("success", np.array, np.bool_),
        subject=dict(subject or {}),
    )


# --- returns -------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Pairs:
    """Thinned (observation, return) pairs, and the episode and time of each."""

    observations: NDArray[np.float32]  # (pairs, features)
    returns: NDArray[np.float64]  # (pairs,)
    episode: NDArray[np.int64]  # (pairs,), non-decreasing
    step: NDArray[np.int64]  # (pairs,), steps since the start of the episode
    episodes: int

    def __len__(self) -> int:
        return len(self.returns)

    def __repr__(self) -> str:
        features = self.observations.shape[1]
        return f"Pairs({len(self)} pairs of {self.episodes} episodes, {features} features)"


def discounted_returns(episodes: Episodes, gamma: float = GAMMA) -> NDArray[np.float64]:
    r"""Return to the end of the episode from every step, :math:`G_t = r_t + \gamma G_{t+1}`.

    One scan backwards in time over all episodes at once, padded with zero rewards after their
    ends to one length.

    Raises:
        InputError: gamma is outside [0, 1].
    """
    if not 0 <= gamma <= 1:
        raise InputError(f"gamma must be in [0, 1], found {gamma!r}")
    lengths = episodes.lengths
    inside = np.arange(lengths.max()) < lengths[:, None]  # (episodes, longest)
    returns = np.zeros(inside.shape[::-1])  # (longest, episodes)
    returns.T[inside] = episodes.rewards
    for step in range(len(returns) - 2, -1, -1):
        returns[step] += gamma * returns[step + 1]
    return returns.T[inside]


def first_visits(episodes: Episodes) -> NDArray[np.bool_]:
    """(steps,) whether a step is the first of its episode with exactly that observation."""
    visited = np.zeros(len(episodes.rewards), dtype=np.bool_)
    observations = episodes.observations + np.float32(0.0)  # -0.0 and 0.0 are the same observation
    for start, stop in pairwise(episodes.offsets):
        _, first = np.unique(observations[start:stop], axis=0, return_index=True)
        visited[start + first] = True
    return visited


def pairs(episodes: Episodes, *, gamma: float = GAMMA, thin: int = 1) -> Pairs:
    """Every `thin`-th step from t = 0 that is a first visit, with its return.

    Raises:
        InputError: `thin` is not a whole number of at least 1, or gamma is outside [0, 1].
    """
    if thin < 1 or thin != int(thin):
        raise InputError(f"thin must be a whole number of at least 1, found {thin!r}")
    step = np.arange(len(episodes.rewards)) - np.repeat(episodes.offsets[:-1], episodes.lengths)
    kept = np.flatnonzero((step % thin == 0) & first_visits(episodes))
    return Pairs(
        observations=episodes.observations[kept],
        returns=discounted_returns(episodes, gamma)[kept],
        episode=episodes.episode_of_step[kept],
        step=step[kept],
        episodes=len(episodes),
    )
