"""Schemes: how episodes are divided, and which bound comes of it; docs/theory.md, section S."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Literal

from tightrope.errors import InputError

__all__ = ["Scheme", "portion_sizes", "scheme"]

Kind = Literal["auto", "holdout", "informed", "recursive"]

_REC_6 = (3, 4, 6, 12, 25, 50)  # the paper's, for 100 episodes
_AUTO_FREE = Fraction(3, 11)  # of all but the test episodes, pilot included: docs/tightness.md
_SEQUENTIAL_FREE = 20  # validation episodes to fit to, as auto has of 100
_DEEPEST = 20  # the portions of rec-T double; more would need a million episodes


@dataclass(frozen=True)
class Scheme:
    """A way to divide the validation episodes and to bound the risk of what they teach.

    Attributes:
        name: what users type.
        kind: ``auto`` (a predictor fixed by the first portion; all statements jointly on the
            second), ``holdout`` (the same predictor, its mean risk alone), ``informed`` (a prior
            from the first portion, P.1 or P.3 on the second) or ``recursive`` (R.1; with one
            portion the plain bound).
        weights: relative sizes of the portions.
        first: episodes of the first portion, where that is fixed and the second has no fixed size:
            then the bound holds at every number of episodes at once, and nothing else is said.
    """

    name: str
    kind: Kind
    weights: tuple[int, ...]
    first: int | None = None

    @property
    def fixed(self) -> bool:
        """Whether the predictor is fixed before the episodes of its bounds are looked at."""
        return self.kind in ("auto", "holdout")

    @property
    def exact(self) -> bool:
        """Whether the first prior knows no validation episode, so that a verifier repeats it."""
        return self.kind == "recursive"

    def sizes(self, episodes: int, pilot: int = 0) -> list[int]:
        """Episodes of each portion; in scheme auto, the pilot counts towards the first.

        Raises:
            InputError: there are fewer episodes than portions.
        """
        if self.first is not None:
            if episodes <= self.first:
                raise InputError(
                    f"expected more than {self.first} validation episodes for {self.name}, found "
                    f"{episodes}: the first {self.first} are only fitted to"
                )
            return [self.first, episodes - self.first]
        sizes = portion_sizes(self.weights, episodes, self.name)
        if self.kind != "auto":
            return sizes
        free = round(_AUTO_FREE * (episodes + pilot)) - pilot
        free = min(max(free, 1), episodes - 1)
        return [free, episodes - free]

    def free(self, episodes: int, pilot: int = 0) -> int:
        """Validation episodes at the beginning that no bound is evaluated on."""
        return 0 if self.kind == "recursive" else self.sizes(episodes, pilot)[0]


def scheme(name: str) -> Scheme:
    """The scheme of a name.

    One of auto, nonrec-noninf, nonrec-inf, holdout, sequential, rec-T, or the relative sizes of
    the portions of a recursion, as 10,20,70.

    Raises:
        InputError: the name is none of these.
    """
    name = str(name)
    named = {
        "auto": Scheme(name, "auto", (3, 8)),
        "holdout": Scheme(name, "holdout", (1, 1)),
        "sequential": Scheme(name, "holdout", (1, 1), first=_SEQUENTIAL_FREE),
        "nonrec-noninf": Scheme(name, "recursive", (1,)),
        "nonrec-inf": Scheme(name, "informed", (1, 1)),
        "rec-6": Scheme(name, "recursive", _REC_6),
    }
    if name in named:
        return named[name]
    depth = re.fullmatch(r"rec-([1-9][0-9]*)", name)
    if depth and 1 <= int(depth.group(1)) <= _DEEPEST:
        return Scheme(name, "recursive", _halving(int(depth.group(1))))
    if re.fullmatch(r"[1-9][0-9]*(,[1-9][0-9]*)+", name):
        return Scheme(name, "recursive", tuple(int(part) for part in name.split(",")))
    raise InputError(
        "expected a scheme among auto, nonrec-noninf, nonrec-inf, holdout, sequential, rec-T with "
        f"T from 1 to {_DEEPEST}, or relative sizes of portions such as 10,20,70, found {name!r}"
    )


def portion_sizes(weights: Sequence[int], episodes: int, name: str = "the scheme") -> list[int]:
    """Whole episodes in proportion to the weights: largest remainders, each at least 1.

    >>> portion_sizes((3, 4, 6, 12, 25, 50), 100), portion_sizes((1, 1), 7)
    ([3, 4, 6, 12, 25, 50], [4, 3])
    """
    if episodes < len(weights):
        raise InputError(
            f"expected at least {len(weights)} validation episodes for {name}, found {episodes}: "
            "record more, or choose a scheme with fewer portions"
        )
    total = sum(weights)
    exact = [Fraction(weight * episodes, total) for weight in weights]
    sizes = [max(1, int(share)) for share in exact]
    while sum(sizes) < episodes:
        index = max(range(len(sizes)), key=lambda i: (exact[i] - sizes[i], -i))
        sizes[index] += 1
    while sum(sizes) > episodes:
        index = max(
            (i for i in range(len(sizes)) if sizes[i] > 1), key=lambda i: (sizes[i] - exact[i], i)
        )
        sizes[index] -= 1
    return sizes


def _halving(depth: int) -> tuple[int, ...]:
    """The last portion is a half, the one before a quarter, and so on; the first two are equal."""
    powers = [2**index for index in range(depth - 1)]
    return (1, *powers)
