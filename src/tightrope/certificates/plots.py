"""Figures of a certificate: functions from numbers to an axis, in one colour-blind palette."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from tightrope.certificates.statements.band import half_widths
from tightrope.certificates.text import percent

if TYPE_CHECKING:
    from tightrope.certificates.certificate import Certificate

__all__ = ["PALETTE", "draw_certificate", "predictions", "scores"]

PALETTE = {"bound": "#0072B2", "test": "#D55E00", "constant": "#999999", "return": "#009E73"}


def predictions(
    ax: Any,
    step: NDArray[np.int64],
    returns: NDArray[np.float64],
    mean: NDArray[np.float64],
    around: float | NDArray[np.float64],
    name: str = "certified RMS error",
) -> Any:
    """Returns and predictions along one episode, with what is certified around the latter."""
    ax.plot(step, returns, color=PALETTE["return"], label="return")
    ax.plot(step, mean, color=PALETTE["bound"], lw=0.8, label="prediction")
    ax.fill_between(step, mean - around, mean + around, color=PALETTE["bound"], alpha=0.15, lw=0,
                    label=name)  # fmt: skip
    ax.set(xlabel="step of the episode", ylabel="discounted return", title="One episode")
    ax.legend(frameon=False)
    return ax


def scores(
    ax: Any,
    groups: Mapping[str, NDArray[np.float64]],
    limits: Sequence[tuple[float, str]],
) -> Any:
    """RMS errors of episodes in order of size, one line per group, with the certified limits."""
    names = {"bound": "calibration episodes", "test": "test episodes"}
    for name, values in groups.items():
        share = 100.0 * np.arange(1, len(values) + 1) / len(values)
        ax.step(np.sort(values), share, where="post", color=PALETTE[name], label=names[name])
    for limit, words in limits:
        ax.axvline(limit, color=PALETTE["constant"], ls=":")
        ax.text(limit, 50, f"at least {words}", rotation=90, va="center", fontsize=7)
    ax.set(xlabel="RMS error of an episode", ylabel="% of episodes with at most this error",
           title="Every episode", ylim=(0, 101))  # fmt: skip
    ax.legend(frameon=False, loc="lower right")
    return ax


def draw_certificate(certificate: "Certificate", axes: Sequence[Any]) -> None:
    """On two axes: predictions along one episode, and the RMS error of every episode."""
    left, right = axes
    c = certificate
    first = c.episodes.pilot + c.episodes.validation
    groups = {"bound": c.evidence(c.calibration, everywhere=False)}
    if c.episodes.test:
        episodes = c.rollouts.span(first, c.episodes.total)
        groups["test"] = c.evidence(episodes, everywhere=False)
    shown = list(groups.values())[-1]  # test episodes where there are any
    last = shown.pairs.episode == shown.pairs.episodes - 1
    step, returns = shown.pairs.step[last], shown.pairs.returns[last]
    band = next((s for s in c.statements if s.kind == "band"), None)
    if band is None:
        predictions(left, step, returns, shown.at_pairs[last], c.rms_raw or 0.0)
    else:
        around = band.limit * half_widths(step, band.chosen, shown.time_limit)
        name = f"band of {percent(band.share or 0)} of new episodes"
        predictions(left, step, returns, shown.at_pairs[last], around, name)
    levels = [s for s in c.statements if s.kind == "tolerance"]
    limits = [(s.value_raw, f"{percent(s.share or 0)} of new episodes") for s in levels]
    scores(right, {name: each.rms for name, each in groups.items()}, limits)
