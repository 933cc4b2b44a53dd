"""What a policy is: a function of a block of observations; and Python objects as policies."""

import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from tightrope.errors import InputError, one_line
from tightrope.policies.mlp import Normalizer
from tightrope.policies.vecnormalize import model_was_normalized, statistics_of

__all__ = [
    "BLOCK",
    "ActionError",
    "FunctionPolicy",
    "Policy",
    "act_in_blocks",
    "as_policy",
    "check_actions",
    "check_fit",
    "normalization",
    "predicting",
    "rows_are_stable",
]

# Every call of a policy gets exactly this many rows. Matrix products may round differently for
# different numbers of rows; with one shape, an episode does not depend on its neighbours.
BLOCK = 8


class ActionError(InputError):
    """What a policy returned is no block of actions; `row` is the first that is not, if known."""

    def __init__(self, message: str, row: int | None = None) -> None:
        super().__init__(message)
        self.row = row


@runtime_checkable
class Policy(Protocol):
    """A frozen policy.

    Attributes:
        name: what it is, for a person.
        digest: SHA-256 of the files it came from, or None for an object in memory.
        deterministic: whether the same observation always gives the same action.
        noise_size: standard normal numbers that one action is made from; 0 for a deterministic
            policy, and for one that draws from a generator of its own (whose episodes then
            cannot be repeated).
    """

    @property
    def name(self) -> str: ...  # noqa: D102
    @property
    def digest(self) -> str | None: ...  # noqa: D102
    @property
    def deterministic(self) -> bool: ...  # noqa: D102
    @property
    def noise_size(self) -> int: ...  # noqa: D102

    def act(self, observations: NDArray[np.float32], noise: NDArray[np.float32]) -> NDArray[Any]:
        """Actions of shape (batch, ...) for observations (batch, features).

        `noise` has shape (batch, noise_size); each row of the result may depend on its own rows
        of the arguments only.
        """
        ...


def normalization(policy: Policy) -> str:
    """Where the statistics come from that a policy's observations are normalised by, or none."""
    normalizer = getattr(policy, "normalizer", None)  # of the policies that can have one
    return str(getattr(normalizer, "source", "none"))


def act_in_blocks(
    policy: Policy,
    observations: NDArray[np.float32],
    noise: NDArray[np.float32],
    *,
    block: int = BLOCK,
) -> NDArray[Any]:
    """Actions for any number of rows, by calls of exactly `block` rows (the last one repeated)."""
    rows = len(observations)
    if padding := -rows % block:
        observations, noise = (
            np.concatenate([each, np.repeat(each[-1:], padding, axis=0)])
            for each in (observations, noise)
        )
    parts = []
    for start in range(0, rows + padding, block):
        taken = slice(start, start + block)
        part = np.asarray(policy.act(observations[taken], noise[taken]))
        if part.shape[:1] != (block,):
            raise ActionError(
                f"expected {block} actions for {block} observations, found an array of shape "
                f"{part.shape} from {policy.name}: a policy maps (batch, ...) to (batch, ...)"
            )
        parts.append(part)
    return np.concatenate(parts)[:rows] if len(parts) > 1 else parts[0][:rows]


def rows_are_stable(policy: Policy, features: int, *, block: int = BLOCK) -> bool:
    """Whether an action's bits depend neither on its row in the block nor on the other rows."""
    rng = np.random.default_rng(0)
    for _ in range(4):
        observations = rng.standard_normal((block, features), dtype=np.float32)
        noise = rng.standard_normal((block, policy.noise_size), dtype=np.float32)
        reference = np.asarray(policy.act(observations, noise))
        order = rng.permutation(block)
        moved = np.asarray(policy.act(observations[order], noise[order]))
        kept = rng.random(block) < 0.5
        other = np.where(kept[:, None], observations, rng.standard_normal(observations.shape))
        again = np.asarray(policy.act(other.astype(np.float32), noise))
        if not np.array_equal(moved, reference[order]):
            return False
        if not np.array_equal(again[kept], reference[kept]):
            return False
    return True


def check_actions(policy: Policy, actions: NDArray[Any], space: Any) -> None:
    """Raise InputError unless every action lies in the environment's action space."""
    if hasattr(space, "low"):  # a Box
        slack = 1e-6  # of a float32 that was stretched to the bounds
        low, high, kinds = space.low - slack, space.high + slack, "iuf"
    else:  # Discrete, MultiDiscrete, MultiBinary
        low, kinds = getattr(space, "start", 0), "iu"
        high = low + getattr(space, "nvec", 2 if space.shape else getattr(space, "n", 2)) - 1
    if actions.shape[1:] != space.shape or actions.dtype.kind not in kinds:
        row, found = None, f"shape {actions.shape[1:]} of {actions.dtype}"
    else:
        inside = (actions >= low) & (actions <= high)  # False for NaN
        if inside.all():
            return
        row = int(inside.reshape(len(actions), -1).all(axis=1).argmin())
        found = " ".join(str(actions[row]).split())
    raise ActionError(f"expected actions in {space}, found {found} from {policy.name}", row)


