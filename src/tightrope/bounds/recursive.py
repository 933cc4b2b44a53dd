"""The recursion over portions of the data; docs/theory.md, section R."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

from tightrope.bounds._budget import ROUND_UP
from tightrope.bounds._domain import FloatArray, inside

__all__ = ["recursive_bound"]

_FINITE = float(np.finfo(np.float64).max)


def recursive_bound(
    first: ArrayLike, excesses: Sequence[ArrayLike], *, kappa: float | Sequence[float] = 0.5
) -> FloatArray:
    r"""Every step of the recursion from the first bound through the excess bounds.

    .. math:: B_1 = \text{first}, \qquad B_t = E_t + \kappa_t B_{t-1}  \quad (R.1)

    Guarantee: B_t bounds the risk of the t-th posterior if `first` bounds the risk of the first
    and each E_s, s <= t, the mean excess :math:`L(h_s) - \kappa_s L(h_{s-1})`. The failure
    probabilities of its ingredients add up; they are split before they get here. Rounded upward.

    Args:
        first: B_1, at least 0.
        excesses: E_2 ... E_T in order, finite, each broadcast against `first`; may be empty.
        kappa: one factor in [0, 1] for all steps, or one for each excess.

    Returns:
        Array of shape (T, ...): B_1 ... B_T, not clipped to 1.

    Raises:
        ValueError: an argument is NaN or outside its set, or the lengths differ.

    References:
        Wu, Zhang, Chérief-Abdellatif and Seldin (2024), "Recursive PAC-Bayes".

    >>> recursive_bound(0.5, [0.125, -0.0625]).round(6)
    array([0.5  , 0.375, 0.125])
    """
    bounds = [inside("first", first, 0, _FINITE, "finite and at least 0")]
    if not isinstance(excesses, Sequence | np.ndarray):
        raise ValueError(f"excesses must be a sequence of bounds, found {excesses!r}")
    kappas = inside("kappa", kappa, 0, 1)
    if kappas.ndim and kappas.shape != (len(excesses),):
        raise ValueError(
            f"kappa must be one number or one for each of the {len(excesses)} excesses, "
            f"found shape {kappas.shape}"
        )
    kappas = np.broadcast_to(kappas, len(excesses))
    for step, (excess, factor) in enumerate(zip(excesses, kappas, strict=True), start=2):
        excess = inside(f"excesses (E_{step})", excess, -_FINITE, _FINITE, "finite")
        carried = factor * bounds[-1]
        rounding = (ROUND_UP - 1.0) * (np.abs(excess) + np.abs(carried))
        bounds.append(np.asarray(excess + carried + rounding))
    return np.stack(np.broadcast_arrays(*bounds))
