"""Figures of a certificate on given axes, in one colour-blind palette."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from tightrope.certificates.statements.band import half_widths
from tightrope.certificates.text import percent

if TYPE_CHECKING:
    from tightrope.certificates.certificate import Certificate

__all__ = ["PALETTE", "draw_certificate"]

PALETTE = {"bound": "#0072B2", "test": "#D55E00", "constant": "#999999", "return": "#009E73"}


def draw_certificate(certificate: "Certificate", axes: Sequence[Any]) -> None:
    """On two axes: predictions along one episode, and the RMS error of every episode."""
    (left, right), c = axes, certificate
    groups = {"calibration": c.evidence(c.calibration, everywhere=False)}
    if c.episodes.test:
        first = c.episodes.pilot + c.episodes.validation
        tested = c.rollouts.span(first, c.episodes.total)
        groups["test"] = c.evidence(tested, everywhere=False)
    seen = list(groups.values())[-1]  # test episodes where there are any
    last = seen.pairs.episode == seen.pairs.episodes - 1
    step, mean = seen.pairs.step[last], seen.at_pairs[last]
    around, name = np.full(len(step), c.rms_raw or 0.0), "certified RMS error"
    for s in c.statements:
        if s.kind == "band":
            around = s.limit * half_widths(step, s.chosen, seen.time_limit)
            name = f"band of {percent(s.share or 0)} of new episodes"
    left.plot(step, seen.pairs.returns[last], color=PALETTE["return"], label="return")
    left.plot(step, mean, color=PALETTE["bound"], lw=0.8, label="prediction")
    filled = {"color": PALETTE["bound"], "alpha": 0.15, "lw": 0}
    left.fill_between(step, mean - around, mean + around, label=name, **filled)
    left.set(xlabel="step of the episode", ylabel="discounted return", title="One episode")
    left.legend(frameon=False)
    for name, each in groups.items():
        share = 100.0 * np.arange(1, len(each) + 1) / len(each)
        color = PALETTE["bound" if name == "calibration" else name]
        right.step(np.sort(each.rms), share, where="post", color=color, label=f"{name} episodes")
    for s in c.statements:
        if s.kind == "tolerance":
            words = f"at least {percent(s.share or 0)} of new episodes"
            right.axvline(s.value_raw, color=PALETTE["constant"], ls=":")
            right.text(s.value_raw, 50, words, rotation=90, va="center", fontsize=7)
    right.set(xlabel="RMS error of an episode", ylabel="% of episodes with at most this error",
              title="Every episode", ylim=(0, 101))  # fmt: skip
    right.legend(frameon=False, loc="lower right")
