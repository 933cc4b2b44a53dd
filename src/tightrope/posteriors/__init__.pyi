from .fit import Curves as Curves, fit_posterior as fit_posterior
from .gaussians import (
    Gaussians as Gaussians,
    draw_losses as draw_losses,
    draw_predictions as draw_predictions,
    informed_prior as informed_prior,
    kaiming_means as kaiming_means,
    kl_divergence as kl_divergence,
    random_prior as random_prior,
)
from .objectives import OBJECTIVES as OBJECTIVES, PosteriorStep as PosteriorStep
from .predictor import (
    Prediction as Prediction,
    ReturnPredictor as ReturnPredictor,
    load_predictor as load_predictor,
    posterior_predictor as posterior_predictor,
    save_predictor as save_predictor,
)
from .presets import (
    PRESETS as PRESETS,
    FitSettings as FitSettings,
    Preset as Preset,
    PresetName as PresetName,
    Regression as Regression,
    Sampling as Sampling,
)
from .horizons import Horizons as Horizons, horizons_of as horizons_of
from .regression import Ensemble as Ensemble, regress as regress
from .scaling import (
    Clock as Clock,
    RangeSource as RangeSource,
    Scaling as Scaling,
    moments as moments,
    range_from_training as range_from_training,
    range_of_returns as range_of_returns,
)
