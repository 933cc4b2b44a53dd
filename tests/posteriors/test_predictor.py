"""The predictor speaks in return units; its file holds everything, or is refused in one line."""

import json
import math

import numpy as np
import pytest
import torch
from recordings import same
from safetensors.numpy import load_file, save_file

from tightrope.errors import InputError
from tightrope.posteriors import (
    PRESETS,
    Chain,
    Clock,
    Gaussians,
    Network,
    ReturnPredictor,
    Scaling,
    draw_predictions,
    kaiming_means,
    load_chain,
    random_prior,
    save_chain,
)

FEATURES = 3
CLOCK = Clock(20, 0.9)


def scaling(source="user", *, clock=None):
    """The range [-2, 6], of width 8."""
    mean = np.array([1.0, -2.0, 0.5], np.float32)
    return Scaling(-2.0, 6.0, source, mean, np.array([2.0, 0.5, 1.0], np.float32), clock)


def layers(seeds, output=0.4, features=FEATURES):
    made = list(kaiming_means((features, 16, 16, 1), seeds))
    made[-1][:, -1] = output
    return tuple(made)


def gaussians(seed=0, *, log_variance=-3.0, output=0.4, features=FEATURES):
    means = layers([seed], output, features)
    return Gaussians(means, tuple(torch.full_like(mean, log_variance) for mean in means))


def posterior_predictor(sampling="local", clock=None, **options):
    own = gaussians(features=scaling(clock=clock).features, **options)
    return ReturnPredictor(Network(own.means), own, scaling(clock=clock), sampling)


def fixed_predictor(members=4, clock=None):
    features = scaling(clock=clock).features
    network = Network(layers(range(members), features=features))
    return ReturnPredictor(network, None, scaling(clock=clock))


OBSERVATIONS = np.random.default_rng(5).normal(size=(7, FEATURES)).astype(np.float32)


# --- without dice ------------------------------------------------------------------------------


def test_mean_and_spread_are_those_of_the_averaged_networks_in_return_units():
    """Plain loops over the networks' outputs: -2 + 8 mean, 8 standard deviation."""
    predictor = fixed_predictor()
    mean, spread = predictor(OBSERVATIONS)
    outputs = predictor.network.outputs(scaling().inputs(OBSERVATIONS))  # (4, rows)
    assert mean.shape == spread.shape == (7,)
    assert mean.dtype == spread.dtype == np.float64
    for row in range(7):
        values = [float(value) for value in outputs[:, row]]
        centre = sum(values) / 4
        deviation = math.sqrt(sum((value - centre) ** 2 for value in values) / 4)
        assert mean[row] == pytest.approx(-2 + 8 * centre, rel=1e-12)
        assert spread[row] == pytest.approx(8 * deviation, rel=1e-9)
        assert spread[row] > 0


def test_a_posterior_without_draws_predicts_by_its_means_alone():
    predictor = posterior_predictor()
    mean, spread = predictor(OBSERVATIONS, seed=1)
    expected = Network(predictor.gaussians.means)(scaling().inputs(OBSERVATIONS))
    np.testing.assert_array_equal(mean, -2 + 8 * expected)
    np.testing.assert_array_equal(spread, np.zeros(7))
    np.testing.assert_array_equal(mean, predictor(OBSERVATIONS, seed=2).mean)


@pytest.mark.parametrize("make", [posterior_predictor, fixed_predictor])
def test_equal_rows_get_equal_predictions(make):
    """Up to the last digit of float32, which may depend on a row's place among the others."""
    rows = np.repeat(OBSERVATIONS, 9, axis=0)
    mean, spread = make()(rows)
    for found in (mean, spread):
        assert np.ptp(found.reshape(7, 9), axis=1).max() < 1e-5
    assert np.ptp(mean) > 0.1


def test_a_predictor_of_known_output_predicts_it():
    """Last layer: weights 0 and bias 0.4, so -2 + 8 * 0.4 = 1.2 everywhere."""
    predictor = posterior_predictor(log_variance=-60.0)
    predictor.network.layers[-1][:, :-1] = 0.0
    for draws in (None, 6):
        mean, spread = predictor(OBSERVATIONS, draws=draws)
        np.testing.assert_allclose(mean, 1.2, rtol=1e-6)
        np.testing.assert_allclose(spread, 0.0, atol=1e-6)


