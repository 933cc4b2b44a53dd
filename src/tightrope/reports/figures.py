"""The charts of a certificate: from its episodes and promises to numbers that a page can draw."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tightrope.certificates import Certificate, Statement
from tightrope.certificates.assumptions import nth
from tightrope.certificates.outcomes import returns_of
from tightrope.certificates.trial import Curves, curves, half_width
from tightrope.certificates.words import percent
from tightrope.reports.charts import Axis, Chart, Series, Table, number, plain, spread

__all__ = ["Seen"]

_POINTS = 40_000  # of all episodes together that the page holds, so that it stays small
_LEAST = 40  # points of one episode
_DOTS = 1000  # episodes drawn as dots
_BINS = 40  # of time, and of errors


@dataclass(frozen=True)
class Seen:
    """What a page looks at: test episodes, or without any those that the bounds rest on."""

    certificate: Certificate
    all_curves: Curves

    @classmethod
    def of(cls, certificate: Certificate) -> "Seen":
        """With the predictions along all episodes."""
        return cls(certificate, curves(certificate))

    @property
    def tested(self) -> bool:
        """Whether there are test episodes."""
        return self.certificate.episodes.test > 0

    @property
    def groups(self) -> dict[str, tuple[int, int]]:
        """Which recorded episodes were used for what."""
        n = self.certificate.episodes
        ends = np.cumsum([0, n.pilot, n.free, n.validation - n.free, n.test]).tolist()
        names = ("pilot", "fit only", "bound", "test")
        spans = zip(names, ends[:-1], ends[1:], strict=True)
        return {name: (first, last) for name, first, last in spans if last > first}

    @property
    def span(self) -> tuple[int, int]:
        """The recorded episodes that are looked at."""
        return self.groups["test" if self.tested else "bound"]

    @property
    def what(self) -> str:
        """Their name."""
        if self.tested:
            return "test episodes"
        fixed = self.certificate.options.division.fixed
        return "episodes of the bound" if fixed else "episodes of fit and bound"

    @cached_property
    def curves(self) -> Curves:
        """Along the episodes that are looked at."""
        return self.all_curves.span(*self.span)

    @cached_property
    def shown(self) -> NDArray[np.int64]:
        """Episodes that can be chosen: all, or evenly by their error where there are too many."""
        return spread(self.curves.rms, _POINTS // _LEAST)

    @property
    def worst(self) -> int:
        """Place among `shown` of the episode with the largest error."""
        return int(np.argmax(self.curves.rms[self.shown]))

    @property
    def band(self) -> Statement | None:
        """The statement on whole curves, if there is one."""
        return next((s for s in self.certificate.statements if s.kind == "band"), None)

    @property
    def tolerances(self) -> list[Statement]:
        """The statements on the error of an episode."""
        return [s for s in self.certificate.statements if s.kind == "tolerance"]

    def half_width(self, step: NDArray[np.int64]) -> NDArray[np.float64]:
        """Of the area around a prediction: the certified band, or the certified RMS error."""
        if self.band is None:
            return np.full(len(step), self.certificate.rms_raw)
        return half_width(self.certificate, self.band, step)

    @property
    def around(self) -> str:
        """What that area is."""
        if self.band is None:
            return "± certified RMS error (a mean, not a band)"
        return f"certified band (≥ {percent(self.band.share or 0)} of episodes lie wholly inside)"

    def rows(self, episode: int) -> NDArray[np.int64]:
        """Rows of an episode that are drawn: of neighbours, the one with the largest error."""
        first, last = np.searchsorted(self.curves.episode, [episode, episode + 1])
        most = max(_LEAST, _POINTS // len(self.shown))
        parts = np.array_split(np.arange(first, last), min(most, last - first))
        size = np.abs(self.curves.errors)
        return np.array([part[np.argmax(size[part])] for part in parts])

    def seed(self, episode: int) -> int:
        """Recorded seed of an episode that is looked at; -1 where there is none."""
        return int(self.certificate.rollouts.seeds[self.span[0] + episode])

    def charts(self) -> list[Chart]:
        """All of them, in the order of the page."""
        return [self.along(), self.over_time(), self.histogram(), self.calibration(), self.every()]

    def along(self) -> Chart:
        """Predicted against observed return along one episode; the script draws the others."""
        c, episode = self.curves, int(self.shown[self.worst])
        rows = self.rows(episode)
        step, returns, predicted = c.step[rows], c.returns[rows], c.predicted[rows]
        around = self.half_width(step)
        reach = np.minimum(self.half_width(c.step), self.certificate.width)
        few = rows[:: max(1, len(rows) // 20)]
        steps = f"every {nth(self.certificate.thin)}step"
        left_out = "" if len(rows) == int((c.episode == episode).sum()) else (
            " Of neighbouring steps, the one with the largest error is drawn."
        )  # fmt: skip
        return Chart(
            key="along",
            title="Predicted against observed return",
            reading=f"Return still to come, from {steps} of an episode: what was observed, what "
            f"the predictor said, and the {self.around}. First shown is the worst predicted of the "
            f"{c.episodes:,} {self.what}.{left_out}",
            says=f"In the worst predicted episode the RMS error is {number(c.rms[episode])}; the "
            f"observed return goes from {number(returns[0])} to {number(returns[-1])}, the "
            f"predicted from {number(predicted[0])} to {number(predicted[-1])}.",
            x=Axis("elapsed step", 0.0, float(max(c.step.max(), 1))),
            y=Axis.around(
                "return to come (discounted)" if self.certificate.options.gamma < 1
                else "return to come",
                c.returns, c.predicted - reach, c.predicted + reach,
            ),
            series=(
                Series(self.around, "around", "area", step, predicted + around, predicted - around,
                       read=False),
                Series("observed", "observed", "line", step, returns),
                Series("predicted", "predicted", "line", step, predicted),
            ),
            table=Table(
                ("step", "observed", "predicted", "error", "half-width"),
                tuple(
                    (str(c.step[row]), number(c.returns[row]), number(c.predicted[row]),
                     number(c.errors[row]), number(width))
                    for row, width in zip(few, self.half_width(c.step[few]), strict=True)
                ),
            ),
        )  # fmt: skip

    def over_time(self) -> Chart:
        """Errors by elapsed step."""
        c = self.curves
        longest = int(c.step.max()) + 1
        bins = np.minimum(c.step * _BINS // longest, _BINS - 1)
        order = np.argsort(bins, kind="stable")
        found = [
            (int(c.step[rows].min()), np.abs(c.errors[rows]))
            for rows in np.split(order, np.flatnonzero(np.diff(bins[order])) + 1)
        ]
        found.append((longest - 1, found[-1][1]))  # the last part lasts to the end
        step = np.array([start for start, _ in found])
        rms = np.array([np.sqrt(np.mean(np.square(size))) for _, size in found])
        nine = np.array([np.quantile(size, 0.9) for _, size in found])
        largest = np.array([size.max() for _, size in found])
        series = [
            Series("largest error", "largest", "steps", step, largest),
            Series("90 % of errors are below", "nine", "steps", step, nine),
            Series("RMS error", "predicted", "steps", step, rms),
        ]
        inside = ""
        if self.band is not None:
            series.insert(0, Series("half-width of the certified band", "limit", "steps", step,
                                    self.half_width(step)))  # fmt: skip
            inside = " The band was fixed before these episodes were seen."
        peak = int(np.argmax(rms))
        return Chart(
            key="over-time",
            title="Error over time",
            reading=f"Size of the error by elapsed step, over all {self.what}.{inside}",
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
        errors = self.curves.errors
        counts, edges = np.histogram(errors, bins=_BINS)
        middle, share = (edges[:-1] + edges[1:]) / 2, 100 * counts / len(errors)
        bias = float(errors.mean())
        return Chart(
            key="errors",
            title="Distribution of the error",
            reading=f"Predicted minus observed return at each step of the {self.what}: left of 0 "
            "the predictor was too pessimistic, right of it too optimistic.",
            says=f"The mean error is {number(bias)}; half of the errors lie between "
            f"{number(np.quantile(errors, 0.25))} and {number(np.quantile(errors, 0.75))}, all "
            f"between {number(errors.min())} and {number(errors.max())}.",
            x=Axis.around("predicted minus observed return", edges),
            y=Axis.around("% of steps", share, zero=True),
            series=(Series("% of steps", "predicted", "bars", middle, share),),
            table=Table(
                ("error from", "to", "% of steps"),
                tuple(
                    (number(edges[k]), number(edges[k + 1]), number(share[k])) for k in range(_BINS)
                ),
            ),
        )

    def calibration(self) -> Chart:
        """How many episodes have at most some error, and what was promised of that."""
        rms = self.all_curves.rms
        names = {"bound": "episodes of the bound", "test": "test episodes"}
        series, rows = [], []
        for group, (first, last) in self.groups.items():
            if group not in names:
                continue
            ordered = np.sort(rms[first:last])
            kept = spread(ordered, 400)
            share = 100.0 * (kept + 1) / len(ordered)
            series.append(Series(names[group], group, "steps", ordered[kept], share))
            for level in (0.1, 0.25, 0.5, 0.75, 0.9, 0.95, 1.0):
                value = float(np.quantile(ordered, level, method="inverted_cdf"))
                rows.append((names[group], f"{level:.0%}", number(value)))
        promised = np.array([s.value_raw for s in self.tolerances])
        shares = np.array([100 * (s.share or 0) for s in self.tolerances])
        if len(promised):
            series.append(Series("promised: at least", "limit", "targets", promised, shares))
            rows += [
                ("promised, at least", percent(s.share or 0), number(s.value_raw))
                for s in self.tolerances
            ]
        reading = "Share of episodes whose RMS error is at most the value below. "
        if len(promised) and self.tested:
            reading += (
                "Each mark is a promise, made from the episodes of the bound alone; it is kept "
                "where the line of the test episodes passes above it."
            )
        elif len(promised):
            reading += "Each mark is a promise, made from these episodes."
        else:
            reading += "This scheme promises a mean over episodes and nothing for single ones."
        test = rms[slice(*self.span)]
        return Chart(
            key="calibration",
            title="Error of every episode, and calibration",
            reading=reading,
            says=f"Of the {self.what}, half have an RMS error of at most "
            f"{number(np.quantile(test, 0.5))}, 90 % of at most {number(np.quantile(test, 0.9))}, "
            f"and all of at most {number(test.max())}.",
            x=Axis.around("RMS error of an episode", *(s.x for s in series), zero=True),
            y=Axis("% of episodes", 0.0, 103.0),
            series=tuple(series),
            table=Table(("group", "share of episodes", "RMS error at most"), tuple(rows)),
        )

    def every(self) -> Chart:
        """The return of every episode."""
        c = self.certificate
        returns = returns_of(c.rollouts, c.options.gamma)
        total, discounted = returns["undiscounted return"], returns["discounted return"]
        rms, lengths = self.all_curves.rms, c.rollouts.lengths
        ended = np.where(c.rollouts.terminated, "terminated", "time limit")
        most = max(1, _DOTS // len(self.groups))
        series, rows = [], []
        for group, (first, last) in self.groups.items():
            index = first + spread(total[first:last], most)
            more: dict[str, Sequence[Any]] = {
                "seed": plain(c.rollouts.seeds[index]),
                "discounted return": plain(discounted[index]),
                "RMS error": plain(rms[index]),
                "steps": plain(lengths[index]),
                "ended by": [str(e) for e in ended[index]],
            }
            if c.rollouts.success is not None:
                more["success"] = ["yes" if s else "no" for s in c.rollouts.success[index]]
            series.append(Series(group, group.replace(" ", "-"), "dots", index, total[index],
                                 more=more))  # fmt: skip
            rows += [
                (str(i), group, number(total[i]), number(discounted[i]), number(rms[i]),
                 str(lengths[i]), str(ended[i]))
                for i in index
            ]  # fmt: skip
        promised = [
            s for s in c.statements
            if s.kind == "return" and s.share is not None and s.quantity.startswith("undiscounted")
        ]  # fmt: skip
        for s in promised:
            name = f"promised: at least {percent(s.share or 0)} of episodes above"
            value = np.array([s.value_raw])
            series.insert(0, Series(name, "limit", "rule", value, value, read=False))
        fewer = "" if len(total) <= _DOTS else f" Of {len(total):,}, {len(rows):,} are drawn."
        return Chart(
            key="every",
            title="Return of every episode",
            reading="Sum of rewards of each recorded episode, by what it was used for. Choosing a "
            f"test episode shows it above.{fewer}",
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

    def episodes(self) -> list[dict[str, Any]]:
        """The curves of every episode that can be chosen, for the script."""
        c, rms = self.curves, self.curves.rms
        found = []
        for episode in self.shown:
            rows = self.rows(int(episode))
            found.append(
                {
                    "episode": int(self.span[0] + episode),
                    "seed": self.seed(int(episode)),
                    "rms": float(f"{rms[episode]:.5g}"),
                    "step": plain(c.step[rows]),
                    "observed": plain(c.returns[rows]),
                    "predicted": plain(c.predicted[rows]),
                }
            )
        return found

    def band_data(self) -> dict[str, Any]:
        """The area around predictions, for the script."""
        c = self.certificate
        if self.band is None:
            return {"value": c.rms_raw, "profile": [1], "limit": None}
        return {
            "value": self.band.value_raw,
            "profile": plain(np.asarray(c.beforehand.profile)),
            "limit": c.time_limit,
        }
