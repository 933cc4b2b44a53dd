"""Seeds from seeds: no two uses of randomness share a stream."""

import numpy as np

__all__ = ["child_seed"]


def child_seed(root: int, *path: int) -> int:
    """A seed for the use of randomness that `path` numbers, derived from the root seed."""
    return int(np.random.SeedSequence(root, spawn_key=path).generate_state(1, np.uint64)[0] >> 1)