def test_one_observation_is_a_batch_of_one_and_lists_will_do():
    predictor = fixed_predictor()
    one = predictor(OBSERVATIONS[0])
    assert one.mean.shape == one.spread.shape == (1,)
    np.testing.assert_array_equal(one.mean, predictor(OBSERVATIONS[:1]).mean)
    listed = predictor(OBSERVATIONS[:2].tolist())
    np.testing.assert_array_equal(listed.mean, predictor(OBSERVATIONS[:2]).mean)
    assert predictor(OBSERVATIONS[:0]).mean.shape == (0,)


# --- with dice ---------------------------------------------------------------------------------


@pytest.mark.parametrize("sampling", ["local", "weights"])
def test_mean_and_spread_are_those_of_the_draws_in_return_units(sampling):
    """Plain loops over the same draws: -2 + 8 mean, 8 standard deviation."""
    predictor = posterior_predictor(sampling)
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


def test_draws_repeat_with_their_seed():
    predictor = posterior_predictor()
    one, again, other = (predictor(OBSERVATIONS, draws=3, seed=seed).mean for seed in (1, 1, 2))
    np.testing.assert_array_equal(one, again)
    assert (one != other).all()


def test_a_predictor_without_a_posterior_has_nothing_to_draw():
    with pytest.raises(InputError, match="no `draws`: this predictor has no posterior"):
        fixed_predictor()(OBSERVATIONS, draws=5)


@pytest.mark.parametrize("draws", [0, -3])
def test_fewer_than_one_draw_are_refused(draws):
    with pytest.raises(InputError, match=f"`draws` of at least 1, found {draws}"):
        posterior_predictor()(OBSERVATIONS, draws=draws)


# --- what it takes -----------------------------------------------------------------------------


@pytest.mark.parametrize("draws", [None, 4])
def test_the_elapsed_time_is_an_input(draws):
    """The prediction is that of the scaled observation beside the clock's features."""
    predictor = posterior_predictor(clock=CLOCK)
    elapsed = [0, 3, 19, 7, 7, 1, 18]
    inputs = np.hstack([scaling().inputs(OBSERVATIONS), CLOCK.features(elapsed)])
    if draws is None:
        expected = predictor.network(torch.from_numpy(inputs))
    else:
        own = {"passes": draws, "seed": 1, "sampling": "local"}
        expected = draw_predictions(predictor.gaussians, torch.from_numpy(inputs), **own).mean(
            axis=0, dtype=np.float64
        )
    found = predictor(OBSERVATIONS, elapsed=elapsed, draws=draws, seed=1).mean
    np.testing.assert_allclose(found, -2 + 8 * expected, rtol=1e-12)
    later = predictor(OBSERVATIONS, elapsed=np.add(elapsed, [9, 9, -9, 9, 9, 9, -9])).mean
    assert (abs(later - found) > 0.1).sum() >= 4  # the others are clipped


def test_an_elapsed_time_is_needed_with_a_clock_and_refused_without():
    with pytest.raises(InputError, match="expected `elapsed`, the steps since the start"):
        fixed_predictor(clock=CLOCK)(OBSERVATIONS)
    with pytest.raises(InputError, match="expected no `elapsed`: this predictor has no clock"):
        fixed_predictor()(OBSERVATIONS, elapsed=np.arange(7))
    with pytest.raises(InputError, match="`elapsed` for each of 7 observations, found 1"):
        fixed_predictor(clock=CLOCK)(OBSERVATIONS, elapsed=3)
    with pytest.raises(
        InputError, match="whole steps from 0 to 19, below the time limit, found 20"
    ):
        fixed_predictor(clock=CLOCK)(OBSERVATIONS[0], elapsed=20)
    assert fixed_predictor(clock=CLOCK)(OBSERVATIONS[0], elapsed=19).mean.shape == (1,)


