"""Schemes: how episodes are divided, and which bound comes of it; docs/theory.md, section S."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Literal

from tightrope.errors import InputError

__all__ = ["Scheme", "portion_sizes", "scheme"]

Kind = Literal["recursive", "informed", "holdout"]

_REC_6 = (3, 4, 6, 12, 25, 50)  # the paper's, for 100 episodes


@dataclass(frozen=True)
class Scheme:
    """A way to divide the validation episodes and to bound the risk of the last posterior.

    Attributes:
        name: what users type.
        kind: ``recursive`` (R.1; with one portion the plain bound P.1), ``informed`` (a prior from
            the first portion, P.1 on the second) or ``holdout`` (a frozen predictor from the first
            portion, H.3 on the second).
        weights: relative sizes of the portions.
    """

    name: str
    kind: Kind
    weights: tuple[int, ...]

    def sizes(self, episodes: int) -> list[int]:
        """Episodes of each portion.

        Raises:
            InputError: there are fewer episodes than portions.
        """
        return portion_sizes(self.weights, episodes, self.name)


def scheme(name: str) -> Scheme:
    """The scheme of a name: nonrec-noninf, nonrec-inf, holdout, rec-T, or portions as 10,20,70.

    Raises:
        InputError: the name is none of these.
    """
    if name == "nonrec-noninf":
        return Scheme(name, "recursive", (1,))
    if name == "nonrec-inf":
        return Scheme(name, "informed", (1, 1))
    if name == "holdout":
        return Scheme(name, "holdout", (1, 1))
    if name == "rec-6":
        return Scheme(name, "recursive", _REC_6)
    depth = re.fullmatch(r"rec-([1-9]\d?)", name)
    if depth:
        return Scheme(name, "recursive", _halving(int(depth.group(1))))
    if re.fullmatch(r"[1-9]\d*(,[1-9]\d*)+", name):
        return Scheme(name, "recursive", tuple(int(part) for part in name.split(",")))
    raise InputError(
        "expected a scheme among nonrec-noninf, nonrec-inf, rec-T (such as rec-2 or rec-6), "
        f"holdout, or portions such as 10,20,70, found {name!r}"
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
