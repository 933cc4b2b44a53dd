"""Recorded episodes: flat arrays with episode offsets, frozen and checked."""

import operator
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any, SupportsIndex, overload

import numpy as np
from numpy.typing import NDArray

from tightrope.errors import InputError

__all__ = ["Episode", "Episodes", "join"]


_TYPES = {
    "observations": (np.float32, 2),
    "rewards": (np.float64, 1),
    "offsets": (np.int64, 1),
    "terminated": (np.bool_, 1),
    "truncated": (np.bool_, 1),
    "seeds": (np.int64, 1),
    "final_observations": (np.float32, 2),
    "success": (np.bool_, 1),
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
        self._require_types()
        for name, values in self.properties.items():
            fits = values.dtype == np.float64 and values.shape == (len(self.offsets) - 1,)
            if not fits or not np.isfinite(values).all():
                raise InputError(
                    f"expected a finite number of each episode as property {name!r}, found "
                    f"{values.dtype} of shape {values.shape}"
                )
        steps, count = len(self.rewards), len(self.offsets) - 1
        if count < 1:
            raise InputError("expected at least one episode, found none")
        lengths = np.diff(self.offsets)
        if self.offsets[0] != 0 or self.offsets[-1] != steps or (lengths < 1).any():
            raise InputError(
                f"expected episodes of at least one step that add up to {steps} steps, "
                f"found offsets from {self.offsets[0]} to {self.offsets[-1]}"
            )
        sizes = {"observations": steps, "actions": steps}
        for name in ("terminated", "truncated", "seeds", "final_observations", "success"):
            sizes[name] = count
        for name, size in sizes.items():
            array = getattr(self, name)
            if array is not None and len(array) != size:
                raise InputError(f"expected {size} rows of {name}, found {len(array)}")
        final = self.final_observations
        if final is not None and final.shape[1] != self.observations.shape[1]:
            raise InputError(
                f"expected final_observations of {self.observations.shape[1]} features, found "
                f"{final.shape[1]}"
            )
        for name in ("rewards", "observations", "final_observations", "actions"):
            self._require_finite(name)
        endless = np.flatnonzero(~(self.terminated | self.truncated))
        if len(endless):
            raise InputError(
                f"expected every episode to end terminated or truncated, found episode "
                f"{endless[0]} with neither"
            )

    def _require_types(self) -> None:
        for name, (dtype, dimensions) in _TYPES.items():
            array = getattr(self, name)
            if array is not None and (array.dtype != dtype or array.ndim != dimensions):
                shape = "(rows, features)" if dimensions == 2 else "(rows,)"
                if name == "observations":
                    shape = "(steps, features)"
                raise InputError(
                    f"expected {name} of {np.dtype(dtype)} and shape {shape}, found "
                    f"{array.dtype} of shape {array.shape}"
                )
        if self.actions is not None and (
            self.actions.dtype.kind not in "biuf" or self.actions.ndim < 1
        ):
            raise InputError(f"expected actions as numbers, found {self.actions.dtype}")

    def _require_finite(self, name: str) -> None:
        array = getattr(self, name)
        if array is None or array.dtype.kind != "f":
            return
        if not np.isfinite(array).all():
            row = int(np.flatnonzero(~np.isfinite(array).reshape(len(array), -1).all(axis=1))[0])
            per_step = len(array) == len(self.rewards) and name != "final_observations"
            episode = int(np.searchsorted(self.offsets, row, side="right")) - 1 if per_step else row
            seed = int(self.seeds[episode])
            place = f"episode {episode}" + (f" (seed {seed})" if seed >= 0 else "")
            raise InputError(f"expected finite {name}, found NaN or infinity in {place}")

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
        parts = []
        for entry in fields(self):
            value = getattr(self, entry.name)
            if isinstance(value, np.ndarray):
                parts.append(f"{entry.name}={value.dtype}{list(value.shape)}")
        return f"Episodes({len(self)} episodes, {len(self.rewards)} steps: {', '.join(parts)})"

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

        def cut(array: Any, low: int, high: int) -> Any:
            return None if array is None else array[low:high]

        return replace(
            self,
            observations=self.observations[first:last],
            rewards=self.rewards[first:last],
            offsets=self.offsets[start : stop + 1] - first,
            terminated=self.terminated[start:stop],
            truncated=self.truncated[start:stop],
            seeds=self.seeds[start:stop],
            actions=cut(self.actions, first, last),
            final_observations=cut(self.final_observations, start, stop),
            success=cut(self.success, start, stop),
            properties={name: values[start:stop] for name, values in self.properties.items()},
        )

    def returns(self, gamma: float) -> NDArray[np.float64]:
        """(episodes,) the return of each from its start."""
        starts = self.offsets[:-1]
        if gamma == 1:
            return np.add.reduceat(self.rewards, starts)
        from tightrope.rollouts.returns import discounted_returns

        return discounted_returns(self, gamma)[starts]

    def split(self, sizes: Sequence[int]) -> list["Episodes"]:
        """Consecutive groups of whole episodes of the given sizes, which must add up to all."""
        if sum(sizes) != len(self) or any(size < 1 for size in sizes):
            raise InputError(f"expected sizes that add up to {len(self)}, found {list(sizes)}")
        ends = np.cumsum(sizes)
        return [self.span(int(end - size), int(end)) for end, size in zip(ends, sizes, strict=True)]


def join(episodes: Sequence[Episode], subject: Mapping[str, Any] | None = None) -> Episodes:
    """Single episodes as one record; an optional field is kept if all of them have it.

    Raises:
        InputError: there are none, or their shapes differ.
    """
    if not episodes:
        raise InputError("expected at least one episode, found none")
    for index, episode in enumerate(episodes):
        for name in ("observations", "actions"):
            array = getattr(episode, name)
            if array is not None and len(array) != len(episode.rewards):
                raise InputError(
                    f"expected {len(episode.rewards)} {name} in episode {index}, found {len(array)}"
                )
        for name in ("actions", "final_observation"):
            one, other = getattr(episode, name), getattr(episodes[0], name)
            width = slice(1, None) if name == "actions" else slice(None)
            if one is not None and other is not None and one.shape[width] != other.shape[width]:
                raise InputError(
                    f"expected {name} of one shape, found {one.shape[width]} in episode {index} "
                    f"after {other.shape[width]} in episode 0"
                )
        shape = np.shape(episode.observations)
        if len(shape) != 2 or shape[1] != np.shape(episodes[0].observations)[1]:
            raise InputError(
                f"expected observations of one width, found shape {shape} in episode {index} after "
                f"{np.shape(episodes[0].observations)} in episode 0"
            )

    def optional(name: str, combine: Any) -> Any:
        values = [getattr(episode, name) for episode in episodes]
        return None if any(value is None for value in values) else combine(values)

    return Episodes(
        observations=np.concatenate([e.observations for e in episodes]).astype(
            np.float32, copy=False
        ),
        rewards=np.concatenate([e.rewards for e in episodes]).astype(np.float64, copy=False),
        offsets=np.concatenate([[0], np.cumsum([len(e.rewards) for e in episodes])]).astype(
            np.int64
        ),
        terminated=np.array([e.terminated for e in episodes], dtype=np.bool_),
        truncated=np.array([e.truncated for e in episodes], dtype=np.bool_),
        seeds=np.array([e.seed for e in episodes], dtype=np.int64),
        actions=optional("actions", np.concatenate),
        final_observations=optional(
            "final_observation", lambda values: np.stack(values).astype(np.float32, copy=False)
        ),
        success=optional("success", lambda values: np.array(values, dtype=np.bool_)),
        subject=dict(subject or {}),
    )
