"""The certificate: a frozen record of everything that is promised and what it was made from."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple

from tightrope.certificates.beforehand import Beforehand
from tightrope.certificates.checks import LEVEL
from tightrope.certificates.ledger import Spent
from tightrope.certificates.options import Options, Unit
from tightrope.certificates.portions import Portion, final_bound
from tightrope.certificates.statements import Statement
from tightrope.errors import InputError
from tightrope.posteriors import Chain, RangeSource, ReturnPredictor
from tightrope.rollouts import Episodes

__all__ = ["DERIVED", "Certificate", "Checks", "Counts", "Fit", "Limits", "ReturnRange"]


class Limits(NamedTuple):
    """What a number may be; the schema says so."""

    minimum: int
    maximum: int | None = None


Probability = Annotated[float, Limits(0, 1)]
Count = Annotated[int, Limits(0)]


@dataclass(frozen=True)
class ReturnRange:
    """The returns that losses are clipped to, and who fixed them."""

    low: float
    high: float
    source: RangeSource


@dataclass(frozen=True)
class Checks:
    """Do the episodes look as statements assume? P-values, which enter no bound.

    Attributes:
        dependence: that losses of one episode are no more alike than those of different ones.
        drift: that returns do not depend on the order in which episodes were recorded.
    """

    dependence: Probability
    drift: Probability

    @property
    def dependent(self) -> bool:
        """Whether the losses say that steps are not independent."""
        return self.dependence <= LEVEL

    @property
    def drifting(self) -> bool:
        """Whether the returns say that episodes are not alike."""
        return self.drift <= LEVEL


@dataclass(frozen=True)
class Counts:
    """Episodes by use.

    Attributes:
        pilot: in no bound.
        validation: fitted to, or in the bounds.
        free: of these, the first ones that are only fitted to.
        test: only compared with.
    """

    pilot: Count
    validation: Count
    free: Count
    test: Count


@dataclass(frozen=True)
class Fit:
    """How one fit went.

    Attributes:
        kind: ``regression`` on free data, or a ``posterior``.
        rows: that it saw.
        updates: at which the curves were read.
        loss: mean loss there; of a regression, on the folds left out.
        kl: divergence from the prior there; empty for a regression.
        objective: what was minimised; empty for a regression.
        converged: whether it had settled.
    """

    kind: Literal["regression", "posterior"]
    rows: Count
    updates: tuple[int, ...]
    loss: tuple[float, ...]
    kl: tuple[float, ...]
    objective: tuple[float, ...]
    converged: bool


@dataclass(frozen=True, repr=False)
class Certificate:
    """A risk certificate.

    With probability `confidence` over the validation episodes and the Monte Carlo draws, the mean
    squared error of the predicted return on new episodes is at most `bound`; `statements` has
    everything that is promised, and `headline` the one to read first. Errors and bounds are on the
    normalised scale, where 1 is the width of the return range; names ending in ``_raw`` are in
    return units, squared for mean squared errors.

    Attributes:
        options: what was asked for, with every number that had to be settled.
        thin: every `thin`-th step counts.
        time_limit: of the predictor's clock; None if it has none.
        bound: the mean risk in the unit that was asked for.
        confidence: that all of `ledger` holds.
        n: independent units behind `bound`.
        effective_n: steps worth of information on the loss, on the last portion.
        checks: whether steps look independent, and episodes alike.
        return_range: that losses are clipped to.
        clipped_share: of the validation returns, outside the range.
        train_error: of the predictor on the validation episodes.
        test_error: on the test episodes.
        constant_error: of predicting the mean return, on test (or validation) episodes.
        per_step_error: of predicting the mean return of the same elapsed step, there.
        portions: how `bound` builds up.
        other_portions: the same in the other unit.
        statements: everything that is promised.
        headline: index of the statement to read first.
        ledger: which failure probability went where.
        fits: how the fits went.
        beforehand: what was chosen on free data and enters the bounds.
        episodes: how many, for what.
        steps: validation rows after thinning.
        truncated_episodes: validation episodes that a time limit cut.
        assumptions: in plain sentences.
        subject: policy, environment, seeds and versions behind the episodes.
        digests: SHA-256 of the files beside the document.
        chain: what was fitted.
        rollouts: the episodes.
    """

    options: Options
    thin: Count
    time_limit: int | None
    bound: Probability
    confidence: Probability
    n: Count
    effective_n: float
    checks: Checks
    return_range: ReturnRange
    clipped_share: Probability
    train_error: Probability
    test_error: Probability | None
    constant_error: Probability
    per_step_error: Probability
    portions: tuple[Portion, ...]
    other_portions: tuple[Portion, ...]
    statements: tuple[Statement, ...]
    headline: Count
    ledger: tuple[Spent, ...]
    fits: tuple[Fit, ...]
    beforehand: Beforehand
    episodes: Counts
    steps: Count
    truncated_episodes: Count
    assumptions: tuple[str, ...]
    subject: Mapping[str, Any]
    digests: Mapping[str, str] = field(default_factory=dict)
    chain: Chain = field(compare=False, kw_only=True)
    rollouts: Episodes = field(compare=False, kw_only=True)

    def __post_init__(self) -> None:
        if not self.headline < len(self.statements):
            count = len(self.statements)
            raise InputError(f"expected a headline among {count} statements, found {self.headline}")

    @property
    def scheme(self) -> str:
        """Name of the scheme."""
        return self.options.scheme

    @property
    def unit(self) -> Unit:
        """What counts as independent in `bound`."""
        return self.options.unit

    @property
    def preset(self) -> str:
        """Name of the preset."""
        return self.options.preset

    @property
    def delta(self) -> float:
        """Failure probability over the data."""
        return self.options.delta

    @property
    def delta_prime(self) -> float:
        """Failure probability of the Monte Carlo draws."""
        return self.options.delta_prime

    @property
    def void(self) -> bool:
        """Whether the recursion contradicts itself: then the bound is 1 and nothing is said."""
        return final_bound(self.portions)[1]

    @property
    def vacuous(self) -> bool:
        """Whether the bound says nothing: it is 1, the largest possible error."""
        return self.bound >= 1.0

    @property
    def failed_fit(self) -> bool:
        """Whether the predictor does no better than a mean return, constant or per step."""
        error = self.train_error if self.test_error is None else self.test_error
        return error >= min(self.constant_error, self.per_step_error)

    @property
    def width(self) -> float:
        """Return units per 1 of the normalised scale."""
        return self.return_range.high - self.return_range.low

    @property
    def bound_raw(self) -> float:
        """The bound in squared return units."""
        return self.bound * self.width**2

    @property
    def rms_raw(self) -> float:
        """The bound as a root-mean-square error in return units."""
        return float(self.bound**0.5 * self.width)

    @property
    def tightness(self) -> float | None:
        """Bound minus test error, or None without test episodes."""
        return None if self.test_error is None else self.bound - self.test_error

    @cached_property
    def predictor(self) -> ReturnPredictor:
        """The predictor: observations, and elapsed steps if it has a clock, to returns."""
        return self.chain.predictor(self.options.sampling)

    def plot(self, axes: Sequence[Any] | None = None) -> Any:
        """Draw predictions along one episode, and the RMS error of every episode.

        Args:
            axes: two of matplotlib's axes to draw on; None: those of a new figure.

        Returns:
            The axes.
        """
        from tightrope.certificates.figures import draw_certificate

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
        from tightrope.certificates.notebook import statements_frame

        return statements_frame(self)

    def _repr_html_(self) -> str:
        from tightrope.certificates.notebook import certificate_html

        return certificate_html(self)

    def __str__(self) -> str:
        from tightrope.certificates.words import in_words

        return in_words(self)

    def __repr__(self) -> str:
        from tightrope.certificates.words import percent, up

        return (
            f"Certificate({self.scheme}, unit {self.unit}, bound {up(self.bound)}, "
            f"RMS {up(self.rms_raw)}, confidence {percent(self.confidence)})"
        )


# Properties that the document states beside the fields, with the kinds that the schema gives them.
DERIVED: dict[str, Any] = {
    "scheme": str,
    "unit": Unit,
    "preset": str,
    "delta": Probability,
    "delta_prime": Probability,
    "bound_raw": float,
    "rms_raw": float,
    "tightness": float | None,
    "vacuous": bool,
    "void": bool,
    "failed_fit": bool,
}