def check_fit(policy: Policy, env: Any) -> None:
    """Try the policy on a few observations; raise InputError if it is for other spaces.

    A policy with random numbers of its own is refused as well: every worker would get the same.
    """
    noise = np.zeros((BLOCK, policy.noise_size), np.float32)
    shape = (BLOCK, env.observation_space.shape[0])
    rows = np.random.default_rng(0).standard_normal(shape, dtype=np.float32)
    try:
        actions = act_in_blocks(policy, np.zeros_like(rows), noise)
        check_actions(policy, actions, env.action_space)
        first, second = (act_in_blocks(policy, rows, noise) for _ in range(2))
    except ActionError as error:
        raise InputError(f"{error} (here actions are in {env.action_space})") from None
    except InputError:
        raise
    except Exception as error:  # whatever the user's own code raises
        raise InputError(
            f"expected a policy for the observations {env.observation_space}, but {policy.name} "
            f"cannot act on them ({type(error).__name__}: {one_line(error)}): is it for another "
            "environment?"
        ) from error
    same = np.array_equal(first, second)
    if policy.deterministic and not same:
        raise InputError(
            f"expected the same actions for the same observations, found others from "
            f"{policy.name}: it keeps state or draws random numbers of its own, so its episodes "
            "would not be independent"
        )
    if not policy.deterministic and not policy.noise_size and same:
        raise InputError(f"expected a policy that can sample for `sample`, found {policy.name}")


# --- Python objects -------------------------------------------------------------------------------


@dataclass
class FunctionPolicy:
    """A function from blocks of observations to blocks of actions, and what is known of it."""

    function: Callable[[NDArray[np.float32]], Any]
    name: str
    digest: str | None = None
    deterministic: bool = True
    normalizer: Normalizer | None = None
    noise_size: int = 0

    def act(self, observations: NDArray[np.float32], noise: NDArray[np.float32]) -> NDArray[Any]:
        """Actions for a block of observations."""
        if self.normalizer is not None:
            observations = self.normalizer(observations)
        return np.asarray(self.function(observations))


def predicting(source: Any, name: str, *, deterministic: bool) -> Callable[..., Any]:
    """The function of SB3's `predict(observations, deterministic=...) -> (actions, state)`."""

    def function(observations: NDArray[np.float32]) -> Any:
        actions, state = source.predict(observations, deterministic=deterministic)
        if state is not None:
            raise InputError(
                f"expected a policy without memory, found one with a recurrent state: {name}"
            )
        return actions

    return function


def _of_module(module: Any) -> Callable[..., Any]:
    """The function of a torch module."""

    def function(observations: NDArray[np.float32]) -> Any:
        import torch

        with torch.inference_mode():
            return module(torch.from_numpy(np.ascontiguousarray(observations))).numpy()

    return function


@dataclass
class _Callable:
    """A function of one observation (features,) or of a batch (batch, features).

    Which of the two is found out on the first call.
    """

    function: Any
    name: str
    takes_batch: bool | None = None

    def __call__(self, observations: NDArray[np.float32]) -> Any:
        if self.takes_batch is None:
            self.takes_batch = self._takes_batch(*observations.shape)
        if self.takes_batch:
            return self.function(observations)
        return np.stack([np.asarray(self.function(row)) for row in observations])

    def _takes_batch(self, batch: int, features: int) -> bool:
        """Whether several rows, and one row, give as many actions of one shape."""
        rows = np.random.default_rng(0).standard_normal((batch, features), dtype=np.float32)
        failure: Exception | None = None
        try:
            several, one = (np.asarray(self.function(part)) for part in (rows, rows[:1]))
            if several.shape[:1] == (batch,) and one.shape == (1, *several.shape[1:]):
                return True
        except Exception as error:  # whatever the user's own code raises
            failure = error
        try:
            np.stack([np.asarray(self.function(row)) for row in rows])
        except Exception as error:  # likewise, or actions of several shapes
            reason = f"{type(failure or error).__name__}: {one_line(failure or error)}"
            raise ActionError(
                f"expected a function of one observation ({features},) or of a batch (batch, "
                f"{features}), found that {self.name} takes neither ({reason})"
            ) from error
        return False


def as_policy(
    source: Any,
    *,
    name: str | None = None,
    digest: str | None = None,
    sample: bool = False,
    normalize: Literal[False] | None = None,
) -> Policy:
    """A Python object as a policy: a Policy, `predict`, a torch module, or a callable.

    An SB3 algorithm trained behind a VecNormalize keeps its normalisation: without it another
    policy would be certified; `normalize=False` says that this is meant.

    Raises:
        InputError: the object is none of these, cannot sample, or has lost its normalisation.
    """
    name = name or getattr(source, "__name__", None) or type(source).__name__
    predicts = not isinstance(source, Policy) and hasattr(source, "predict")
    if sample and not predicts and getattr(source, "deterministic", True):
        raise InputError(f"expected a policy that can sample for `sample`, found {name}")
    if isinstance(source, Policy):
        return source
    if predicts:
        normalizer = None
        # The policy of an SB3 algorithm predicts alike and travels without its environment.
        if hasattr(source, "get_vec_normalize_env") and hasattr(source, "policy"):
            normalizer = None if normalize is False else _attached_normalizer(source, name)
            source = source.policy
        function = predicting(source, name, deterministic=not sample)
        return FunctionPolicy(function, name, digest, not sample, normalizer)
    torch = sys.modules.get("torch")  # nothing is a torch module while torch is not loaded
    if torch is not None and isinstance(source, torch.nn.Module):
        return FunctionPolicy(_of_module(source.eval()), name, digest)
    if callable(source):
        return FunctionPolicy(_Callable(source, name), name, digest)
    raise InputError(
        f"expected a policy (with predict, a torch module or a callable) as {name!r}, found "
        f"{source!r}"
    )


def _attached_normalizer(model: Any, name: str) -> Normalizer | None:
    wrapper = model.get_vec_normalize_env()
    if wrapper is not None:
        return statistics_of(wrapper, f"the VecNormalize of {name}")
    if model_was_normalized(model):
        raise InputError(
            f"expected the observation statistics that {name} was trained with, SB3's "
            "VecNormalize, found none: set_env its environment with them, or pass "
            "`normalize=False` if it is to act without"
        )
    return None
