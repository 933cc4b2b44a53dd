"""What a certificate is asked for: everything that, with the episodes, determines its numbers."""

from collections.abc import Callable
from dataclasses import dataclass
from math import inf, isfinite
from operator import index
from typing import Any

from tightrope.certificates.ledger import (
    DELTA,
    DELTA_PRIME,
    Ledger,
    holdout_ledger,
    recursive_ledger,
)
from tightrope.certificates.schemes import Scheme, scheme
from tightrope.certificates.statements import Unit
from tightrope.errors import InputError
from tightrope.posteriors import PRESETS, Preset, Sampling, preset
from tightrope.rollouts import GAMMA, PILOT_EPISODES

__all__ = ["MC_PASSES", "Options"]

MC_PASSES = 20
_WHOLE = ("thin", "pilot_episodes", "episodes", "test_episodes", "mc_passes", "seed")
_REAL = ("delta", "delta_prime", "gamma", "kappa", "fail_below")


@dataclass(frozen=True)
class Options:
    """Options of one certificate, checked.

    Raises:
        InputError: a value is outside its set.
    """

    scheme: str = "rec-6"
    unit: Unit = "step"
    preset: str = "tight"
    delta: float = DELTA
    delta_prime: float = DELTA_PRIME
    gamma: float = GAMMA
    thin: int | None = None
    return_range: tuple[float, float] | None = None
    pilot_episodes: int = PILOT_EPISODES
    episodes: int | None = None
    test_episodes: int = 0
    mc_passes: int = MC_PASSES
    sampling: Sampling = "local"
    kappa: float = 0.5
    fail_below: float | None = None
    seed: int = 0

    def __post_init__(self) -> None:
        for name in _WHOLE:
            self._coerce(name, index, "a whole number")
        for name in _REAL:
            self._coerce(name, float, "a number")
        if self.return_range is not None:
            low, high = self.return_range
            object.__setattr__(self, "return_range", (float(low), float(high)))
        scheme(self.scheme)
        preset(self.preset)
        if self.unit not in ("step", "episode"):
            raise InputError(f"expected a unit among step, episode, found {self.unit!r}")
        if self.sampling not in ("local", "weights"):
            raise InputError(f"expected a sampling among local, weights, found {self.sampling!r}")
        if not 0 <= self.gamma <= 1:
            raise InputError(f"gamma must be in [0, 1], found {self.gamma!r}")
        if self.thin is not None and self.thin < 1:
            raise InputError(f"thin must be at least 1, found {self.thin!r}")
        if (
            self.return_range is not None
            and not -inf < self.return_range[0] < self.return_range[1] < inf
        ):
            raise InputError(f"expected a finite return range LO < HI, found {self.return_range}")
        for name in ("pilot_episodes", "test_episodes"):
            if getattr(self, name) < 0:
                raise InputError(f"{name} must be at least 0, found {getattr(self, name)!r}")
        if self.fail_below is not None and not isfinite(self.fail_below):
            raise InputError(f"fail_below must be a finite number, found {self.fail_below!r}")
        if self.episodes is not None:
            self.plan.sizes(self.episodes)
        if not 0 < self.kappa <= 1:
            raise InputError(f"kappa must be in (0, 1], found {self.kappa!r}")
        if self.mc_passes < 1:
            raise InputError(f"mc_passes must be at least 1, found {self.mc_passes!r}")
        if self.seed < 0:
            raise InputError(f"seed must be at least 0, found {self.seed!r}")
        try:
            self.ledger()
        except ValueError as error:
            raise InputError(str(error)) from None

    def _coerce(self, name: str, convert: Callable[[Any], Any], what: str) -> None:
        """Plain Python numbers only: they go into a JSON document."""
        value = getattr(self, name)
        try:
            object.__setattr__(self, name, value if value is None else convert(value))
        except (TypeError, ValueError):
            raise InputError(f"{name} must be {what}, found {value!r}") from None

    @property
    def plan(self) -> Scheme:
        """The scheme behind its name."""
        return scheme(self.scheme)

    @property
    def recipe(self) -> Preset:
        """The preset behind its name."""
        return PRESETS[self.preset]

    def ledger(self) -> Ledger:
        """Which failure probability goes where."""
        if self.plan.kind == "holdout":
            return holdout_ledger(
                delta=self.delta,
                delta_prime=self.delta_prime,
                shared_draws=self.sampling == "weights",
            )
        portions = len(self.plan.weights) if self.plan.kind == "recursive" else 1
        return recursive_ledger(portions, delta=self.delta, delta_prime=self.delta_prime)
