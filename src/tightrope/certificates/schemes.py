"""Schemes: how episodes are divided, and which bound follows; docs/theory.md, section S."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Annotated, Literal

from pydantic import Field

from tightrope.errors import InputError
from tightrope.records import Strict

__all__ = ["TABLE", "Scheme", "portion_sizes", "scheme"]

Kind = Literal["auto", "holdout", "sequential", "table", "informed", "recursive"]
_Weight = Annotated[int, Field(ge=1, le=999_999)]


@dataclass(frozen=True)
class Scheme(Strict):
    """A way to divide the validation episodes and to bound the risk of what they teach.

    Attributes:
        name: what users type.
        kind: ``auto`` (a predictor fixed on the fitting set; all statements jointly on the
            calibration set), ``holdout`` (the same predictor, its mean risk alone), ``sequential``
            (the same, at every number of episodes), ``table`` (no predictor: results of episodes),
            ``informed`` (a prior from the first portion,
            P.1 or P.3 on the second) or ``recursive`` (R.1; with one portion the plain bound).
        weights: relative sizes of the portions; empty where the predictor is fixed.
    """

    name: str
    kind: Kind
    weights: Annotated[tuple[_Weight, ...], Field(max_length=100)] = ()

    @property
    def fixed(self) -> bool:
        """Whether the predictor is fixed before the episodes of its bounds are used."""
        return self.kind not in ("informed", "recursive")

    @property
    def reproducible_prior(self) -> bool:
        """Whether the first prior depends on pilot episodes only, so `verify` can refit it."""
        return self.kind == "recursive"

    def sizes(self, episodes: int, fit: int) -> list[int]:
        """Episodes of each portion of the validation episodes.

        Raises:
            InputError: there are fewer episodes than portions.
        """
        if not self.fixed:
            return portion_sizes(self.weights, episodes, self.name)
        if self.kind == "table":
            return [0, episodes]
        if not 1 <= fit < episodes:
            raise InputError(
                f"expected `fit_episodes` of at least 1 and below {episodes} episodes in all, "
                f"found {fit}: the others calibrate"
            )
        return [fit, episodes - fit]


TABLE = Scheme("table", "table")
_NAMED: dict[str, tuple[Kind, tuple[int, ...]]] = {
    "auto": ("auto", ()),
    "holdout": ("holdout", ()),
    "nonrec-noninf": ("recursive", (1,)),
    "nonrec-inf": ("informed", (1, 1)),
    "rec-6": ("recursive", (3, 4, 6, 12, 25, 50)),  # the paper's, for 100 episodes
}


def scheme(name: str) -> Scheme:
    """The scheme of a name.

    One of auto, nonrec-noninf, nonrec-inf, holdout, rec-T, or the relative sizes of the portions
    of a recursion, as 10,20,70. (``sequential`` comes with `until` alone.) In rec-T the last
    portion is a half, the one before a quarter, and so on; the first two are equal.

    Raises:
        InputError: the name is none of these.
    """
    if name in _NAMED:
        return Scheme(name, *_NAMED[name])
    if re.fullmatch(r"rec-([1-9]|1[0-9]|20)", name):  # more would need a million episodes
        return Scheme(name, "recursive", (1, *(2**part for part in range(int(name[4:]) - 1))))
    if re.fullmatch(r"[1-9][0-9]{0,5}(,[1-9][0-9]{0,5}){1,99}", name):
        return Scheme(name, "recursive", tuple(int(part) for part in name.split(",")))
    raise InputError(
        "expected a scheme among auto, nonrec-noninf, nonrec-inf, holdout, rec-T with T from 1 to "
        f"20, or relative sizes of portions such as 10,20,70, found {name!r}"
        + (": give `until` for a sequential search" if name == "sequential" else "")
    )


def portion_sizes(weights: Sequence[int], episodes: int, name: str = "the scheme") -> list[int]:
    """Whole episodes in proportion to the weights: largest remainders, each at least 1.

    >>> portion_sizes((3, 4, 6, 12, 25, 50), 100), portion_sizes((1, 1), 7)
    ([3, 4, 6, 12, 25, 50], [4, 3])
    """
    count = len(weights)
    if episodes < count:
        raise InputError(
            f"expected at least {count} validation episodes for {name}, found {episodes}: "
            "record more, or choose a scheme with fewer portions"
        )
    exact = [Fraction(weight * episodes, sum(weights)) for weight in weights]
    sizes = [max(1, int(share) - count) for share in exact]  # too few, whatever the ones add
    while sum(sizes) < episodes:
        sizes[max(range(count), key=lambda i: exact[i] - sizes[i])] += 1
    return sizes
