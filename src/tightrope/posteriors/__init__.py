"""Step iii: regression, Gaussian networks fitted to a bound, and predicting returns.

What fits with torch is loaded on first use: predicting needs numpy only.
"""

from typing import TYPE_CHECKING

from tightrope.imports import on_first_use
from tightrope.posteriors.gaussians import (
    Gaussians,
    draw_losses,
    draw_predictions,
    informed_prior,
    kaiming_means,
    kl_divergence,
    random_prior,
)
from tightrope.posteriors.predictor import (
    Prediction,
    ReturnPredictor,
    load_predictor,
    posterior_predictor,
    save_predictor,
)
from tightrope.posteriors.presets import (
    PRESETS,
    FitSettings,
    Preset,
    PresetName,
    Regression,
    Sampling,
)
from tightrope.posteriors.scaling import (
    Clock,
    RangeSource,
    Scaling,
    moments,
    range_from_training,
    range_of_returns,
)

if TYPE_CHECKING:
    from tightrope.posteriors.fit import Curves, fit_posterior
    from tightrope.posteriors.objectives import OBJECTIVES, PosteriorStep
    from tightrope.posteriors.regression import Ensemble, regress

_HOMES = {
    "OBJECTIVES": "objectives",
    "Curves": "fit",
    "Ensemble": "regression",
    "PosteriorStep": "objectives",
    "fit_posterior": "fit",
    "regress": "regression",
}
__all__ = [
    "OBJECTIVES",
    "PRESETS",
    "Clock",
    "Curves",
    "Ensemble",
    "FitSettings",
    "Gaussians",
    "PosteriorStep",
    "Prediction",
    "Preset",
    "PresetName",
    "RangeSource",
    "Regression",
    "ReturnPredictor",
    "Sampling",
    "Scaling",
    "draw_losses",
    "draw_predictions",
    "fit_posterior",
    "informed_prior",
    "kaiming_means",
    "kl_divergence",
    "load_predictor",
    "moments",
    "posterior_predictor",
    "random_prior",
    "range_from_training",
    "range_of_returns",
    "regress",
    "save_predictor",
]

__getattr__ = on_first_use(__name__, _HOMES)
