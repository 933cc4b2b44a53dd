"""Evidence and certificates with errors made by hand, so that statements need no fit.

The first feature of an observation is what is predicted there, and `reader` a predictor that reads
it; so every error is whatever a test wants it to be.
"""

from fractions import Fraction

import numpy as np

from tightrope.certificates import Evidence, Options, settle
from tightrope.certificates.certify import issue
from tightrope.certificates.fitting import FitRecord, FittedPredictor
from tightrope.certificates.ledger import Ledger
from tightrope.posteriors import Clock, ReturnPredictor, Scaling
from tightrope.rollouts import Episode, join, pairs

OUTWARD = 1e-5  # by which every limit is rounded outward


def plain_returns(rewards, gamma):
    """Return from every step to the end of the episode, by a loop."""
    found, value = [], 0.0
    for reward in reversed(np.asarray(rewards, float).tolist()):
        value = reward + gamma * value
        found.insert(0, value)
    return np.array(found)


def rms(errors):
    return float(np.sqrt(np.mean(np.square(errors))))


def made_up(seed=0, episodes=30, scale=1.0, shortest=1, longest=9):
    """Rewards and errors of uneven episodes; the errors of an episode are alike in size."""
    rng = np.random.default_rng(seed)
    lengths = rng.integers(shortest, longest, episodes)
    rewards = [rng.normal(5.0, 2.0, length) for length in lengths]
    errors = [scale * (0.2 + rng.random()) * rng.normal(size=length) for length in lengths]
    return rewards, errors


def recorded(rewards, errors=None, *, gamma=0.0, terminated=False, success=None, subject=None):
    """Episodes whose first feature is the return plus an error: what `reader` predicts.

    `terminated` and `success` are one value or one for each episode.
    """
    rng = np.random.default_rng(len(rewards))
    ended = np.broadcast_to(terminated, len(rewards))
    succeeded = np.broadcast_to(success, len(rewards))
    found = []
    for index, own in enumerate(rewards):
        returns = plain_returns(own, gamma)
        predicted = returns if errors is None else returns + errors[index]
        found.append(
            Episode(
                np.stack([predicted, rng.normal(size=len(own))], axis=1).astype(np.float32),
                np.asarray(own, float),
                terminated=bool(ended[index]),
                truncated=not ended[index],
                seed=index,
                success=None if succeeded[index] is None else bool(succeeded[index]),
            )
        )
    return join(found, {"log": "constructed"} if subject is None else subject)


def evidence(
    rewards, errors=None, *, gamma=0.0, thin=1, low=0.0, high=10.0, limit=None, **recording
):
    """Episodes with predictions that are off by exactly these errors, clipped to no range."""
    episodes = recorded(rewards, errors, gamma=gamma, **recording)
    returns = np.concatenate([plain_returns(own, gamma) for own in rewards])
    predicted = returns if errors is None else returns + np.concatenate(errors)
    clock = None if limit is None else Clock(limit, gamma)
    moments = np.zeros(2, np.float32), np.ones(2, np.float32)
    scaling = Scaling(low, high, "user", *moments, clock)
    rows = pairs(episodes, gamma=gamma, thin=thin)
    return Evidence(episodes, rows, predicted, scaling, gamma, thin)


def stated(family, seen, chosen=None, delta=0.05):
    """The statements of a family that has this failure probability for itself."""
    budget = family.budget if family.unit == "step" else "joint"
    shares = [(family.budget, budget, "both", Fraction(1))]
    ledger = Ledger.of(shares, delta=0.9 * delta, delta_prime=0.1 * delta)
    return family.state(seen, chosen or {}, ledger)


def reader(split, **_):
    """A fitted predictor that reads its prediction from the first feature."""
    scaling = split.scaling
    layer = np.zeros((1, scaling.features + 1, 1), np.float32)
    layer[0, 0] = scaling.deviation[0] / scaling.width
    layer[0, -1] = (scaling.mean[0] - scaling.low) / scaling.width
    predictor = ReturnPredictor((layer,), scaling, layer_norm=False)
    rows = split.fit_rows
    left_out = None if rows is None else predictor.normalised(rows.observations, rows.step)
    count = 0 if rows is None else len(rows)
    fits = (FitRecord("regression", count, (1,), (0.0,), (), ()),)
    return FittedPredictor(predictor, (), left_out, fits)


def certificate(episodes, *, fit=reader, properties=(), **options):
    """The certificate of recorded episodes with the predictor that reads, or another."""
    options = Options(**{"gamma": 0.0, "thin": 1, "clock": "off", "seed": 1, **options})
    settings = settle(options, episodes, properties=properties)
    return issue(episodes, settings, options=options, fit=fit)
