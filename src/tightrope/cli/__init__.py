"""The command: a module per group of verbs, thin; only the named one is imported."""

import os

# Before NumPy is imported: the threads of its products spin while they wait, and two certificates
# on the same cores would stop each other (benchmarks/README.md).
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

from tightrope.cli.app import main

__all__ = ["main"]
