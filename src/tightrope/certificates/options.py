"""What a certificate is asked for: everything that, with the episodes, determines its numbers.

The fields are the options of the command, their help, and part of the JSON document.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from math import inf, isfinite
from operator import index
from typing import Any, Literal, get_args

from tightrope.certificates.ledger import DELTA, DELTA_PRIME
from tightrope.certificates.schemes import Scheme, scheme
from tightrope.devices import check_device
from tightrope.errors import InputError
from tightrope.seeds import Seed, resolve_seed

__all__ = ["MC_PASSES", "Auto", "Off", "Options", "Unit", "target_of"]

Unit = Literal["step", "episode"]
Auto = Literal["auto"]
Off = Literal["off"]
MC_PASSES = 20
# Fields that hold a number, and the word that may stand for one.
_WHOLE = {
    **dict.fromkeys(("thin", "time_limit", "pilot_episodes", "episodes", "test_episodes"), "auto"),
    **dict.fromkeys(("mc_passes", "candidates", "max_episodes")),
}
_REAL = {
    **dict.fromkeys(("delta", "delta_prime", "gamma", "kappa")),
    **dict.fromkeys(("fail_below", "return_floor"), "off"),
}
_CHOICES: dict[str, tuple[str, ...]] = {
    "unit": get_args(Unit),
    "preset": ("paper", "tight"),
    "clock": ("auto", "on", "off"),
    "sampling": ("local", "weights"),
}


@dataclass(frozen=True)
class Options:
    """Options of one certificate, checked.

    Raises:
        InputError: a value is outside its set.
    """

    scheme: str = "auto"
    """auto, nonrec-noninf, nonrec-inf, holdout, sequential, rec-T (such as rec-6), or the relative
    sizes of a recursion's portions, such as 10,20,70."""
    unit: Unit = "step"
    """What counts as independent in `bound`: thinned steps (the paper's assumption) or whole
    episodes (none). Scheme auto states both."""
    preset: Literal["paper", "tight"] = "tight"
    """The paper's recipe for prior and fit, or ours."""
    clock: Literal["auto", "on", "off"] = "auto"
    """Whether elapsed time is an input of the predictor; auto: in preset tight, where the time
    limit is known."""
    time_limit: int | Auto = "auto"
    """Steps after which an episode is cut; auto: from the environment, or for a log from the
    episodes that are in no bound."""
    episodes: int | Auto = "auto"
    """Validation episodes; auto: 100 for a policy, all that are left for a recording."""
    until: str = "off"
    """Roll out a policy in batches until this is certified, such as 'rms<=20': the mean risk of the
    unit asked for, in return units. In place of `episodes`; scheme auto becomes sequential."""
    max_episodes: int = 500
    """Validation episodes at the most, with `until`."""
    test_episodes: int | Auto = "auto"
    """Test episodes, only compared with; auto: 100 for a policy, none for a recording or with
    `until`."""
    pilot_episodes: int | Auto = "auto"
    """Episodes in no bound that fix the return range and the scaling and help to fit; auto: 10, and
    for a policy with a training record only what preset and scheme need."""
    return_range: tuple[float, float] | Auto = "auto"
    """Smallest and largest return; auto: from the training record, or else from the pilot."""
    return_floor: float | Off = "off"
    """A return that no episode can fall below; with it the expected return gets a lower bound."""
    fail_below: float | Off = "off"
    """Also bound the probability that an episode returns less than this, undiscounted."""
    delta: float = DELTA
    """Failure probability over the data."""
    delta_prime: float = DELTA_PRIME
    """Failure probability of the Monte Carlo draws; spent on the data where nothing is drawn."""
    gamma: float = 0.99
    """Discount factor, 1 for undiscounted returns."""
    thin: int | Auto = "auto"
    """Keep every THIN-th step; auto: what suits the environment."""
    mc_passes: int = MC_PASSES
    """Monte Carlo passes over the data."""
    sampling: Literal["local", "weights"] = "local"
    """Local reparameterisation, or one weight draw per pass (Bayes by backprop)."""
    kappa: float = 0.5
    """Weight of the loss before in a recursion."""
    candidates: int = 1
    """Certificates that the best will be chosen from: each then fails that much more rarely."""
    device: str = "auto"
    """What the fits are computed on: cpu, cuda or such as cuda:1; auto: cuda if there is one. The
    bounds are computed on the CPU, and so are fits that verify repeats."""
    seed: Seed = "fresh"
    """Root of all randomness (episodes, fits, draws); fresh: one that is drawn and recorded."""

    def __post_init__(self) -> None:
        for name, word in _WHOLE.items():
            self._coerce(name, index, "a whole number", word)
        for name, word in _REAL.items():
            self._coerce(name, float, "a number", word)
        for name, allowed in _CHOICES.items():
            if getattr(self, name) not in allowed:
                raise InputError(
                    f"expected `{name}` among {', '.join(allowed)}, found {getattr(self, name)!r}"
                )
        check_device(self.device)
        self._check_numbers()
        if not isinstance(self.return_range, str) or self.return_range != "auto":
            self._check_range()
        if self.until == "off":
            if self.max_episodes != type(self).max_episodes:
                raise InputError(
                    f"expected `until` with `max_episodes`, found {self.max_episodes} and no target"
                )
        else:
            target_of(self.until)
            if self.division.first is None and self.scheme != "auto":
                raise InputError(
                    f"expected `scheme` sequential with `until`, found {self.scheme}: its bound is "
                    "for a number of episodes fixed beforehand"
                )
        if self.seed != "fresh":
            object.__setattr__(self, "seed", resolve_seed(self.seed))
        if isinstance(self.episodes, int):
            self.division.sizes(self.episodes)
        else:
            self.division  # noqa: B018 - an unknown name raises

    def _check_numbers(self) -> None:
        least = {"thin": 1, "time_limit": 1, "episodes": 1, "pilot_episodes": 0}
        least |= {"test_episodes": 0, "mc_passes": 1, "candidates": 1, "max_episodes": 1}
        for name, smallest in least.items():
            value = getattr(self, name)
            if value != "auto" and value < smallest:
                raise InputError(f"`{name}` must be at least {smallest}, found {value!r}")
        for name in ("delta", "delta_prime"):
            if not 0 < getattr(self, name) < 1:
                raise InputError(f"`{name}` must be in (0, 1), found {getattr(self, name)!r}")
        if not self.delta + self.delta_prime < 1:
            raise InputError(
                "`delta` + `delta_prime` must be below 1, found "
                f"{self.delta!r} + {self.delta_prime!r}"
            )
        if not 0 <= self.gamma <= 1:
            raise InputError(f"`gamma` must be in [0, 1], found {self.gamma!r}")
        if not 0 < self.kappa <= 1:
            raise InputError(f"`kappa` must be in (0, 1], found {self.kappa!r}")
        for name in ("fail_below", "return_floor"):
            if getattr(self, name) != "off" and not isfinite(getattr(self, name)):
                raise InputError(f"`{name}` must be a finite number, found {getattr(self, name)!r}")
        if self.clock == "off" and self.time_limit != "auto":
            raise InputError(f"expected no `time_limit` with `clock` off, found {self.time_limit}")

    def _check_range(self) -> None:
        try:
            low, high = (float(end) for end in self.return_range)
        except (TypeError, ValueError):
            low = high = inf
        if not -inf < low < high < inf:
            raise InputError(
                f"expected a finite `return_range` LO < HI, found {self.return_range!r}"
            )
        object.__setattr__(self, "return_range", (low, high))

    def _coerce(
        self, name: str, convert: Callable[[Any], Any], what: str, word: str | None
    ) -> None:
        """Plain Python numbers only: they go into a JSON document."""
        value = getattr(self, name)
        if isinstance(value, str) and value == word:
            return
        try:
            if isinstance(value, bool | str):
                raise TypeError
            object.__setattr__(self, name, convert(value))
        except (TypeError, ValueError):
            allowed = what if word is None else f"{what} or {word!r}"
            raise InputError(f"`{name}` must be {allowed}, found {value!r}") from None

    @classmethod
    def of(cls, values: Mapping[str, Any]) -> "Options":
        """Options by name, as JSON or TOML has them.

        Raises:
            InputError: a name is none of an option, or a value is outside its set.
        """
        for name in values:
            if name not in cls.__dataclass_fields__:
                known = ", ".join(cls.__dataclass_fields__)
                raise InputError(f"expected options among {known}, found {name!r}")
        plain: Any = {
            name: tuple(value) if isinstance(value, list) else value
            for name, value in values.items()
        }
        return cls(**plain)

    @property
    def division(self) -> Scheme:
        """The scheme behind its name."""
        return scheme(self.scheme)

    def seeded(self, seed: int | None = None) -> "Options":
        """With that seed, or with the one that ``fresh`` comes to."""
        return replace(self, seed=resolve_seed(self.seed) if seed is None else seed)


def target_of(words: str, name: str = "until") -> float:
    """The number of a target such as ``rms<=20``, in return units.

    Raises:
        InputError: it is no such target.
    """
    found = re.fullmatch(r"\s*rms\s*<=?\s*([0-9.]+(?:[eE][-+]?[0-9]+)?)\s*", str(words))
    try:
        limit = float(found[1]) if found else 0.0
    except ValueError:
        limit = 0.0
    if not 0 < limit < inf:
        raise InputError(
            f"expected a target such as 'rms<=20' for `{name}`, in return units, found {words!r}"
        )
    return limit