@pytest.mark.parametrize("shape", [(4,), (2, 4), (2, 3, 1), (0,), ()])
def test_observations_of_another_shape_are_an_input_error(shape):
    with pytest.raises(InputError, match=r"observations of 3 features, found shape \("):
        fixed_predictor()(np.zeros(shape, np.float32))


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf, 1e300])
@pytest.mark.parametrize("make", [posterior_predictor, fixed_predictor])
def test_observations_that_are_not_finite_in_float32_are_refused(make, value):
    observations = OBSERVATIONS.astype(np.float64)
    observations[3, 1] = value
    with pytest.raises(InputError, match="finite observations, found NaN or infinity"):
        make()(observations)


# --- chains as files ---------------------------------------------------------------------------


def posteriors(count=3, clock=None):
    features = scaling(clock=clock).features
    fitted = tuple(gaussians(seed, features=features) for seed in range(count))
    return Chain(fitted, Network(fitted[-1].means), scaling("pilot", clock=clock))


def fixed(members=4, clock=None):
    network = fixed_predictor(members, clock).network
    return Chain((), network, scaling("training", clock=clock))


CHAINS = {
    "posteriors": (posteriors, None),
    "posteriors, clock": (posteriors, CLOCK),
    "fixed": (fixed, None),
    "fixed, clock": (fixed, Clock(1000, 1 / 3)),
}


@pytest.mark.parametrize(("make", "clock"), CHAINS.values(), ids=CHAINS)
def test_a_chain_survives_its_file_bit_for_bit(make, clock, tmp_path):
    chain, path = make(clock=clock), tmp_path / "predictor.safetensors"
    save_chain(chain, path)
    again = load_chain(path)
    assert len(again.gaussians) == len(chain.gaussians)
    assert all(map(same, again.gaussians, chain.gaussians))
    assert all(map(torch.equal, again.network.layers, chain.network.layers))
    for name in ("low", "high", "source", "clock"):
        assert getattr(again.scaling, name) == getattr(chain.scaling, name)
    for name in ("mean", "deviation"):
        np.testing.assert_array_equal(getattr(again.scaling, name), getattr(chain.scaling, name))
    save_chain(again, tmp_path / "again.safetensors")
    assert (tmp_path / "again.safetensors").read_bytes() == path.read_bytes()
    options = {"elapsed": None if clock is None else np.arange(7)}
    for draws in (None, 3) if chain.gaussians else (None,):
        before, after = (
            each.predictor("local")(OBSERVATIONS, draws=draws, **options) for each in (chain, again)
        )
        np.testing.assert_array_equal(before.mean, after.mean)
        np.testing.assert_array_equal(before.spread, after.spread)


def test_what_is_printed_shows_sizes_and_no_numbers():
    assert repr(posteriors()).startswith("Chain(2 posteriors, Network(1 members, 3 x 16 x 16 x 1)")
    timed = repr(fixed(clock=CLOCK))
    assert timed.startswith("Chain(0 posteriors, Network(4 members, 5 x 16 x 16 x 1), Scaling(")


def test_the_predictor_of_a_chain_draws_from_its_last_posterior():
    chain = posteriors()
    for sampling in ("local", "weights"):
        predictor = chain.predictor(sampling)
        assert same(predictor.gaussians, chain.gaussians[-1])
        assert predictor.sampling == sampling
        assert predictor.scaling is chain.scaling
    assert fixed().predictor("local").gaussians is None


def test_a_chain_of_ten_posteriors_and_more_keeps_its_order(tmp_path):
    long = posteriors(12)
    save_chain(long, tmp_path / "long.safetensors")
    assert all(map(same, long.gaussians, load_chain(tmp_path / "long.safetensors").gaussians))


def test_one_member_of_a_batch_is_saved_as_itself_and_a_prior_alone_is_a_chain(tmp_path):
    one = random_prior(PRESETS["paper"], FEATURES, [1, 2, 3]).member(1)
    save_chain(Chain((one,), Network(one.means), scaling()), tmp_path / "one.safetensors")
    again = load_chain(tmp_path / "one.safetensors")
    assert len(again.gaussians) == 1
    assert same(again.gaussians[0], one)


def test_a_file_that_is_there_is_not_overwritten(tmp_path):
    path = tmp_path / "precious"
    path.write_bytes(b"precious")
    with pytest.raises(InputError, match="already there"):
        save_chain(posteriors(), path)
    assert path.read_bytes() == b"precious"


