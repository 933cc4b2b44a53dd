"""The charts of a certificate: from its episodes and statements to numbers that a page can draw."""

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tightrope.certificates import Certificate, Evidence
from tightrope.certificates.statements.band import half_widths
from tightrope.certificates.text import percent, rows_of
from tightrope.reports.charts import Axis, Chart, Series, number, plain, spread

__all__ = ["Figures"]

_POINTS = 40_000  # of all episodes together that the page holds, so that it stays small
_LEAST = 40  # points of one episode
_DOTS = 1000  # episodes drawn as dots
_BINS = 40  # of time, and of errors

Values = NDArray[np.float64]
Indices = NDArray[np.int64]


class Figures:
    """The charts of one certificate.

    Most are about its test episodes, or without any about those that its statements rest on.

    Attributes:
        certificate: what is drawn.
        groups: its episodes by use (pilot, fit, calibration, test): the number of the first, and
            all with their predictions.
        test: the test episodes, if there are any.
        seen: the episodes that are looked at.
        name: what they are called.
        choice: those that a reader can choose: all, or evenly by their error if there are many.
        worst: place in `choice` of the one with the largest error.
        band: the statement on whole curves, if there is one.
    """

    def __init__(self, certificate: Certificate) -> None:
        self.certificate = c = certificate
        self.groups: dict[str, tuple[int, Evidence]] = {}
        first = 0
        for name, count in vars(c.episodes).items():
            if count:  # the monitor's statement on test episodes is about every step
                episodes = c.rollouts.span(first, first + count)
                self.groups[name] = first, c.evidence(episodes, everywhere=name == "test")
            first += count
        fixed = c.settings.scheme.fixed
        self.test = self.groups["test"][1] if "test" in self.groups else None
        self.first, self.seen = self.groups["calibration" if self.test is None else "test"]
        self.name = "test episodes"
        if self.test is None:
            self.name = f"calibration episodes{'' if fixed else ', fitted to as well'}"
        self.choice = spread(self.seen.rms, _POINTS // _LEAST)
        self.worst = int(np.argmax(self.seen.rms[self.choice]))
        self.band = next((s for s in c.statements if s.kind == "band"), None)

    def half_width(self, step: Indices) -> Values:
        """Of the area around a prediction: the certified band, or the certified RMS error."""
        if self.band is None:
            return np.full(len(step), self.certificate.rms_raw)
        return self.band.limit * half_widths(step, self.band.chosen, self.seen.time_limit)

    def charts(self) -> list[Chart]:
        """All of them, in the order of the page."""
        return [self.along(), self.over_time(), self.histogram(), self.calibration(), self.every()]

    def along(self) -> Chart:
        """Predicted against observed return along one episode; the script draws the others."""
        seen, around = self.seen, "± certified RMS error (a mean, not a band)"
        if self.band is not None:
            share = percent(self.band.share or 0)
            around = f"certified band (≥ {share} of episodes lie wholly inside)"
        episode = int(self.choice[self.worst])
        step, observed, predicted = self._curve(episode)
        width = self.half_width(step)
        reach = np.minimum(self.half_width(seen.pairs.step), self.certificate.width)
        above, below = predicted + width, predicted - width
        return Chart(
            key="along",
            says=f"In the worst predicted episode the RMS error is {number(seen.rms[episode])}.",
            x=Axis("elapsed step", 0.0, float(max(seen.pairs.step.max(), 1))),
            y=Axis.around(
                f"return to come{' (discounted)' if seen.gamma < 1 else ''}",
                *(seen.pairs.returns, seen.at_pairs - reach, seen.at_pairs + reach),
            ),
            series=(
                Series(around, "around", "area", step, above, below, read=False),
                Series("observed", "observed", "line", step, observed),
                Series("predicted", "predicted", "line", step, predicted),
            ),
        )

    def over_time(self) -> Chart:
        """Errors by elapsed step."""
        size, at = np.abs(self.seen.errors), self.seen.pairs.step
        order, longest = np.argsort(at, kind="stable"), int(at.max()) + 1
        ends = np.searchsorted(at[order] * _BINS // longest, np.arange(1, _BINS))
        parts = [rows for rows in np.split(order, ends) if len(rows)]
        parts.append(parts[-1])  # the last part lasts to the end
        step = np.array([*(at[rows[0]] for rows in parts[:-1]), longest - 1])

        def of_parts(name: str, role: str, of: Callable[[Values], Any]) -> Series:
            return Series(name, role, "steps", step, np.array([of(size[rows]) for rows in parts]))

        series = [
            of_parts("largest error", "largest", np.max),
            of_parts("90 % of errors are below", "nine", lambda part: np.quantile(part, 0.9)),
            of_parts("RMS error", "predicted", lambda part: np.sqrt(np.mean(np.square(part)))),
        ]
        rms = series[-1].y
        if self.band is not None:
            name = "half-width of the certified band"
            series.insert(0, Series(name, "limit", "steps", step, self.half_width(step)))
        peak = int(np.argmax(rms))
        return Chart(
            key="over-time",
            says=f"The RMS error is largest around step {step[peak]}, with {number(rms[peak])}, "
            f"and the largest single error is {number(size.max())}.",
            x=Axis("elapsed step", 0.0, float(max(longest - 1, 1))),
            y=Axis.around("size of the error", *(s.y for s in series), zero=True),
            series=tuple(series),
        )

    def histogram(self) -> Chart:
        """Signed errors of all steps."""
        errors = self.seen.errors
        counts, edges = np.histogram(errors, bins=_BINS)
        middle, share = (edges[:-1] + edges[1:]) / 2, 100 * counts / len(errors)
        return Chart(
            key="errors",
            says=f"The mean error is {number(errors.mean())}, and all errors lie between "
            f"{number(errors.min())} and {number(errors.max())}.",
            x=Axis.around("predicted minus observed return", edges),
            y=Axis.around("% of steps", share, zero=True),
            series=(Series("% of steps", "predicted", "bars", middle, share),),
        )

    def calibration(self) -> Chart:
        """How many episodes have at most some error, and what is certified of that."""
        series = []
        for name in ("calibration", "test"):
            if name in self.groups:
                rms = np.sort(self.groups[name][1].rms)
                kept = spread(rms, 400)
                share = 100.0 * (kept + 1) / len(rms)
                series.append(Series(f"{name} episodes", name, "steps", rms[kept], share))
        stated = [row.statement for row in rows_of(self.certificate) if row.shown]
        levels = [(s.limit, 100 * (s.share or 0)) for s in stated if s.kind == "tolerance"]
        if levels:
            series.append(Series("certified: at least", "limit", "targets", *np.transpose(levels)))
        half, most = np.quantile(self.seen.rms, [0.5, 0.9])
        return Chart(
            key="calibration",
            says=f"Of the {self.name}, half have an RMS error of at most {number(half)}, 90 % of "
            f"at most {number(most)}, and all of at most {number(self.seen.rms.max())}.",
            x=Axis.around("RMS error of an episode", *(s.x for s in series), zero=True),
            y=Axis("% of episodes", 0.0, 103.0),
            series=tuple(series),
        )

    def every(self) -> Chart:
        """The return of every episode."""
        c, recorded = self.certificate, self.certificate.rollouts
        total, discounted = recorded.returns(1.0), recorded.returns(c.settings.gamma)
        ended = np.where(recorded.terminated, "terminated", "time limit")
        series = [
            Series(f"certified: at least {percent(s.share)} of episodes above", "limit", "rule",
                   np.array([s.limit]), np.array([s.limit]), read=False)
            for s in c.statements
            if s.target == "undiscounted-return" and s.share is not None
        ]  # fmt: skip
        for name, (first, seen) in self.groups.items():
            kept = spread(total[first : first + len(seen)], max(1, _DOTS // len(self.groups)))
            index = first + kept
            more = {
                "seed": plain(recorded.seeds[index]),
                "discounted return": plain(discounted[index]),
                "RMS error": plain(seen.rms[kept]),
                "steps": plain(recorded.lengths[index]),
                "ended by": ended[index].tolist(),
            }
            if recorded.success is not None:
                more["success"] = np.where(recorded.success, "yes", "no")[index].tolist()
            series.append(Series(name, name, "dots", index, total[index], more=more))
        return Chart(
            key="every",
            says=f"Over {len(total):,} episodes the undiscounted return is {number(total.mean())} "
            f"in the mean, and between {number(total.min())} and {number(total.max())}.",
            x=Axis.around("recorded episode", np.arange(len(total))),
            y=Axis.around("undiscounted return", total, *(s.y for s in series)),
            series=tuple(series),
            nearest="point",
        )

    def data(self) -> dict[str, Any]:
        """The curves of every episode that can be chosen and the area around, for the script."""
        band, seen = self.band, self.seen
        names = ("step", "observed", "predicted")
        return {
            "episodes": [
                {
                    "episode": self.first + episode,
                    "seed": int(seen.episodes.seeds[episode]),
                    "rms": float(f"{seen.rms[episode]:.5g}"),
                    **dict(zip(names, map(plain, self._curve(episode)), strict=True)),
                }
                for episode in self.choice.tolist()
            ],
            "shown": self.worst,
            "band": {
                "value": self.certificate.rms_raw if band is None else band.limit,
                "profile": [1] if band is None else plain(np.asarray(band.chosen["profile"])),
                "limit": None if band is None else seen.time_limit,
            },
        }

    def _curve(self, episode: int) -> tuple[Indices, Values, Values]:
        """Steps, observed and predicted returns; of neighbours, the one with the largest error."""
        seen = self.seen
        first, last = np.searchsorted(seen.pairs.episode, [episode, episode + 1])
        most = max(_LEAST, _POINTS // len(self.choice))
        parts = np.array_split(np.arange(first, last), min(most, last - first))
        size = np.abs(seen.errors)
        rows = np.array([part[np.argmax(size[part])] for part in parts])
        return seen.pairs.step[rows], seen.pairs.returns[rows], seen.at_pairs[rows]
