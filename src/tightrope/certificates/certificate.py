"""The certificate: a frozen record of every statement and of what it was made from."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from tightrope.certificates.diagnostics import Checks
from tightrope.certificates.evidence import Evidence
from tightrope.certificates.ledger import LedgerEntry
from tightrope.certificates.options import Options, Unit
from tightrope.certificates.settings import Settings
from tightrope.certificates.statements.base import Count, Number, Probability, Statement
from tightrope.certificates.statements.pac_bayes import Portion
from tightrope.errors import InputError
from tightrope.imports import needed
from tightrope.posteriors import Gaussians, RangeSource, ReturnPredictor
from tightrope.records import Strict
from tightrope.rollouts import Episodes

if TYPE_CHECKING:
    from tightrope.certificates.assumptions import Status

__all__ = ["Certificate", "Counts", "Record", "ReturnRange"]

# What a certificate with a predictor states and that of a table of results does not.
PREDICTED = (
    *("bound", "effective_n", "return_range", "clipped_share", "steps", "truncated_episodes"),
    *("train_error", "constant_error", "per_step_error"),
)


@dataclass(frozen=True)
class ReturnRange(Strict):
    """The returns that mean risks are clipped to, and what fixed them.

    Attributes:
        low: smallest return.
        high: largest return.
        source: the fitting set, the pilot, the user or the training record.
    """

    low: Number
    high: Number
    source: RangeSource

    def __post_init__(self) -> None:
        if not self.low < self.high:
            raise InputError(f"expected a range low < high, found [{self.low:g}, {self.high:g}]")


@dataclass(frozen=True)
class FitRecord(Strict):
    """How one fit went.

    Attributes:
        kind: ``regression`` on the fitting set, or a ``posterior``.
        rows: that it used.
        updates: at which the curves were read.
        loss: mean loss there; of a regression, on the folds left out.
        kl: divergence from the prior there; empty for a regression.
        objective: what was minimised; empty for a regression.
    """

    kind: Literal["regression", "posterior"]
    rows: int
    updates: tuple[int, ...]
    loss: tuple[float, ...]
    kl: tuple[float, ...]
    objective: tuple[float, ...]


@dataclass(frozen=True)
class Counts(Strict):
    """Episodes by use.

    Attributes:
        pilot: in no bound, before all others.
        fit: the predictor was fitted to them, and no bound rests on them.
        calibration: the statements on the predictor rest on them.
        test: enter no bound.
    """

    pilot: Count
    fit: Count
    calibration: Count
    test: Count

    @property
    def validation(self) -> int:
        """To fit and to calibrate."""
        return self.fit + self.calibration

    @property
    def total(self) -> int:
        """All of them."""
        return self.pilot + self.validation + self.test


@dataclass(frozen=True, repr=False)
class Record(Strict):
    """What the document `certificate.json` holds.

    Errors and bounds are on the normalised scale, where 1 is the width of the return range; names
    ending in ``_raw`` are in return units, squared for mean squared errors. For a table of results
    whatever is about predicted returns is None.

    Attributes:
        options: what was asked.
        settings: what was done.
        bound: the mean risk in the unit of the settings, rounded outward.
        confidence: 1 - delta - delta', of a whole budget of the ledger.
        joint_confidence: that all statements that need only independent episodes hold.
        n: independent units behind `bound`.
        effective_n: steps that carry as much information on the loss as the last portion's do.
        thin: every `thin`-th step counts.
        time_limit: of the predictor's clock; None without one.
        checks: whether steps look independent, and episodes alike.
        return_range: that mean risks are clipped to.
        clipped_share: of the calibration returns, outside the range.
        train_error: of the predictor on the calibration episodes.
        test_error: on the test episodes; None without any.
        constant_error: of predicting one constant, on test (or calibration) episodes.
        per_step_error: of predicting the mean return of each elapsed step, there.
        portions: how `bound` builds up.
        other_portions: the same in the other unit; empty where it is not bounded.
        statements: everything that is certified.
        headline: index of the statement on the predictor to read first.
        ledger: which failure probability went where.
        fits: how the fits went.
        episodes: how many, for what.
        steps: calibration rows after thinning.
        truncated_episodes: to fit and to calibrate, that a time limit cut.
        assumptions: in sentences.
        subject: metadata: policy, environment, seeds and versions behind the episodes.
        digests: SHA-256 of the files beside the document.
    """

    options: Options
    settings: Settings
    bound: Probability | None
    confidence: Probability
    joint_confidence: Probability
    n: Count
    effective_n: float | None
    thin: Count
    time_limit: int | None
    checks: Checks
    return_range: ReturnRange | None
    clipped_share: Probability | None
    train_error: Probability | None
    test_error: Probability | None
    constant_error: Probability | None
    per_step_error: Probability | None
    portions: tuple[Portion, ...]
    other_portions: tuple[Portion, ...]
    statements: tuple[Statement, ...]
    headline: Count
    ledger: tuple[LedgerEntry, ...]
    fits: tuple[FitRecord, ...]
    episodes: Counts
    steps: Count | None
    truncated_episodes: Count | None
    assumptions: tuple[str, ...]
    subject: dict[str, Any]
    digests: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not self.headline < len(self.statements):
            found = f"{len(self.statements)} statements, found {self.headline}"
            raise InputError(f"expected a headline among {found}")
        stated = [name for name in (*PREDICTED, "test_error") if getattr(self, name) is not None]
        if stated and not {*PREDICTED} <= {*stated}:
            raise InputError(f"expected all numbers on predictions, or none, found only {stated}")

    @property
    def scheme(self) -> str:
        """Name of the scheme."""
        return self.settings.scheme.name

    @property
    def pac_bayes(self) -> bool:
        """Whether `bound` is a PAC-Bayes bound; otherwise the calibration set is held out."""
        return not self.settings.scheme.fixed

    @property
    def unit(self) -> Unit:
        """What counts as independent in `bound`."""
        return self.settings.unit

    @property
    def preset(self) -> str:
        """Name of the preset."""
        return self.settings.preset.name

    @property
    def delta(self) -> float:
        """Failure probability over the data."""
        return self.settings.delta

    @property
    def delta_prime(self) -> float:
        """Failure probability of the Monte Carlo draws."""
        return self.settings.delta_prime

    @property
    def void(self) -> bool:
        """Whether the bound contradicts itself: then it is 1 and nothing is certified."""
        return any(portion.bound < 0 for portion in self.portions)

    @property
    def vacuous(self) -> bool:
        """Whether the bound says nothing: it is 1, the largest error possible."""
        return self.bound is not None and self.bound >= 1.0

    @property
    def failed_fit(self) -> bool:
        """Whether the predictor does no better than a mean return, constant or per step."""
        error = self.train_error if self.test_error is None else self.test_error
        means = self.constant_error, self.per_step_error
        return error is not None and error >= min(each for each in means if each is not None)

    @property
    def limits(self) -> tuple[float, float]:
        """The return range; from 0 to 1 for a table of results, whose returns are as they are."""
        found = self.return_range
        return (0.0, 1.0) if found is None else (found.low, found.high)

    @property
    def width(self) -> float:
        """Return units per 1 of the normalised scale."""
        low, high = self.limits
        return high - low

    @property
    def bound_raw(self) -> float | None:
        """The bound in squared return units."""
        return None if self.bound is None else self.bound * self.width**2

    @property
    def rms_raw(self) -> float | None:
        """The bound as a root-mean-square error in return units."""
        return None if self.bound is None else float(self.bound**0.5 * self.width)

    @property
    def tightness(self) -> float | None:
        """Bound minus test error, or None without test episodes."""
        if self.bound is None or self.test_error is None:
            return None
        return self.bound - self.test_error

    @property
    def statuses(self) -> "list[Status]":
        """What to know before relying on it, the worst first."""
        from tightrope.certificates.assumptions import statuses_of

        return statuses_of(self)

    def statement(self, name: str, share: float | None = None) -> Statement:
        """The statement of a name, such as ``band``; of several levels the one for that share.

        Raises:
            InputError: there is none.
        """
        for each in self.statements:
            if each.name == name and (share is None or each.share == share):
                return each
        known = ", ".join(dict.fromkeys(each.name for each in self.statements))
        raise InputError(f"expected a statement among {known}, found {name!r}")


# Properties that the document states beside the fields.
DERIVED = (
    *("scheme", "pac_bayes", "unit", "preset", "delta", "delta_prime"),
    *("bound_raw", "rms_raw", "tightness", "vacuous", "void", "failed_fit"),
)


@dataclass(frozen=True, repr=False)
class Certificate(Record):
    """A risk certificate: the record, the predictor it is about, and the episodes it rests on.

    With probability `joint_confidence` over the episodes every statement holds that needs only
    independent episodes; `headline` is the one on the predictor to read first.

    Attributes:
        fitted: the predictor; None for a table of results.
        posteriors: the first prior and the posteriors of a PAC-Bayes scheme.
        rollouts: the episodes.
    """

    fitted: ReturnPredictor | None = field(compare=False, kw_only=True)
    posteriors: tuple[Gaussians, ...] = field(compare=False, kw_only=True)
    rollouts: Episodes = field(compare=False, kw_only=True)

    @property
    def predictor(self) -> ReturnPredictor:
        """Observations, and elapsed steps if it has a clock, to returns.

        Raises:
            InputError: the certificate is of a table of results.
        """
        if self.fitted is None:
            raise InputError("expected a certificate with a predictor, found one of a table")
        return self.fitted

    @property
    def calibration(self) -> Episodes:
        """The episodes that the statements on the predictor rest on."""
        first = self.episodes.pilot + self.episodes.fit
        return self.rollouts.span(first, first + self.episodes.calibration)

    @property
    def unseen(self) -> Episodes | None:
        """The episodes that the predictor was not fitted to; None if there are none."""
        if self.fitted is None:
            return None
        seen = self.episodes.pilot
        seen += self.episodes.fit if self.settings.scheme.fixed else self.episodes.validation
        total = len(self.rollouts)
        return self.rollouts.span(seen, total) if seen < total else None

    def evidence(self, episodes: Episodes, *, everywhere: bool = True) -> Evidence:
        """Any episodes with the deterministic predictions along them, or at their pairs alone.

        Without predictions for a table of results.
        """
        gamma, thin = self.settings.gamma, self.thin
        return Evidence.of(self.fitted, episodes, gamma=gamma, thin=thin, everywhere=everywhere)

    def plot(self, axes: Sequence[Any] | None = None) -> Any:
        """Draw predictions along one episode, and the RMS error of every episode.

        Args:
            axes: two of matplotlib's axes to draw on; None: those of a new figure.

        Returns:
            The axes.
        """
        from tightrope.certificates.plots import draw_certificate

        if axes is None:
            from matplotlib import pyplot

            axes = pyplot.subplots(1, 2, figsize=(10, 3.6), layout="constrained")[1]
        draw_certificate(self, axes)
        return axes

    def save(self, folder: str | Path) -> "Certificate":
        """Write certificate.json, predictor.safetensors and rollouts.safetensors to a new folder.

        These are the files that `tightrope verify` recomputes; `tightrope report` adds the page.

        Returns:
            The certificate with the digests of its files.

        Raises:
            InputError: the folder exists or cannot be written.
        """
        from tightrope.certificates.folder import write

        return write(self, folder)

    def to_pandas(self) -> Any:
        """The statements as a data frame, one row each.

        Raises:
            InputError: pandas is not installed.
        """
        return needed("pandas", "a data frame").DataFrame([asdict(s) for s in self.statements])

    def _repr_html_(self) -> str:
        return f"<pre>{escape(str(self))}</pre>"

    def __str__(self) -> str:
        from tightrope.certificates.text import summary

        return summary(self)

    def __repr__(self) -> str:
        if self.bound is None:
            return f"Certificate({self.scheme}, {self.n} episodes)"
        bound = float(np.format_float_positional(self.bound, 4, fractional=False))
        return f"Certificate({self.scheme}, unit {self.unit}, bound {bound:g})"