def refused(path):
    """What is said about a file, in one line that names it."""
    with pytest.raises(InputError) as caught:
        load_chain(path)
    said = str(caught.value)
    assert path.name in said
    assert "\n" not in said
    assert len(said) < 400 + len(str(path))
    return said


def test_no_file_is_an_input_error(tmp_path):
    assert "found nothing at" in refused(tmp_path / "predictor.safetensors")


@pytest.mark.parametrize("kept", [0, 7, 100, 2000, -1])
def test_a_truncated_file_is_an_input_error(kept, tmp_path):
    path = tmp_path / "predictor.safetensors"
    save_chain(posteriors(), path)
    path.write_bytes(path.read_bytes()[:kept])
    assert "damaged" in refused(path)


def test_a_file_of_another_program_is_an_input_error(tmp_path):
    save_file({"weight": np.zeros(3, np.float32)}, tmp_path / "foreign.safetensors")
    assert "expected the format tightrope.predictor/2" in refused(tmp_path / "foreign.safetensors")
    (tmp_path / "text.safetensors").write_text("a predictor, honestly\n" * 20)
    assert "damaged" in refused(tmp_path / "text.safetensors")


def damaged(tmp_path, chain, change=lambda arrays: None, **header):
    """A well-formed safetensors file whose content, or header, is changed."""
    save_chain(chain, tmp_path / "good.safetensors")
    arrays = load_file(tmp_path / "good.safetensors")
    with (tmp_path / "good.safetensors").open("rb") as stream:
        size = int.from_bytes(stream.read(8), "little")
        stated = json.loads(json.loads(stream.read(size))["__metadata__"]["tightrope"])
    change(arrays)
    stated.update(header)
    stated = {key: value for key, value in stated.items() if value is not ...}
    path = tmp_path / "bad.safetensors"
    save_file(arrays, path, metadata={"tightrope": json.dumps(stated)})
    return path


def put(name, values):
    return lambda arrays: arrays.update({name: values(arrays) if callable(values) else values})


def narrower(arrays):
    """All log-variances of a posterior, those of a network with fewer hidden units."""
    for layer, shape in enumerate(((4, 8), (9, 8), (9, 1))):
        arrays[f"1.{layer}.log_variance"] = np.zeros(shape, np.float32)


DAMAGES = {
    "no range": lambda arrays: arrays.pop("scaling.range"),
    "no deviation": lambda arrays: arrays.pop("scaling.deviation"),
    "no mean of a layer": lambda arrays: arrays.pop("1.1.mean"),
    "no log-variance of a layer": lambda arrays: arrays.pop("1.1.log_variance"),
    "an empty range": put("scaling.range", np.array([1.0, 1.0])),
    "an endless range": put("scaling.range", np.array([-np.inf, 1.0])),
    "a range of three": put("scaling.range", np.zeros(3)),
    "a range of pairs": put("scaling.range", np.zeros((2, 2))),
    "nothing": lambda arrays: arrays.clear(),
    "numbers of another kind": put("1.1.mean", lambda arrays: arrays["1.1.mean"].view(np.int32)),
    "numbers of double precision": put("1.1.mean", lambda arrays: arrays["1.1.mean"].astype(float)),
    "layers that do not fit": put("1.1.mean", lambda arrays: arrays["1.2.mean"]),
    "a log-variance of another shape": put("1.1.log_variance", np.zeros((17, 1), np.float32)),
    "log-variances of another network": narrower,
    "a layer without a shape": put("1.0.mean", np.array(0.5, np.float32)),
    "numbers that are none": lambda arrays: arrays["1.1.mean"].__setitem__(0, np.nan),
    "endless log-variances": lambda arrays: arrays["0.1.log_variance"].__setitem__(0, np.inf),
    "two outputs": put("2.2.mean", np.zeros((17, 2), np.float32)),
    "a scaling of another width": put("scaling.mean", np.zeros(9, np.float32)),
    "another number of features": lambda arrays: arrays.update(
        {f"scaling.{name}": np.ones(9, np.float32) for name in ("mean", "deviation")}
    ),
    "a deviation of zero": lambda arrays: arrays["scaling.deviation"].__setitem__(0, 0.0),
    "a mean of NaN": lambda arrays: arrays["scaling.mean"].__setitem__(0, np.nan),
}


