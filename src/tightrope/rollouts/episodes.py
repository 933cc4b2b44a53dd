"""Recorded episodes: flat arrays with episode offsets, frozen and checked."""

import operator
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, SupportsIndex, overload

import numpy as np
from numpy.typing import NDArray

from tightrope.errors import InputError

__all__ = ["Episode", "Episodes", "join"]


# What each array is: its type, its dimensions, and how many rows it has.
_ARRAYS: dict[str, tuple[Any, int, str]] = {
    "observations": (np.float32, 2, "steps"),
    "rewards": (np.float64, 1, "steps"),
    "offsets": (np.int64, 1, "episodes + 1"),
    "terminated": (np.bool_, 1, "episodes"),
    "truncated": (np.bool_, 1, "episodes"),
    "seeds": (np.int64, 1, "episodes"),
    "actions": (None, 1, "steps"),
    "final_observations": (np.float32, 2, "episodes"),
    "success": (np.bool_, 1, "episodes"),
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
        for name, (dtype, dimensions, _) in _ARRAYS.items():
            array = getattr(self, name)
            numbers = array is not None and (
                array.dtype.kind in "biuf" if dtype is None else array.dtype == dtype
            )
            if array is not None and (
                not numbers or array.ndim < dimensions or (dtype and array.ndim > dimensions)
            ):
                kind = "numbers" if dtype is None else str(np.dtype(dtype))
                shape = "(rows, features)" if dimensions > 1 else "(rows,)"
                raise InputError(
                    f"expected {name} of {kind} and shape {shape}, found {array.dtype} of shape "
                    f"{array.shape}"
                )
        steps, count = len(self.rewards), len(self.offsets) - 1
        if count < 1:
            raise InputError("expected at least one episode, found none")
        if self.offsets[0] != 0 or self.offsets[-1] != steps or (self.lengths < 1).any():
            raise InputError(
                f"expected episodes of at least one step that add up to {steps} steps, "
                f"found offsets from {self.offsets[0]} to {self.offsets[-1]}"
            )
        sizes = {"steps": steps, "episodes": count, "episodes + 1": count + 1}
        for name, (_, _, rows) in _ARRAYS.items():
            array = getattr(self, name)
            if array is None:
                continue
            if len(array) != sizes[rows]:
                raise InputError(f"expected {sizes[rows]} rows of {name}, found {len(array)}")
            finite = array.dtype.kind != "f" or np.isfinite(array)
            if not np.all(finite):
                row = int(np.argwhere(~np.asarray(finite))[0, 0])
                raise InputError(
                    f"expected finite {name}, found NaN or infinity in "
                    f"{self._place(row if rows == 'episodes' else self.episode_of_step[row])}"
                )
        final = self.final_observations
        if final is not None and final.shape[1] != self.observations.shape[1]:
            raise InputError(
                f"expected final_observations of {self.observations.shape[1]} features, found "
                f"{final.shape[1]}"
            )
        for name, values in self.properties.items():
            fits = values.dtype == np.float64 and values.shape == (count,)
            if not fits or not np.isfinite(values).all():
                raise InputError(
                    f"expected a finite number of each episode as property {name!r}, found "
                    f"{values.dtype} of shape {values.shape}"
                )
        endless = np.flatnonzero(~(self.terminated | self.truncated))
        if len(endless):
            raise InputError(
                f"expected every episode to end terminated or truncated, found "
                f"{self._place(endless[0])} with neither"
            )

    def _place(self, episode: Any) -> str:
        seed = int(self.seeds[episode])
        return f"episode {episode}" + (f" (seed {seed})" if seed >= 0 else "")

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def __iter__(self) -> Iterator[Episode]:
        return (self.episode(index) for index in range(len(self)))

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
        if not isinstance(index, slice):
            return self.episode(operator.index(index))
        if index.step not in (None, 1):
            raise InputError(f"expected a slice of episodes in a row, found a step of {index.step}")
        start, stop, _ = index.indices(len(self))
        if start >= stop:
            raise InputError(
                f"expected a slice with at least one of {len(self)} episodes, found none from "
                f"{index.start} to {index.stop}"
            )
        return self.span(start, stop)

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

    def episode(self, index: int) -> Episode:
        """One episode, as views into the arrays; a negative index counts from the end.

        Raises:
            IndexError: there is no such episode.
        """
        if not -len(self) <= index < len(self):
            raise IndexError(f"expected an index below {len(self)}, found {index}")
        index %= len(self)
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

    def span(self, start: int, stop: int) -> "Episodes":
        """Episodes `start` to `stop`, as views: whole episodes, never parts of one."""
        if not 0 <= start < stop <= len(self):
            raise InputError(f"expected 0 <= start < stop <= {len(self)}, found {start} and {stop}")
        first, last = int(self.offsets[start]), int(self.offsets[stop])
        rows = {"steps": slice(first, last), "episodes": slice(start, stop)}
        cut = {
            name: array[rows[kind]]
            for name, (_, _, kind) in _ARRAYS.items()
            if kind in rows and (array := getattr(self, name)) is not None
        }
        cut["offsets"] = self.offsets[start : stop + 1] - first
        properties = {name: values[start:stop] for name, values in self.properties.items()}
        return replace(self, **cut, properties=properties)

    def returns(self, gamma: float) -> NDArray[np.float64]:
        """(episodes,) the return of each from its start."""
        starts = self.offsets[:-1]
        if gamma == 1:
            return np.add.reduceat(self.rewards, starts)
        from tightrope.rollouts.returns import discounted_returns

        return discounted_returns(self, gamma)[starts]


def join(episodes: Sequence[Episode], subject: Mapping[str, Any] | None = None) -> Episodes:
    """Single episodes as one record; an optional field is kept if all of them have it.

    Raises:
        InputError: there are none, or their shapes differ.
    """
    if not episodes:
        raise InputError("expected at least one episode, found none")
    for index, episode in enumerate(episodes):
        for name in ("observations", "actions", "final_observation"):
            array, first = getattr(episode, name), getattr(episodes[0], name)
            if array is None or first is None:
                continue
            rows = () if name == "final_observation" else (len(episode.rewards),)
            expected = (*rows, *first.shape[len(rows) :])
            if array.shape != expected:
                raise InputError(
                    f"expected {name} of shape {expected} in episode {index}, found {array.shape}"
                )

    def column(name: str, combine: Callable[..., Any], dtype: Any = None) -> Any:
        values = [getattr(episode, name) for episode in episodes]
        if any(value is None for value in values):
            return None
        array = combine(values)
        return array if dtype is None else array.astype(dtype, copy=False)

    lengths = [len(episode.rewards) for episode in episodes]
    return Episodes(
        observations=column("observations", np.concatenate, np.float32),
        rewards=column("rewards", np.concatenate, np.float64),
        offsets=np.append(0, np.cumsum(lengths)).astype(np.int64),
        terminated=column("terminated", np.array, np.bool_),
        truncated=column("truncated", np.array, np.bool_),
        seeds=column("seed", np.array, np.int64),
        actions=column("actions", np.concatenate),
        final_observations=column("final_observation", np.stack, np.float32),
        success=column("success", np.array, np.bool_),
        subject=dict(subject or {}),
    )
