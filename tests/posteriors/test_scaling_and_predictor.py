"""The range and the scaling come before the data; the predictor speaks in return units."""

import json
import math

import numpy as np
import pytest
import torch
from recordings import recording, same
from safetensors.numpy import load_file, save_file

from tightrope.errors import InputError
from tightrope.policies import TrainingRecord
from tightrope.posteriors import (
    Chain,
    Gaussians,
    ReturnPredictor,
    Scaling,
    draw_predictions,
    initial_prior,
    kaiming_means,
    load_chain,
    preset,
    save_chain,
    scaling_from_pilot,
    scaling_from_training,
)
from tightrope.rollouts import pairs

FEATURES = 3


def pilot(**changes):
    return pairs(recording(4, **changes), gamma=0.9)


def scaling(low=-2.0, high=6.0, source="user"):
    mean = np.array([1.0, -2.0, 0.5], np.float32)
    return Scaling(low, high, source, mean, np.array([2.0, 0.5, 1.0], np.float32))


# --- where the range comes from ----------------------------------------------------------------


def test_the_pilots_range_is_widened_by_a_tenth_on_each_side():
    data = pilot()
    found = scaling_from_pilot(data, features=FEATURES)
    low, high = min(data.returns.tolist()), max(data.returns.tolist())
    assert found.low == pytest.approx(low - 0.1 * (high - low), rel=1e-12)
    assert found.high == pytest.approx(high + 0.1 * (high - low), rel=1e-12)
    assert found.width == pytest.approx(1.2 * (high - low), rel=1e-12)
    assert found.source == "pilot"


def test_a_users_range_goes_first_and_is_not_widened_while_the_pilot_still_scales():
    found = scaling_from_pilot(pilot(), features=FEATURES, return_range=(-3, 4.5))
    assert (found.low, found.high, found.source) == (-3.0, 4.5, "user")
    np.testing.assert_array_equal(found.mean, scaling_from_pilot(pilot(), features=FEATURES).mean)


def test_without_a_pilot_observations_are_left_as_they_are():
    found = scaling_from_pilot(None, features=FEATURES, return_range=(0.0, 1.0))
    observations = np.array([[3.0, -1.0, 1e4]], np.float32)
    np.testing.assert_array_equal(found.inputs(observations).numpy(), observations)


def trained(**changes):
    given = {
        "agent": "sac",
        "environment": {"id": "Toy-v0"},
        "steps": 500,
        "episodes": 5,
        "gamma": 0.9,
        "return_low": -1.5,
        "return_high": 4.25,
        "observation_mean": np.array([1.0, -2.0, 0.5], np.float32),
        "observation_deviation": np.array([2.0, 0.5, 1.0], np.float32),
        "settings": {},
        "versions": {},
        "digests": {},
    }
    return TrainingRecord(**{**given, **changes})


def test_a_training_record_gives_its_range_as_it_is_and_its_scaling():
    found = scaling_from_training(trained())
    assert (found.low, found.high, found.source) == (-1.5, 4.25, "training")
    observations = np.array([[3.0, -1.0, 0.5]], np.float32)
    np.testing.assert_array_equal(found.inputs(observations).numpy(), [[1.0, 2.0, 0.0]])


@pytest.mark.parametrize(
    "changes",
    [
        {"episodes": 0, "return_low": math.inf, "return_high": -math.inf},
        {"episodes": 0},
        {"return_low": math.nan},
        {"return_high": math.inf},
        {"return_low": 4.25},
        {"return_low": 5.0},
    ],
)
def test_a_training_without_a_range_is_refused_with_the_remedy(changes):
    with pytest.raises(InputError, match="--pilot-episodes"):
        scaling_from_training(trained(**changes))


