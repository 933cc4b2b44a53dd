"""How two policies are compared: the fields are the options of the command, and their help."""

from collections.abc import Sequence
from typing import Annotated, Literal

from pydantic import Field

from tightrope.certificates.ledger import DELTA, DELTA_PRIME, Ledger
from tightrope.certificates.options import Auto, Candidates, Discount, Off, Proper, Termination
from tightrope.errors import InputError
from tightrope.records import checked
from tightrope.seeds import Seed, resolve_seed

__all__ = ["CompareOptions"]

_Several = Annotated[int, Field(ge=2, le=10_000_000)]


@checked
class CompareOptions:
    """Options of one comparison, checked.

    Raises:
        InputError: a value is outside its set.
    """

    max_episodes: _Several = 500
    """Episodes of each policy after which to stop, decided or not; of recordings all are used."""
    batch: _Several = 50
    """Episodes of each policy that are rolled out before looking again."""
    gamma: Discount | Auto = "auto"
    """Discount factor of the returns that are compared; auto: that of two certificates, else 1."""
    return_range: tuple[float, float] | Off = "off"
    """Smallest and largest return that any episode can have. With it expected returns are compared,
    too."""
    fail_below: float | Off = "off"
    """An episode with a smaller undiscounted return fails."""
    termination: Termination = "neutral"
    """What it means that an episode terminates: failure, success (it reaches its goal), or neither.
    A recorded success has precedence."""
    order: Literal["recorded", "random"] = "recorded"
    """Order of recorded episodes; random: one that is drawn from the seed, for tables that were
    sorted. The comparison then holds for this number of episodes only."""
    candidates: Candidates = 1
    """Number of such comparisons you may choose from, such as one policy against each of several;
    the confidence accounts for it."""
    delta: Proper = DELTA
    """Failure probability of all intervals together, first part."""
    delta_prime: Proper = DELTA_PRIME
    """The second part, as in certificates; nothing is drawn here, so both are spent on the data."""
    seed: Seed = "fresh"
    """Root of the episodes' seeds, and of a random order; fresh: one that is drawn and recorded."""

    def __post_init__(self) -> None:
        if isinstance(self.return_range, tuple) and not self.return_range[0] < self.return_range[1]:
            raise InputError(
                f"expected a finite `return_range` LO < HI, found {self.return_range!r}"
            )
        if self.fail_below != "off" and self.termination != "neutral":
            raise InputError(
                f"expected `fail_below` or `termination` {self.termination}, found both: one event "
                "is compared"
            )
        if self.seed != "fresh":
            resolve_seed(self.seed)
        if self.delta + self.delta_prime >= 1:
            raise InputError(
                f"`delta` + `delta_prime` must be below 1, found {self.delta!r} + "
                f"{self.delta_prime!r}"
            )

    def ledger(self, questions: Sequence[str]) -> Ledger:
        """What each side of each question may fail with."""
        return Ledger.comparison(
            questions,
            delta=self.delta,
            delta_prime=self.delta_prime,
            candidates=self.candidates,
        )
