"""How two policies are compared: the fields are the options of the command, and their help."""

from dataclasses import dataclass, replace
from math import isfinite
from pathlib import Path
from typing import Literal

from tightrope.certificates.ledger import DELTA, DELTA_PRIME, comparison_ledger
from tightrope.certificates.options import Auto, Off
from tightrope.certificates.request import Rollout
from tightrope.errors import InputError
from tightrope.seeds import Seed

__all__ = ["QUESTIONS", "Comparing", "Failure", "Question", "with_statistics"]

Question = Literal["return", "failure", "predictability"]
QUESTIONS: tuple[Question, ...] = ("return", "failure", "predictability")
Failure = Literal["early", "success", "return"]


@dataclass(frozen=True)
class Comparing:
    """How two policies are compared, checked.

    Raises:
        InputError: a value is outside its set.
    """

    max_episodes: int = 500
    """Episodes of each policy after which to stop, decided or not; of recordings all are used."""
    batch: int = 50
    """Episodes of each policy that are rolled out before looking again."""
    gamma: float | Auto = "auto"
    """Discount factor of the returns that are compared; auto: that of two certificates, else 1."""
    return_range: tuple[float, float] | Off = "off"
    """Smallest and largest return that any episode can have. With it expected returns are compared;
    without, which of two episodes returns more."""
    failure: Literal["auto"] | Failure = "auto"
    """When an episode fails: early (it terminates), success (there was none) or return (less than
    fail-below); auto: return if fail-below is given, else success if it is recorded, else early."""
    fail_below: float | Off = "off"
    """An episode with a smaller return fails."""
    delta: float = DELTA
    """Failure probability of all answers together, first part."""
    delta_prime: float = DELTA_PRIME
    """The second part, as in certificates; nothing is drawn here, so both are spent on the data."""
    seed: Seed = "fresh"
    """Root of the episodes' seeds; fresh: one that is drawn and recorded."""

    def __post_init__(self) -> None:
        for name in ("max_episodes", "batch"):
            value = getattr(self, name)
            if isinstance(value, bool) or value != int(value) or value < 2:
                raise InputError(f"`{name}` must be a whole number of at least 2, found {value!r}")
        if self.gamma != "auto" and not 0 <= self.gamma <= 1:
            raise InputError(f"`gamma` must be in [0, 1] or 'auto', found {self.gamma!r}")
        if self.return_range != "off":
            low, high = self.return_range
            if not (isfinite(low) and isfinite(high) and low < high):
                raise InputError(
                    f"expected a finite `return_range` LO < HI, found {self.return_range!r}"
                )
        if self.failure not in ("auto", "early", "success", "return"):
            raise InputError(
                f"expected `failure` among auto, early, success, return, found {self.failure!r}"
            )
        if self.failure == "return" and self.fail_below == "off":
            raise InputError("expected `fail_below`, a return, with `failure` return, found none")
        if self.failure in ("early", "success") and self.fail_below != "off":
            raise InputError(f"expected no `fail_below` with `failure` {self.failure}")
        try:
            comparison_ledger(QUESTIONS, delta=self.delta, delta_prime=self.delta_prime)
        except ValueError as error:
            raise InputError(str(error)) from None


def with_statistics(rollout: Rollout, normalize: Literal["same", "none"] | Path) -> Rollout:
    """The roll-out of B: with observation statistics of its own, if they are given."""
    if normalize == "same":
        return rollout
    return replace(rollout, normalize=normalize, no_normalize=False)