def test_observations_of_the_pilot_get_mean_0_and_deviation_1():
    data = pilot()
    found = scaling_from_pilot(data, features=FEATURES)
    for feature in range(FEATURES):
        values = [float(value) for value in data.observations[:, feature]]
        mean = math.fsum(values) / len(values)
        deviation = math.sqrt(math.fsum((v - mean) ** 2 for v in values) / len(values))
        assert found.mean[feature] == pytest.approx(mean, abs=1e-6)
        assert found.deviation[feature] == pytest.approx(deviation, rel=1e-6)
    scaled = found.inputs(data.observations)
    assert scaled.dtype == torch.float32
    assert scaled.mean(dim=0).abs().max() < 1e-6
    assert (scaled.std(dim=0, correction=0) - 1).abs().max() < 1e-5


def test_a_feature_that_never_moves_is_shifted_and_not_divided_by_zero():
    recorded = recording(4)
    recorded.observations[:, 1] = 7.0
    found = scaling_from_pilot(pairs(recorded), features=FEATURES)
    assert (found.mean[1], found.deviation[1]) == (7.0, 1.0)
    assert np.isfinite(found.inputs(recorded.observations).numpy()).all()


def test_neither_a_pilot_nor_a_range_is_an_input_error_with_the_remedy():
    with pytest.raises(InputError, match="--return-range LO HI"):
        scaling_from_pilot(None, features=FEATURES)


def test_a_pilot_of_constant_returns_is_an_input_error_unless_a_range_is_given():
    recorded = recording(4)
    recorded.rewards[:] = 2.0
    constant = pairs(recorded, gamma=0.0)
    with pytest.raises(InputError, match="expected returns that vary, found the constant 2"):
        scaling_from_pilot(constant, features=FEATURES)
    assert scaling_from_pilot(constant, features=FEATURES, return_range=(0, 4)).width == 4


@pytest.mark.parametrize(
    ("low", "high"),
    [(1.0, 1.0), (2.0, 1.0), (math.nan, 1.0), (0.0, math.nan), (-math.inf, 0.0), (0.0, math.inf)],
)
def test_an_empty_or_endless_range_is_an_input_error_that_names_it(low, high):
    with pytest.raises(InputError, match=r"finite return range with LO < HI, found \["):
        scaling_from_pilot(pilot(), features=FEATURES, return_range=(low, high))


# --- what the scaling does ---------------------------------------------------------------------


def test_returns_are_scaled_to_the_unit_interval_and_clipped():
    # range [-2, 6], width 8: -2 -> 0, 0 -> 0.25, 6 -> 1; -10 and 7 are clipped
    returns = np.array([-10.0, -2.0, 0.0, 6.0, 7.0])
    assert scaling().targets(returns).tolist() == [0.0, 0.0, 0.25, 1.0, 1.0]
    assert scaling().targets(returns).dtype == np.float64


def test_the_clipped_share_counts_what_lies_outside_and_not_what_lies_on_the_ends():
    # -10 and 7 of five
    assert scaling().clipped_share(np.array([-10.0, -2.0, 0.0, 6.0, 7.0])) == 0.4
    assert scaling().clipped_share(np.array([-2.0, 6.0])) == 0.0


def test_rows_are_the_scaled_pairs():
    data = pairs(recording(3))
    rows = scaling().rows(data)
    # (x - mean) / deviation with mean (1, -2, 0.5) and deviation (2, 0.5, 1)
    expected = (data.observations - [1.0, -2.0, 0.5]) / [2.0, 0.5, 1.0]
    np.testing.assert_allclose(rows.inputs.numpy(), expected, rtol=1e-6, atol=1e-6)
    np.testing.assert_allclose(
        rows.targets.numpy(), np.clip((data.returns + 2) / 8, 0, 1), atol=1e-7
    )
    assert len(rows) == len(data)


def test_what_is_printed_names_the_range_and_its_source():
    assert repr(scaling()) == "Scaling([-2, 6] from user, 3 features)"


# --- the predictor -----------------------------------------------------------------------------


def gaussians(seed=0, *, log_variance=-3.0, output=0.4):
    means = list(kaiming_means((FEATURES, 16, 16, 1), [seed]))
    means[-1] = means[-1].clone()
    means[-1][:, -1] = output
    return Gaussians(tuple(means), tuple(torch.full_like(mean, log_variance) for mean in means))


