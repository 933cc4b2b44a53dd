"""Figures of a certificate on given axes, in one colour-blind palette."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from tightrope.certificates.statements.band import half_widths
from tightrope.certificates.text import percent

if TYPE_CHECKING:
    from tightrope.certificates.certificate import Certificate

__all__ = ["draw_certificate"]

_PREDICTION, _RETURN, _LIMIT = "#0072B2", "#009E73", "#999999"


def draw_certificate(certificate: "Certificate", axes: Sequence[Any]) -> None:
    """On two axes: predictions along one episode, and the RMS error of every episode.

    Of the test episodes, or where there are none of the calibration episodes.
    """
    (left, right), c = axes, certificate
    total, test = len(c.rollouts), c.episodes.test
    seen = c.evidence(c.rollouts.span(total - test, total) if test else c.calibration)
    last = seen.pairs.episode == seen.pairs.episodes - 1
    step, mean = seen.pairs.step[last], seen.at_pairs[last]
    around, name = np.full(len(step), c.rms_raw or 0.0), "certified RMS error"
    for s in c.statements:
        if s.kind == "band":
            around = s.limit * half_widths(step, s.chosen, seen.time_limit)
            name = f"band of {percent(s.share or 0)} of new episodes"
        elif s.kind == "tolerance":
            right.axvline(s.limit, color=_LIMIT, ls=":")
            words = f"at least {percent(s.share or 0)} of new episodes"
            right.text(s.limit, 50, words, rotation=90, va="center", fontsize=7)
    left.plot(step, seen.pairs.returns[last], color=_RETURN, label="return")
    left.plot(step, mean, color=_PREDICTION, lw=0.8, label="prediction")
    left.fill_between(step, mean - around, mean + around, color=_PREDICTION, alpha=0.15, label=name)
    left.set(xlabel="step of the episode", ylabel="discounted return", title="One episode")
    left.legend(frameon=False)
    share = 100.0 * np.arange(1, len(seen) + 1) / len(seen)
    right.step(np.sort(seen.rms), share, where="post", color=_PREDICTION)
    right.set(xlabel="RMS error of an episode", ylabel="% of episodes with at most this error",
              title="Every episode", ylim=(0, 101))  # fmt: skip
