"""The charts of a certificate: from its episodes and statements to numbers that a page can draw."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tightrope.certificates import Certificate, Evidence, Statement
from tightrope.certificates.evidence import every
from tightrope.certificates.statements.band import half_widths
from tightrope.certificates.text import percent, rounded, rows_of
from tightrope.reports.charts import Axis, Chart, Series, Table, number, plain, spread

__all__ = ["Figures", "Group"]

_POINTS = 40_000  # of all episodes together that the page holds, so that it stays small
_LEAST = 40  # points of one episode
_DOTS = 1000  # episodes drawn as dots
_BINS = 40  # of time, and of errors


class Group(NamedTuple):
    """Recorded episodes of one use: the number of the first, and all with their predictions."""

    first: int
    seen: Evidence


@dataclass(frozen=True)
class Figures:
    """The charts of one certificate.

    Most are about its test episodes, or without any about those that its statements rest on.

    Attributes:
        certificate: what is drawn.
        groups: its episodes by use: pilot, fit, calibration, test.
    """

    certificate: Certificate
    groups: dict[str, Group]

    @classmethod
    def of(cls, certificate: Certificate) -> "Figures":
        """With predictions of every recorded episode, each step at most once."""
        groups, first = {}, 0
        for name, count in vars(certificate.episodes).items():
            if count:
                episodes = certificate.rollouts.span(first, first + count)
                everywhere = name == "test"  # the monitor's statement is about every step
                seen = certificate.evidence(episodes, everywhere=everywhere)
                groups[name] = Group(first, seen)
            first += count
        return cls(certificate, groups)

    @property
    def tested(self) -> bool:
        """Whether there are test episodes."""
        return "test" in self.groups

    @property
    def first(self) -> int:
        """Number of the first episode that is looked at."""
        return self._shown.first

    @property
    def seen(self) -> Evidence:
        """The episodes that are looked at."""
        return self._shown.seen

    @property
    def name(self) -> str:
        """What they are called."""
        if self.tested:
            return "test episodes"
        fixed = self.certificate.settings.scheme.fixed
        return "calibration episodes" if fixed else "calibration episodes, fitted to as well"

    @cached_property
    def rms(self) -> NDArray[np.float64]:
        """(episodes,) RMS error of every recorded episode."""
        return np.concatenate([group.seen.rms for group in self.groups.values()])

    @cached_property
    def choice(self) -> NDArray[np.int64]:
        """Episodes that a reader can choose: all, or evenly by their error if there are many."""
        return spread(self.seen.rms, _POINTS // _LEAST)

    @property
    def worst(self) -> int:
        """Place in `choice` of the episode with the largest error."""
        return int(np.argmax(self.seen.rms[self.choice]))

    @property
    def band(self) -> Statement | None:
        """The statement on whole curves, if there is one."""
        return next((s for s in self.certificate.statements if s.kind == "band"), None)

    def half_width(self, step: NDArray[np.int64]) -> NDArray[np.float64]:
        """Of the area around a prediction: the certified band, or the certified RMS error."""
        if self.band is None:
            return np.full(len(step), self.certificate.rms_raw)
        return self.band.limit * half_widths(step, self.band.chosen, self.seen.time_limit)

    @property
    def around(self) -> str:
        """What that area is."""
        if self.band is None:
            return "± certified RMS error (a mean, not a band)"
        return f"certified band (≥ {percent(self.band.share or 0)} of episodes lie wholly inside)"

    def charts(self) -> list[Chart]:
        """All of them, in the order of the page."""
        return [self.along(), self.over_time(), self.histogram(), self.calibration(), self.every()]

    def along(self) -> Chart:
        """Predicted against observed return along one episode; the script draws the others."""
        seen, episode = self.seen, int(self.choice[self.worst])
        rows = self._rows(episode)
        step, returns, predicted = self._curve(rows)
        around = self.half_width(step)
        reach = np.minimum(self.half_width(seen.pairs.step), self.certificate.width)
        few = rows[:: max(1, len(rows) // 20)]
        left_out = "" if len(rows) == int((seen.pairs.episode == episode).sum()) else (
            " Of neighbouring steps, the one with the largest error is drawn."
        )  # fmt: skip
        discounted = " (discounted)" if seen.gamma < 1 else ""
        return Chart(
            key="along",
            title="Predicted against observed return",
            reading=f"Return still to come, from {every(seen.thin)} of an episode: what was "
            f"observed, what was predicted, and the {self.around}. First shown is the worst "
            f"predicted of the {len(seen):,} {self.name}.{left_out}",
            says=f"In the worst predicted episode the RMS error is {number(seen.rms[episode])}; "
            f"the observed return goes from {number(returns[0])} to {number(returns[-1])}, the "
            f"predicted from {number(predicted[0])} to {number(predicted[-1])}.",
            x=Axis("elapsed step", 0.0, float(max(seen.pairs.step.max(), 1))),
            y=Axis.around(
                f"return to come{discounted}",
                *(seen.pairs.returns, seen.at_pairs - reach, seen.at_pairs + reach),
            ),
            series=(
                Series(
                    self.around,
                    "around",
                    "area",
                    step,
                    predicted + around,
                    predicted - around,
                    read=False,
                ),
                Series("observed", "observed", "line", step, returns),
                Series("predicted", "predicted", "line", step, predicted),
            ),
            table=Table(
                ("step", "observed", "predicted", "error", "half-width"),
                tuple(
                    (str(at), *map(number, (value, mean, mean - value, width)))
                    for at, value, mean, width in zip(
                        *self._curve(few), self.half_width(seen.pairs.step[few]), strict=True
                    )
                ),
            ),
        )

    def over_time(self) -> Chart:
        """Errors by elapsed step."""
        size, at = np.abs(self.seen.errors), self.seen.pairs.step
        longest = int(at.max()) + 1
        bins = np.minimum(at * _BINS // longest, _BINS - 1)
        order = np.argsort(bins, kind="stable")
        parts = [
            (int(at[rows].min()), size[rows])
            for rows in np.split(order, np.flatnonzero(np.diff(bins[order])) + 1)
        ]
        parts.append((longest - 1, parts[-1][1]))  # the last part lasts to the end
        step = np.array([start for start, _ in parts])
        rms = np.array([np.sqrt(np.mean(np.square(part))) for _, part in parts])
        nine = np.array([np.quantile(part, 0.9) for _, part in parts])
        largest = np.array([part.max() for _, part in parts])
        series = [
            Series("largest error", "largest", "steps", step, largest),
            Series("90 % of errors are below", "nine", "steps", step, nine),
            Series("RMS error", "predicted", "steps", step, rms),
        ]
        inside = ""
        if self.band is not None:
            name = "half-width of the certified band"
            series.insert(0, Series(name, "limit", "steps", step, self.half_width(step)))
            inside = " The shape of the band was fixed on the fitting set."
        peak = int(np.argmax(rms))
        return Chart(
            key="over-time",
            title="Error over time",
            reading=f"Size of the error by elapsed step, over all {self.name}.{inside}",
            says=f"The RMS error is largest around step {step[peak]}, with {number(rms[peak])}, "
            f"and the largest single error is {number(largest.max())}.",
            x=Axis("elapsed step", 0.0, float(max(longest - 1, 1))),
            y=Axis.around("size of the error", *(s.y for s in series), zero=True),
            series=tuple(series),
            table=Table(
                ("from step", *(s.name for s in series)),
                tuple((str(step[k]), *(number(s.y[k]) for s in series)) for k in range(len(step))),
            ),
        )

    def histogram(self) -> Chart:
        """Signed errors of all steps."""
        errors = self.seen.errors
        counts, edges = np.histogram(errors, bins=_BINS)
        middle, share = (edges[:-1] + edges[1:]) / 2, 100 * counts / len(errors)
        return Chart(
            key="errors",
            title="Distribution of the error",
            reading=f"Predicted minus observed return at each step of the {self.name}: left of 0 "
            "the predictor was too pessimistic, right of it too optimistic.",
            says=f"The mean error is {number(errors.mean())}; half of the errors lie between "
            f"{number(np.quantile(errors, 0.25))} and {number(np.quantile(errors, 0.75))}, all "
            f"between {number(errors.min())} and {number(errors.max())}.",
            x=Axis.around("predicted minus observed return", edges),
            y=Axis.around("% of steps", share, zero=True),
            series=(Series("% of steps", "predicted", "bars", middle, share),),
            table=Table(
                ("error from", "to", "% of steps"),
                tuple(
                    tuple(map(number, each))
                    for each in zip(edges[:-1], edges[1:], share, strict=True)
                ),
            ),
        )

    def calibration(self) -> Chart:
        """How many episodes have at most some error, and what is certified of that."""
        series, rows = [], []
        for name, (_, seen) in self.groups.items():
            if name not in ("calibration", "test"):
                continue
            ordered = np.sort(seen.rms)
            kept = spread(ordered, 400)
            share = 100.0 * (kept + 1) / len(ordered)
            series.append(Series(f"{name} episodes", name, "steps", ordered[kept], share))
            for level in (0.1, 0.25, 0.5, 0.75, 0.9, 0.95, 1.0):
                value = float(np.quantile(ordered, level, method="inverted_cdf"))
                rows.append((f"{name} episodes", f"{level:.0%}", number(value)))
        c = self.certificate
        levels = [c.statements[row.index] for row in rows_of(c) if row.shown]
        levels = [s for s in levels if s.kind == "tolerance"]
        reading = "Share of episodes whose RMS error is at most the value below. "
        if levels:
            shares = np.array([100 * (s.share or 0) for s in levels])
            limits = np.array([s.limit for s in levels])
            series.append(Series("certified: at least", "limit", "targets", limits, shares))
            rows += [
                ("certified, at least", percent(s.share or 0), rounded(s.limit)) for s in levels
            ]
            reading += "Each mark is certified, from the calibration episodes alone" + (
                "; it held where the line of the test episodes passes above it."
                if self.tested
                else "."
            )
        else:
            reading += "This scheme certifies a mean over episodes and nothing of single ones."
        rms = self.seen.rms
        return Chart(
            key="calibration",
            title="Error of every episode",
            reading=reading,
            says=f"Of the {self.name}, half have an RMS error of at most "
            f"{number(np.quantile(rms, 0.5))}, 90 % of at most {number(np.quantile(rms, 0.9))}, "
            f"and all of at most {number(rms.max())}.",
            x=Axis.around("RMS error of an episode", *(s.x for s in series), zero=True),
            y=Axis("% of episodes", 0.0, 103.0),
            series=tuple(series),
            table=Table(("group", "share of episodes", "RMS error at most"), tuple(rows)),
        )

    def every(self) -> Chart:
        """The return of every episode."""
        c, recorded = self.certificate, self.certificate.rollouts
        total, discounted = recorded.returns(1.0), recorded.returns(c.settings.gamma)
        ended = np.where(recorded.terminated, "terminated", "time limit")
        most = max(1, _DOTS // len(self.groups))
        series, rows = [], []
        for name, (first, seen) in self.groups.items():
            index = first + spread(total[first : first + len(seen)], most)
            more: dict[str, Sequence[Any]] = {
                "seed": plain(recorded.seeds[index]),
                "discounted return": plain(discounted[index]),
                "RMS error": plain(self.rms[index]),
                "steps": plain(recorded.lengths[index]),
                "ended by": [str(each) for each in ended[index]],
            }
            if recorded.success is not None:
                more["success"] = ["yes" if each else "no" for each in recorded.success[index]]
            series.append(Series(name, name, "dots", index, total[index], more=more))
            rows += [
                (
                    *(str(i), name),
                    *map(number, (total[i], discounted[i], self.rms[i])),
                    *(str(recorded.lengths[i]), str(ended[i])),
                )
                for i in index
            ]
        for s in c.statements:
            if s.target == "undiscounted-return" and s.share is not None:
                name = f"certified: at least {percent(s.share)} of episodes above"
                limit = np.array([s.limit])
                series.insert(0, Series(name, "limit", "rule", limit, limit, read=False))
        fewer = "" if len(total) <= _DOTS else f" Of {len(total):,}, {len(rows):,} are drawn."
        curves = "test" if self.tested else "calibration"
        return Chart(
            key="every",
            title="Return of every episode",
            reading="Sum of rewards of each recorded episode, by what it was used for. Choosing a "
            f"{curves} episode shows it above.{fewer}",
            says=f"Over {len(total):,} episodes the undiscounted return is {number(total.mean())} "
            f"in the mean, and between {number(total.min())} and {number(total.max())}.",
            x=Axis.around("recorded episode", np.arange(len(total))),
            y=Axis.around("undiscounted return", total, *(s.y for s in series)),
            series=tuple(series),
            table=Table(
                ("episode", "used for", "return", "discounted", "RMS error", "steps", "ended by"),
                tuple(rows),
            ),
            nearest="point",
        )

    def data(self) -> dict[str, Any]:
        """The curves of every episode that can be chosen and the area around, for the script."""
        band = self.band
        return {
            "episodes": [
                {
                    "episode": int(self.first + episode),
                    "seed": int(self.seen.episodes.seeds[episode]),
                    "rms": float(f"{self.seen.rms[episode]:.5g}"),
                    **dict(
                        zip(
                            ("step", "observed", "predicted"),
                            map(plain, self._curve(self._rows(int(episode)))),
                            strict=True,
                        )
                    ),
                }
                for episode in self.choice
            ],
            "shown": self.worst,
            "band": {
                "value": self.certificate.rms_raw if band is None else band.limit,
                "profile": [1] if band is None else plain(np.asarray(band.chosen["profile"])),
                "limit": None if band is None else self.seen.time_limit,
            },
        }

    @property
    def _shown(self) -> Group:
        return self.groups["test" if self.tested else "calibration"]

    def _curve(
        self, rows: NDArray[np.int64]
    ) -> tuple[NDArray[np.int64], NDArray[np.float64], NDArray[np.float64]]:
        """Elapsed steps, observed and predicted returns."""
        seen = self.seen
        return seen.pairs.step[rows], seen.pairs.returns[rows], seen.at_pairs[rows]

    def _rows(self, episode: int) -> NDArray[np.int64]:
        """Rows of an episode that are drawn: of neighbours, the one with the largest error."""
        first, last = np.searchsorted(self.seen.pairs.episode, [episode, episode + 1])
        most = max(_LEAST, _POINTS // len(self.choice))
        parts = np.array_split(np.arange(first, last), min(most, last - first))
        size = np.abs(self.seen.errors)
        return np.array([part[np.argmax(size[part])] for part in parts])