OBSERVATIONS = np.random.default_rng(5).normal(size=(7, FEATURES)).astype(np.float32)


@pytest.mark.parametrize("sampling", ["local", "weights"])
def test_mean_and_spread_are_those_of_the_draws_in_return_units(sampling):
    """Plain loops over the same draws: low + 8 mean, 8 standard deviation."""
    predictor = ReturnPredictor(gaussians(), scaling(), sampling)
    mean, spread = predictor(OBSERVATIONS, draws=9, seed=3)
    inputs = scaling().inputs(OBSERVATIONS)
    drawn = draw_predictions(gaussians(), inputs, passes=9, seed=3, sampling=sampling)
    assert mean.shape == spread.shape == (7,)
    for row in range(7):
        values = [float(value) for value in drawn[:, row]]
        centre = sum(values) / 9
        deviation = math.sqrt(sum((value - centre) ** 2 for value in values) / 9)
        assert mean[row] == pytest.approx(-2 + 8 * centre, rel=1e-12)
        assert spread[row] == pytest.approx(8 * deviation, rel=1e-9)
        assert -2 <= mean[row] <= 6
        assert spread[row] > 0


def test_a_predictor_of_known_output_predicts_it():
    """Last layer: weights 0 and bias 0.4 without variance, so -2 + 8 * 0.4 = 1.2 everywhere."""
    silent = gaussians(log_variance=-60.0)
    silent.means[-1][:, :-1] = 0.0
    mean, spread = ReturnPredictor(silent, scaling())(OBSERVATIONS)
    np.testing.assert_allclose(mean, 1.2, rtol=1e-6)
    np.testing.assert_allclose(spread, 0.0, atol=1e-6)


def test_one_observation_is_a_batch_of_one_and_seeds_repeat():
    predictor = ReturnPredictor(gaussians(), scaling())
    one = predictor(OBSERVATIONS[0])
    assert one.mean.shape == one.spread.shape == (1,)
    np.testing.assert_array_equal(one.mean, predictor(OBSERVATIONS[:1]).mean)
    assert predictor(OBSERVATIONS[0], seed=1).mean != one.mean
    listed = predictor(OBSERVATIONS[:2].tolist())
    np.testing.assert_array_equal(listed.mean, predictor(OBSERVATIONS[:2]).mean)


@pytest.mark.parametrize("shape", [(4,), (2, 4), (2, 3, 1), (0,)])
def test_observations_of_another_shape_are_an_input_error(shape):
    with pytest.raises(InputError, match=r"observations of 3 features, found shape \("):
        ReturnPredictor(gaussians(), scaling())(np.zeros(shape, np.float32))


# --- chains as files ---------------------------------------------------------------------------


@pytest.fixture
def chain():
    return Chain(tuple(gaussians(seed) for seed in range(3)), scaling(source="pilot"))


def test_a_chain_survives_its_file_bit_for_bit(chain, tmp_path):
    path = tmp_path / "predictor.safetensors"
    save_chain(chain, path)
    again = load_chain(path)
    assert len(again.gaussians) == 3
    for before, after in zip(chain.gaussians, again.gaussians, strict=True):
        assert same(before, after)
    for name in ("low", "high", "source"):
        assert getattr(again.scaling, name) == getattr(chain.scaling, name)
    for name in ("mean", "deviation"):
        np.testing.assert_array_equal(getattr(again.scaling, name), getattr(chain.scaling, name))
    save_chain(again, tmp_path / "again.safetensors")
    assert (tmp_path / "again.safetensors").read_bytes() == path.read_bytes()
    assert repr(again).startswith("Chain(2 posteriors, Gaussians(1 members, 3 x 16 x 16 x 1)")


def test_a_chain_of_ten_posteriors_and_more_keeps_its_order(tmp_path):
    long = Chain(tuple(gaussians(seed) for seed in range(12)), scaling())
    save_chain(long, tmp_path / "long.safetensors")
    again = load_chain(tmp_path / "long.safetensors")
    assert all(map(same, long.gaussians, again.gaussians))


