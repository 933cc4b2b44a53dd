"""Seeds from seeds: every use of randomness has a named stream, and no two share one."""

import secrets
from enum import IntEnum
from typing import Literal

import numpy as np

from tightrope.errors import InputError

__all__ = ["RunStream", "Seed", "Stream", "child_seed", "resolve_seed", "run_seed"]

Seed = int | Literal["fresh"]


class Stream(IntEnum):
    """What a seed is for. The numbers are part of what a recorded seed means."""

    PRIOR_MEANS = 0
    FIT = 1
    DRAWS = 2
    TRAIN_ERROR = 3
    TEST_ERROR = 4
    REGRESSION = 5
    CHECKS = 6
    ORDER = 7


def child_seed(root: int, stream: Stream, *path: int) -> int:
    """A seed for one use of randomness, derived from the root seed."""
    sequence = np.random.SeedSequence(root, spawn_key=(int(stream), *path))
    return int(sequence.generate_state(1, np.uint64)[0] >> 1)


class RunStream(IntEnum):
    """Episodes of a training run: what it learns from, and what it is judged by."""

    TRAINING = 0x7EA1
    EVALUATION = 0xE7A1


def run_seed(root: int, stream: RunStream, index: int) -> int:
    """The seed of the episode of that number in a training run."""
    return int(np.random.SeedSequence((root, int(stream), index)).generate_state(1)[0] >> 1)


def resolve_seed(seed: Seed) -> int:
    """The seed itself, or for ``fresh`` one that nobody has used: it must be recorded.

    A fixed default would roll out the same validation episodes again after the policy was changed
    on account of the last certificate, which is reuse of a test set.

    Raises:
        InputError: the seed is neither a whole number of at least 0 nor ``fresh``.
    """
    if seed == "fresh":
        return secrets.randbits(31)
    if isinstance(seed, bool) or not isinstance(seed, int | np.integer) or seed < 0:
        raise InputError(f"`seed` must be a whole number of at least 0 or 'fresh', found {seed!r}")
    return int(seed)
