"""Budgets in nats, rounded up; section B of docs/theory.md."""

import numpy as np
from numpy.typing import ArrayLike

from tightrope.bounds._domain import FloatArray, counts, failure_probability, inside
from tightrope.bounds.maurer import xi

__all__ = ["ROUND_DOWN", "ROUND_UP", "bet_budget", "chernoff_budget", "pac_bayes_budget"]

_EPS = float(np.finfo(np.float64).eps)
ROUND_UP = 1.0 + 8 * _EPS  # outweighs the rounding of a handful of operations
ROUND_DOWN = 1.0 - 8 * _EPS


def chernoff_budget(*, n: ArrayLike, delta: ArrayLike, n_name: str = "n") -> FloatArray:
    r""":math:`\ln(1/\delta)/n`, the budget of one Chernoff statement (C.1)."""
    delta = failure_probability("delta", delta)
    return -np.log(delta) / counts(n_name, n) * ROUND_UP


def pac_bayes_budget(
    *, kl: ArrayLike, n: ArrayLike, delta: ArrayLike, statements: int
) -> FloatArray:
    r""":math:`(\mathrm{KL} + \ln(s\,\xi(n)/\delta))/n` for s statements at once (P.1, P.2)."""
    kl = inside("kl", kl, 0, np.inf, "in [0, inf]")
    n, delta = counts("n", n), failure_probability("delta", delta)
    nats = kl + np.log(statements * xi(n)) - np.log(delta)
    return np.asarray(nats / n * ROUND_UP)


def bet_budget(*, kl: ArrayLike, n: ArrayLike, delta: ArrayLike) -> FloatArray:
    r""":math:`(\mathrm{KL} + \ln(1/\delta))/n`, the budget of a constant bet (P.3)."""
    kl = inside("kl", kl, 0, np.inf, "in [0, inf]")
    n, delta = counts("n", n), failure_probability("delta", delta)
    return np.asarray((kl - np.log(delta)) / n * ROUND_UP)
