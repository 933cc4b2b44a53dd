"""Step iii: Gaussian networks, fitting one portion, fitting a chain, predicting returns."""

from tightrope.posteriors.chain import Link, fit_chain
from tightrope.posteriors.evaluate import draw_losses, draw_predictions
from tightrope.posteriors.fit import Curves, Rows, Settings, fit, settled
from tightrope.posteriors.gaussians import Gaussians, kaiming_means, kl_divergence
from tightrope.posteriors.network import Sampling, draw, predict
from tightrope.posteriors.objectives import OBJECTIVES, Objective, Stage
from tightrope.posteriors.predictor import (
    Chain,
    Prediction,
    ReturnPredictor,
    load_chain,
    save_chain,
)
from tightrope.posteriors.presets import PRESETS, Preset, initial_prior, preset
from tightrope.posteriors.scaling import Scaling, scaling_from_pilot, scaling_from_training
from tightrope.posteriors.seeds import child_seed

__all__ = [
    "OBJECTIVES",
    "PRESETS",
    "Chain",
    "Curves",
    "Gaussians",
    "Link",
    "Objective",
    "Prediction",
    "Preset",
    "ReturnPredictor",
    "Rows",
    "Sampling",
    "Scaling",
    "Settings",
    "Stage",
    "child_seed",
    "draw",
    "draw_losses",
    "draw_predictions",
    "fit",
    "fit_chain",
    "initial_prior",
    "kaiming_means",
    "kl_divergence",
    "load_chain",
    "predict",
    "preset",
    "save_chain",
    "scaling_from_pilot",
    "scaling_from_training",
    "settled",
]
