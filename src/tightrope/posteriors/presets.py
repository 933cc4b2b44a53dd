"""Named settings of the prior and the fits; the reasons are in docs/guide.md."""

from dataclasses import dataclass, replace
from typing import Annotated, ClassVar, Literal

from pydantic import ConfigDict, Field

from tightrope.records import STRICT

__all__ = ["PRESETS", "FitSettings", "Preset", "PresetName", "Regression", "Sampling"]

# Limits on what a document may ask a verifier to compute.
_Updates = Annotated[int, Field(ge=1, le=20_000)]
_Rows = Annotated[int, Field(ge=1, le=4096)]
_Widths = Annotated[tuple[Annotated[int, Field(ge=1, le=1024)], ...], Field(max_length=4)]

PresetName = Literal["paper", "tight"]
Sampling = Literal["local", "weights"]

_HIDDEN = (256, 256)
_NARROW = (128, 128)  # half the time of 256: benchmarks/tightness.md


@dataclass(frozen=True)
class FitSettings:
    """How a posterior is fitted.

    Attributes:
        objective: a key of OBJECTIVES.
        sampling: local reparameterisation or weight sampling (Bayes by backprop).
        learning_rate: of Adam, at the start.
        decay: factor on the learning rate after every `decay_epochs` epochs.
        decay_epochs: epochs between decays.
        epochs: how many.
        epoch_steps: mini-batches per epoch: fixed, so that a portion of three episodes gets as
            many updates as one of a hundred.
        batch: rows per mini-batch.
        clip: largest norm of the gradient.
        whitened: learn shifts of the means in units of the prior's standard deviation, so that one
            learning rate serves every prior scale.
    """

    __pydantic_config__: ClassVar[ConfigDict] = STRICT

    objective: str
    sampling: Sampling
    learning_rate: float
    decay: float
    decay_epochs: int
    epochs: _Updates
    epoch_steps: _Updates
    batch: _Rows
    clip: float
    whitened: bool

    @property
    def steps(self) -> int:
        """Updates in one fit."""
        return self.epochs * self.epoch_steps


@dataclass(frozen=True)
class Regression:
    """How to regress.

    Attributes:
        folds: how many networks leave out a fold each.
        steps: updates at the most.
        batch: rows per mini-batch and network.
        exact_steps: updates at the most where the fit is exact: float64 takes twice the time, and a
            prior that a posterior moves away from gains little from more (benchmarks/tightness.md).
        exact_batch: rows per mini-batch there.
        learning_rate: of Adam.
        memory: updates over which the weights are averaged.
        hidden: widths of the hidden layers.
    """

    __pydantic_config__: ClassVar[ConfigDict] = STRICT

    folds: Annotated[int, Field(ge=1, le=20)]
    steps: _Updates
    batch: _Rows
    exact_steps: _Updates
    exact_batch: _Rows
    learning_rate: float
    memory: int
    hidden: _Widths = _HIDDEN

    def updates(self, exact: bool) -> int:
        """How many there are at the most."""
        return self.exact_steps if exact else self.steps


@dataclass(frozen=True)
class Preset:
    """A prior and a way to fit.

    Attributes:
        name: what users type.
        clock: whether elapsed time is an input where the time limit is known.
        regression: how data that no bound uses are fitted; None leaves the first prior random and
            fits such portions like the others.
        prior_log_variance: of every weight and bias in a prior with random means.
        informed_log_variance: the same around means that regression has fitted.
        fit: how a posterior is fitted.
        hidden: widths of the hidden layers.
        layer_norm: whether hidden layers are normalised, with nothing learned in it.
    """

    __pydantic_config__: ClassVar[ConfigDict] = STRICT

    name: PresetName
    clock: bool
    regression: Regression | None
    prior_log_variance: float
    informed_log_variance: float
    fit: FitSettings
    hidden: _Widths = _HIDDEN
    layer_norm: bool = True

    def shortened(self, updates: int | None = None, width: int | None = None) -> "Preset":
        """The preset with at most that many updates per fit, and hidden layers of that width.

        >>> short = PRESETS["tight"].shortened(updates=60, width=16)
        >>> short.regression.steps, short.fit.steps, short.hidden
        (60, 60, (16, 16))
        """
        fit, regression = self.fit, self.regression
        hidden = self.hidden if width is None else (width,) * len(self.hidden)
        if updates is not None and updates < fit.steps:
            epochs = min(fit.epochs, updates)
            fit = replace(fit, epochs=epochs, epoch_steps=updates // epochs)
        if regression is not None:
            most = regression.steps if updates is None else updates
            regression = replace(
                regression,
                steps=min(regression.steps, most),
                exact_steps=min(regression.exact_steps, most),
                hidden=hidden,
            )
        return replace(self, fit=fit, regression=regression, hidden=hidden)


_PAPER = Preset(  # batch size and epochs are not in the paper; see docs/guide.md
    name="paper",
    clock=False,
    regression=None,
    prior_log_variance=-4.6,
    informed_log_variance=-4.6,
    fit=FitSettings(
        objective="mcallester",
        sampling="local",
        learning_rate=2e-2,
        decay=0.5,
        decay_epochs=10,
        epochs=40,
        epoch_steps=40,
        batch=128,
        clip=1.0,
        whitened=False,
    ),
)
# A prior, or a predictor without a posterior, comes from plain regression; a posterior then
# minimises the bound itself.
_TIGHT = Preset(
    name="tight",
    clock=True,
    regression=Regression(
        folds=5,
        steps=2000,
        batch=256,
        exact_steps=1000,
        exact_batch=128,
        learning_rate=6e-3,
        memory=200,
        hidden=_NARROW,
    ),
    hidden=_NARROW,
    prior_log_variance=-9.0,
    informed_log_variance=-16.0,
    fit=replace(
        _PAPER.fit,
        objective="inverse-kl",
        decay_epochs=5,
        epochs=20,
        epoch_steps=25,
        batch=64,
        whitened=True,
    ),
)
PRESETS: dict[str, Preset] = {preset.name: preset for preset in (_PAPER, _TIGHT)}