def test_one_member_of_a_batch_is_saved_as_itself(tmp_path):
    batch = initial_prior(preset("paper"), FEATURES, None, [1, 2, 3])
    save_chain(Chain((batch.member(1),), scaling()), tmp_path / "one.safetensors")
    assert same(load_chain(tmp_path / "one.safetensors").gaussians[0], batch.member(1))


def test_a_file_that_is_there_is_not_overwritten(chain, tmp_path):
    path = tmp_path / "precious"
    path.write_bytes(b"precious")
    with pytest.raises(InputError, match="already there"):
        save_chain(chain, path)
    assert path.read_bytes() == b"precious"


def test_no_file_is_an_input_error(tmp_path):
    with pytest.raises(InputError, match="predictor"):
        load_chain(tmp_path / "predictor.safetensors")


@pytest.mark.parametrize("kept", [0, 7, 100, 2000, -1])
def test_a_truncated_file_is_an_input_error(kept, chain, tmp_path):
    path = tmp_path / "predictor.safetensors"
    save_chain(chain, path)
    path.write_bytes(path.read_bytes()[:kept])
    with pytest.raises(InputError, match=r"predictor\.safetensors"):
        load_chain(path)


def damaged(tmp_path, chain, change, header=None):
    """A well-formed safetensors file whose content is changed."""
    save_chain(chain, tmp_path / "good.safetensors")
    arrays = load_file(tmp_path / "good.safetensors")
    change(arrays)
    header = {"tightrope": "tightrope.predictor/1 pilot"} if header is None else header
    save_file(arrays, tmp_path / "bad.safetensors", metadata=header)
    return tmp_path / "bad.safetensors"


DAMAGES = {
    "no range": lambda arrays: arrays.pop("scaling.range"),
    "no deviation": lambda arrays: arrays.pop("scaling.deviation"),
    "no mean of a layer": lambda arrays: arrays.pop("1.1.mean"),
    "no log-variance of a layer": lambda arrays: arrays.pop("1.1.log_variance"),
    "an empty range": lambda arrays: arrays.update({"scaling.range": np.array([1.0, 1.0])}),
    "a range of three": lambda arrays: arrays.update({"scaling.range": np.zeros(3)}),
    "nothing": lambda arrays: arrays.clear(),
    "numbers of another kind": lambda arrays: arrays.update(
        {"1.1.mean": arrays["1.1.mean"].view(np.int32)}
    ),
    "numbers of double precision": lambda arrays: arrays.update(
        {"1.1.mean": arrays["1.1.mean"].astype(np.float64)}
    ),
    "layers that do not fit": lambda arrays: arrays.update({"1.1.mean": arrays["1.2.mean"]}),
    "a log-variance of another shape": lambda arrays: arrays.update(
        {"1.1.log_variance": arrays["1.2.log_variance"]}
    ),
    "numbers that are none": lambda arrays: arrays["1.1.mean"].__setitem__(0, np.nan),
    "a scaling of another width": lambda arrays: arrays.update(
        {"scaling.mean": np.zeros(9, np.float32)}
    ),
    "a deviation of zero": lambda arrays: arrays["scaling.deviation"].__setitem__(0, 0.0),
}


@pytest.mark.parametrize("change", DAMAGES.values(), ids=DAMAGES)
def test_a_damaged_file_is_an_input_error(change, chain, tmp_path):
    with pytest.raises(InputError, match=r"bad\.safetensors|return range"):
        load_chain(damaged(tmp_path, chain, change))


@pytest.mark.parametrize(
    "header",
    [
        {},
        {"tightrope": json.dumps({"format": "tightrope.episodes/1"})},
        {"tightrope": "tightrope.predictor/1"},
        {"tightrope": "tightrope.predictor/12 pilot"},
        {"tightrope": "tightrope.predictor/1 hearsay"},
    ],
    ids=["none", "episodes", "no source", "another version", "unknown source"],
)
def test_a_file_of_another_kind_is_an_input_error(header, chain, tmp_path):
    with pytest.raises(InputError, match=r"bad\.safetensors"):
        load_chain(damaged(tmp_path, chain, lambda arrays: None, header))
