"""Step iii: regression on free data, Gaussian networks, fitting a chain, predicting returns."""

from tightrope.posteriors.chain import Link, fit_chain
from tightrope.posteriors.clock import Clock
from tightrope.posteriors.evaluate import draw_losses, draw_predictions
from tightrope.posteriors.fit import Curves, FitSettings, fit, settled
from tightrope.posteriors.gaussians import Gaussians, kaiming_means, kl_divergence
from tightrope.posteriors.network import Network, Sampling, draw, predict
from tightrope.posteriors.objectives import OBJECTIVES, Objective, Stage
from tightrope.posteriors.predictor import (
    Chain,
    Prediction,
    ReturnPredictor,
    load_chain,
    save_chain,
)
from tightrope.posteriors.presets import (
    PRESETS,
    Preset,
    PresetName,
    changed_presets,
    informed_prior,
    random_prior,
    shortened,
)
from tightrope.posteriors.regression import Regressed, Regression, regress
from tightrope.posteriors.rows import Rows
from tightrope.posteriors.scaling import (
    RangeSource,
    Scaling,
    moments,
    range_from_pilot,
    range_from_training,
)

__all__ = [
    "OBJECTIVES",
    "PRESETS",
    "Chain",
    "Clock",
    "Curves",
    "FitSettings",
    "Gaussians",
    "Link",
    "Network",
    "Objective",
    "Prediction",
    "Preset",
    "PresetName",
    "RangeSource",
    "Regressed",
    "Regression",
    "ReturnPredictor",
    "Rows",
    "Sampling",
    "Scaling",
    "Stage",
    "changed_presets",
    "draw",
    "draw_losses",
    "draw_predictions",
    "fit",
    "fit_chain",
    "informed_prior",
    "kaiming_means",
    "kl_divergence",
    "load_chain",
    "moments",
    "predict",
    "random_prior",
    "range_from_pilot",
    "range_from_training",
    "regress",
    "save_chain",
    "settled",
    "shortened",
]
