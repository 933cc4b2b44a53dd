"""Policies that are Python objects: SB3's `predict`, torch modules, plain callables."""

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from tightrope.errors import InputError, one_line
from tightrope.policies.base import ActionError, Policy
from tightrope.policies.mlp import Normalizer
from tightrope.policies.statistics import model_was_normalized, statistics_of

__all__ = ["CallablePolicy", "ModulePolicy", "PredictPolicy", "as_policy"]


@dataclass(frozen=True)
class PredictPolicy:
    """Anything with SB3's `predict(observations, deterministic=...) -> (actions, state)`."""

    predictor: Any
    name: str
    digest: str | None = None
    deterministic: bool = True
    normalizer: Normalizer | None = None
    noise_size: int = 0

    def act(self, observations: NDArray[np.float32], noise: NDArray[np.float32]) -> NDArray[Any]:
        """Actions for a block of observations."""
        if self.normalizer is not None:
            observations = self.normalizer(observations)
        actions, state = self.predictor.predict(observations, deterministic=self.deterministic)
        if state is not None:
            raise InputError(
                f"expected a policy without memory, found one with a recurrent state: {self.name}"
            )
        return np.asarray(actions)


@dataclass(frozen=True)
class ModulePolicy:
    """A torch module from observations to actions."""

    module: Any
    name: str
    digest: str | None = None
    deterministic: bool = True
    noise_size: int = 0

    def act(self, observations: NDArray[np.float32], noise: NDArray[np.float32]) -> NDArray[Any]:
        """Actions for a block of observations."""
        import torch

        with torch.inference_mode():
            actions = self.module(torch.from_numpy(np.ascontiguousarray(observations)))
        if not isinstance(actions, torch.Tensor):
            raise InputError(
                f"expected one tensor of actions, found {type(actions).__name__} from {self.name}"
            )
        return np.asarray(actions.numpy())


@dataclass
class CallablePolicy:
    """A function from one observation (features,) or a batch (batch, features) to actions.

    Which of the two is found out on the first call.
    """

    function: Any
    name: str
    digest: str | None = None
    deterministic: bool = True
    noise_size: int = 0
    takes_batch: bool | None = None

    def act(self, observations: NDArray[np.float32], noise: NDArray[np.float32]) -> NDArray[Any]:
        """Actions for a block of observations."""
        if self.takes_batch is None:
            self.takes_batch = self._takes_batch(*observations.shape)
        if self.takes_batch:
            return np.asarray(self.function(observations))
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
            shapes = {np.asarray(self.function(row)).shape for row in rows}
        except Exception as error:  # likewise
            reason = f"{type(failure or error).__name__}: {one_line(failure or error)}"
            raise ActionError(
                f"expected a function of one observation ({features},) or of a batch (batch, "
                f"{features}), found that {self.name} takes neither ({reason})"
            ) from error
        if len(shapes) > 1:
            raise ActionError(f"expected actions of one shape from {self.name}, found {shapes}")
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
    if isinstance(source, Policy):
        if sample and source.deterministic:
            raise InputError(f"expected a policy that can sample for `sample`, found {source.name}")
        return source
    name = name or getattr(source, "__name__", None) or type(source).__name__
    if hasattr(source, "predict"):
        # The policy of an SB3 algorithm predicts alike and travels without its environment.
        if hasattr(source, "get_vec_normalize_env") and hasattr(source, "policy"):
            normalizer = None if normalize is False else _attached_normalizer(source, name)
            return PredictPolicy(source.policy, name, digest, not sample, normalizer)
        return PredictPolicy(source, name, digest, not sample)
    if sample:
        raise InputError(
            f"expected a policy that can sample for `sample`, found {name}: only SB3 policies can"
        )
    if _is_torch_module(source):
        return ModulePolicy(source.eval(), name, digest)
    if callable(source):
        return CallablePolicy(source, name, digest)
    raise InputError(
        f"expected a policy (with predict, a torch module or a callable), found {source!r}"
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


def _is_torch_module(source: Any) -> bool:
    import sys

    torch = sys.modules.get("torch")  # nothing is a torch module while torch is not loaded
    return torch is not None and isinstance(source, torch.nn.Module)
