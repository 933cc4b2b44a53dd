"""Which episode of A stands beside which of B."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tightrope.errors import InputError

__all__ = ["Pairing", "pair"]


@dataclass(frozen=True)
class Pairing:
    """Episodes side by side: pairs that are independent of each other and alike.

    Attributes:
        first: (pairs,) which episodes of A.
        second: (pairs,) which of B, in the same order.
        by_seed: whether the two of a pair have one seed.
        note: in words.
    """

    first: NDArray[np.int64]
    second: NDArray[np.int64]
    by_seed: bool
    note: str


def pair(first: NDArray[np.int64], second: NDArray[np.int64]) -> Pairing:
    """By equal seeds where there are any in common, otherwise in recorded order.

    Either way pairs are independent of each other, which is all that section D asks for. What must
    not happen is that a seed is in one pair with A's episode and in another with B's: so seeds in
    common are either all of the shorter recording's, or none.

    Args:
        first: seeds of A's episodes, -1 where not recorded.
        second: seeds of B's episodes.

    Raises:
        InputError: a seed appears twice in one recording, or only some are in common.
    """
    for name, seeds in (("A", first), ("B", second)):
        known = seeds[seeds >= 0]
        if len(np.unique(known)) < len(known):
            raise InputError(f"expected episodes with distinct seeds, found a seed twice in {name}")
    common, in_first, in_second = np.intersect1d(first, second, return_indices=True)
    shared = common >= 0
    if shared.any():
        fewer = min(len(first), len(second))
        if shared.sum() < fewer:
            raise InputError(
                f"expected all seeds of the shorter recording in the longer one, or none, found "
                f"{shared.sum()} of {fewer}: the others would not be independent of these; cut "
                "both recordings to the seeds in common, or record one anew"
            )
        order = np.argsort(in_first[shared], kind="stable")  # as A was recorded
        left = max(len(first), len(second)) - fewer
        note = "paired by seed" + (f"; {left} episodes without a partner left out" if left else "")
        return Pairing(in_first[shared][order], in_second[shared][order], True, note)
    count = min(len(first), len(second))
    recorded = bool((first >= 0).all() and (second >= 0).all())
    why = "the recordings have no seed in common" if recorded else "seeds are not recorded"
    left = max(len(first), len(second)) - count
    note = f"not paired by seed, since {why}: episodes stand side by side in recorded order"
    note += f"; the last {left} of the longer recording left out" if left else ""
    rows = np.arange(count)
    return Pairing(rows, rows, False, note)
