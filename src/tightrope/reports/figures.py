"""Figures of a certificate: functions from numbers to an axis, in one colour-blind palette."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["PALETTE", "build_up", "predictions"]

PALETTE = {"bound": "#0072B2", "test": "#D55E00", "constant": "#999999", "return": "#009E73"}


def build_up(ax: Any, bounds: Sequence[float], test_error: float | None, constant: float) -> Any:
    """The bound after each step, beside the errors it is compared with."""
    steps = np.arange(1, len(bounds) + 1)
    ax.plot(steps, bounds, "o-", color=PALETTE["bound"], label="bound")
    ax.axhline(constant, color=PALETTE["constant"], ls=":", label="constant prediction's error")
    if test_error is not None:
        ax.axhline(test_error, color=PALETTE["test"], ls="--", label="test error")
    ax.set(xlabel="portion", ylabel="normalised squared error", xticks=steps, title="Bound")
    ax.set_ylim(bottom=0)
    ax.legend(frameon=False)
    return ax


def predictions(
    ax: Any,
    step: NDArray[np.int64],
    returns: NDArray[np.float64],
    mean: NDArray[np.float64],
    rms: float,
) -> Any:
    """Returns and predictions along one episode, with the certified RMS error around them."""
    ax.plot(step, returns, color=PALETTE["return"], label="return")
    ax.plot(step, mean, color=PALETTE["bound"], lw=0.8, label="prediction")
    ax.fill_between(step, mean - rms, mean + rms, color=PALETTE["bound"], alpha=0.15, lw=0,
                    label="certified RMS error")  # fmt: skip
    ax.set(xlabel="step of the episode", ylabel="discounted return", title="One episode")
    ax.legend(frameon=False)
    return ax