@pytest.mark.parametrize("change", DAMAGES.values(), ids=DAMAGES)
def test_damaged_posteriors_are_an_input_error(change, tmp_path):
    assert "is damaged or no predictor: " in refused(damaged(tmp_path, posteriors(), change))


FIXED_DAMAGES = {
    "no layer": lambda arrays: arrays.pop("network.1"),
    "no members": lambda arrays: arrays.update(
        {name: value[:0] for name, value in arrays.items() if name.startswith("network")}
    ),
    "members of one layer only": put("network.1", lambda arrays: arrays["network.1"][:2]),
    "a layer without members": put("network.0", lambda arrays: arrays["network.0"][0]),
    "numbers that are none": lambda arrays: arrays["network.2"].__setitem__(0, -np.inf),
    "numbers of half precision": put(
        "network.2", lambda arrays: arrays["network.2"].astype(np.float16)
    ),
}


@pytest.mark.parametrize("change", FIXED_DAMAGES.values(), ids=FIXED_DAMAGES)
def test_a_damaged_fixed_predictor_is_an_input_error(change, tmp_path):
    path = damaged(tmp_path, fixed(clock=CLOCK), change)
    assert "is damaged or no predictor: " in refused(path)


def test_a_file_whose_content_was_not_changed_is_read(tmp_path):
    """Or the tests of damages would say nothing."""
    assert len(load_chain(damaged(tmp_path, posteriors())).gaussians) == 3


HEADERS = {
    "no source": {"range": ...},
    "unknown source": {"range": "hearsay"},
    "no clock, nor that there is none": {"clock": ...},
    "a clock that was taken away": {"clock": None},
    "a clock without a limit": {"clock": {"gamma": 0.9}},
    "a clock with more hands": {"clock": {"limit": 20, "gamma": 0.9, "hands": 3}},
    "a clock of no time": {"clock": {"limit": 0, "gamma": 0.9}},
    "a clock of words": {"clock": {"limit": "20", "gamma": 0.9}},
    "a discount factor of words": {"clock": {"limit": 20, "gamma": "0.9"}},
    "a discount factor that is none": {"clock": {"limit": 20, "gamma": math.nan}},
    "a clock that is a number": {"clock": 20},
    "no number of layers": {"layers": ...},
    "no layers": {"layers": 0},
    "more layers": {"layers": 4},
    "fewer layers": {"layers": 2},
    "layers in words": {"layers": "three"},
    "no number of Gaussians": {"gaussians": ...},
    "more Gaussians": {"gaussians": 4},
    "Gaussians below zero": {"gaussians": -1},
    "no Gaussians": {"gaussians": 0},
    "Gaussians that are none": {"gaussians": None},
}


@pytest.mark.parametrize("header", HEADERS.values(), ids=HEADERS)
def test_a_header_that_does_not_fit_is_an_input_error(header, tmp_path):
    path = damaged(tmp_path, posteriors(clock=CLOCK), **header)
    assert "is damaged or no predictor: " in refused(path)


@pytest.mark.parametrize(
    "tag", ["tightrope.predictor/1", "tightrope.predictor/12", "tightrope.episodes/1", None, ...]
)
def test_another_version_or_kind_is_an_input_error_that_names_both(tag, tmp_path):
    found = repr(tag) if isinstance(tag, str) else "none"
    said = refused(damaged(tmp_path, posteriors(), format=tag))
    assert f"expected the format tightrope.predictor/2, found {found} in" in said


@pytest.mark.parametrize(
    "metadata", [None, {"tightrope": "tightrope.predictor/1 pilot"}, {"tightrope": "[2]"}]
)
def test_a_header_that_is_no_record_is_an_input_error(metadata, tmp_path):
    save_chain(posteriors(), tmp_path / "good.safetensors")
    path = tmp_path / "bad.safetensors"
    save_file(load_file(tmp_path / "good.safetensors"), path, metadata=metadata)
    refused(path)
