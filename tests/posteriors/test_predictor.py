"""Predictions in numpy against plain loops; files hold everything, or are refused in one line."""

import json
import math
import tracemalloc

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from tightrope.errors import InputError
from tightrope.posteriors import (
    Clock,
    Gaussians,
    ReturnPredictor,
    Scaling,
    kaiming_means,
    load_predictor,
    posterior_predictor,
    save_predictor,
)
from tightrope.rollouts import Episode, join

FEATURES = 3
CLOCK = Clock(20, 0.9)
OBSERVATIONS = np.random.default_rng(5).normal(size=(7, FEATURES)).astype(np.float32)


def scaling(source="user", *, clock=None):
    """The range [-2, 6], of width 8."""
    mean = np.array([1.0, -2.0, 0.5], np.float32)
    return Scaling(-2.0, 6.0, source, mean, np.array([2.0, 0.5, 1.0], np.float32), clock)


def gaussians(seed=0, *, output=0.4, features=FEATURES, layer_norm=True):
    means = kaiming_means((features, 16, 16, 1), seed)
    means[-1][-1] = output
    return Gaussians(means, tuple(np.full_like(mean, -3.0) for mean in means), layer_norm)


def posteriors(count=3, clock=None, layer_norm=True):
    """A predictor with the Gaussians that it comes from."""
    own = scaling("pilot", clock=clock)
    given = {"features": own.features, "layer_norm": layer_norm}
    fitted = tuple(gaussians(seed, **given) for seed in range(count))
    return posterior_predictor(fitted[-1], own), fitted


def fixed(networks=4, clock=None, layer_norm=True, wild=1.0):
    """Several networks; wild ones reach beyond both ends of [0, 1], but not for the same rows."""
    own = scaling("training", clock=clock)
    each = [gaussians(k, output=0.2 * k, features=own.features).means for k in range(networks)]
    layers = tuple(np.stack(layer) for layer in zip(*each, strict=True))
    layers[-1][:, :-1] *= wild
    return ReturnPredictor(layers, own, layer_norm), ()


# --- predictions -------------------------------------------------------------------------------


def by_hand(predictor, network, row, elapsed=None):
    """Unclipped output of one network for one observation, unit by unit in float64."""
    own = predictor.scaling
    hidden = ((row.astype(float) - own.mean) / own.deviation).tolist()
    if elapsed is not None:
        left = own.clock.limit - elapsed
        hidden += [2 * elapsed / own.clock.limit - 1, 1 - 2 * own.clock.gamma**left]
    for index, layer in enumerate(predictor.layers):
        weights, outputs = layer[network].astype(float), []
        for unit in range(weights.shape[1]):
            terms = [value * weights[place, unit] for place, value in enumerate(hidden)]
            outputs.append(math.fsum(terms) + weights[-1, unit])
        if index < len(predictor.layers) - 1:
            if predictor.layer_norm:
                mean = math.fsum(outputs) / len(outputs)
                variance = math.fsum((value - mean) ** 2 for value in outputs) / len(outputs)
                outputs = [(value - mean) / math.sqrt(variance + 1e-5) for value in outputs]
            outputs = [max(value, 0.0) for value in outputs]
        hidden = outputs
    return hidden[0]


@pytest.mark.parametrize("layer_norm", [True, False])
@pytest.mark.parametrize("clock", [None, CLOCK], ids=["no clock", "clock"])
def test_a_prediction_is_the_mean_of_the_networks_clipped_outputs(clock, layer_norm):
    """Each network is clipped, and then they are averaged; in return units -2 + 8 mean."""
    predictor, _ = fixed(clock=clock, layer_norm=layer_norm, wild=4.0)
    elapsed = None if clock is None else np.array([0, 3, 19, 7, 7, 1, 18])
    normalised = predictor.normalised(OBSERVATIONS, elapsed)
    mean, spread = predictor(OBSERVATIONS, elapsed=elapsed)
    assert normalised.dtype == mean.dtype == spread.dtype == np.float64
    otherwise = 0
    for index, row in enumerate(OBSERVATIONS):
        time = None if clock is None else int(elapsed[index])
        raw = [by_hand(predictor, network, row, time) for network in range(4)]
        clipped = [min(max(value, 0.0), 1.0) for value in raw]
        centre = sum(clipped) / 4
        deviation = math.sqrt(sum((value - centre) ** 2 for value in clipped) / 4)
        assert normalised[index] == pytest.approx(centre, abs=2e-6)
        assert mean[index] == pytest.approx(-2 + 8 * centre, abs=2e-5)
        assert spread[index] == pytest.approx(8 * deviation, abs=2e-5)
        otherwise += abs(centre - min(max(sum(raw) / 4, 0.0), 1.0)) > 0.01
    assert otherwise > 1, "or the order of clipping and averaging would not show"


def test_rows_do_not_depend_on_their_neighbours_or_on_how_many_there_are(monkeypatch):
    """One at a time, in blocks, or all at once; lists will do."""
    predictor, rows = fixed()[0], np.random.default_rng(1).normal(size=(50, 3)).astype(np.float32)
    whole = predictor.normalised(rows, None)
    single = [predictor.normalised(row[None], None)[0] for row in rows]
    np.testing.assert_allclose(single, whole, rtol=0, atol=1e-6)
    monkeypatch.setattr("tightrope.posteriors.predictor._BLOCK", 7)
    np.testing.assert_allclose(predictor.normalised(rows, None), whole, rtol=0, atol=1e-6)
    np.testing.assert_allclose(predictor(rows.tolist()).mean, -2 + 8 * whole, rtol=0, atol=1e-5)
    assert predictor(rows[0]).mean.shape == predictor(rows[0]).spread.shape == (1,)
    assert predictor.normalised(rows[:0], None).shape == predictor(rows[:0]).mean.shape == (0,)


def test_a_long_log_needs_little_memory():
    """Predictions of 100,000 rows, whose hidden units would fill 13 MB for each of 4 networks."""
    predictor, rows = fixed()[0], np.zeros((100_000, 3), np.float32)
    tracemalloc.start()
    predictor.normalised(rows, None)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 5e6


@pytest.mark.parametrize("clock", [None, CLOCK], ids=["no clock", "clock"])
def test_predictions_along_episodes_are_those_of_their_steps(clock):
    rng, (predictor, _) = np.random.default_rng(2), fixed(clock=clock)
    episodes = join(
        [
            Episode(rng.normal(size=(steps, 3)).astype(np.float32), np.zeros(steps), False, True)
            for steps in (5, 20, 1)
        ]
    )
    expected = [
        predictor(row, elapsed=None if clock is None else t).mean[0]
        for episode in episodes
        for t, row in enumerate(episode.observations)
    ]
    np.testing.assert_allclose(predictor.along(episodes), expected, rtol=0, atol=1e-5)


# --- what it takes -----------------------------------------------------------------------------


def test_an_elapsed_time_is_needed_with_a_clock_and_not_looked_at_without():
    (plain, _), (timed, _) = fixed(), fixed(clock=CLOCK)
    expected = "expected `elapsed`, the steps since the start of the episode, for each of 7 obs"
    for elapsed in (None, 3, range(14, 21), range(8)):
        with pytest.raises(InputError, match=expected):
            timed(OBSERVATIONS, elapsed=elapsed)
    assert timed(OBSERVATIONS[0], elapsed=19).mean.shape == (1,)
    np.testing.assert_array_equal(plain(OBSERVATIONS, elapsed=99), plain(OBSERVATIONS))


def test_observations_of_another_shape_or_not_finite_in_float32_are_refused():
    for shape in ((4,), (2, 4), (2, 3, 1), (0,), ()):
        with pytest.raises(InputError, match=r"observations of 3 features, found shape \("):
            fixed()[0](np.zeros(shape, np.float32))
    for value in (np.nan, np.inf, -np.inf, 1e300):
        observations = OBSERVATIONS.astype(np.float64)
        observations[3, 1] = value
        with pytest.raises(InputError, match="finite observations, found NaN or infinity"):
            fixed()[0](observations)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda layers: [layer.astype(float) for layer in layers], "finite float32 weights"),
        (lambda layers: [layers[0] * np.float32(np.nan), *layers[1:]], "finite float32 weights"),
        (lambda layers: [layers[0][:2], *layers[1:]], "a layer of 16 inputs"),
        (lambda layers: layers[1:], "a layer of 3 inputs"),
        (lambda layers: layers[:-1], "one output, found 16"),
    ],
    ids=["float64", "NaN", "fewer", "another input", "many outputs"],
)
def test_layers_that_do_not_fit_are_an_input_error(change, said):
    layers = fixed()[0].layers
    with pytest.raises(InputError, match=said):
        ReturnPredictor(tuple(change(layers)), scaling())


# --- files -------------------------------------------------------------------------------------


CASES = [
    *(posteriors(), posteriors(clock=CLOCK), posteriors(12), posteriors(1, layer_norm=False)),
    *(fixed(), fixed(clock=Clock(1000, 1 / 3)), fixed(layer_norm=False)),
]


def assert_same(left, right):
    for a, b in zip(left, right, strict=True):
        np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("case", CASES)
def test_a_predictor_survives_its_file_bit_for_bit(case, tmp_path):
    path, (before, fitted) = tmp_path / "predictor.safetensors", case
    save_predictor(path, *case)
    after, again = load_predictor(path)
    assert len(again) == len(fitted)
    for left, right in zip(again, fitted, strict=True):
        assert_same(left.means, right.means)
        assert_same(left.log_variances, right.log_variances)
        assert left.layer_norm is right.layer_norm
    assert_same(after.layers, before.layers)
    assert after.layer_norm is before.layer_norm
    for name in ("low", "high", "source", "clock"):
        assert getattr(after.scaling, name) == getattr(before.scaling, name)
    for name in ("mean", "deviation"):
        np.testing.assert_array_equal(getattr(after.scaling, name), getattr(before.scaling, name))
    save_predictor(tmp_path / "again.safetensors", after, again)
    assert (tmp_path / "again.safetensors").read_bytes() == path.read_bytes()
    elapsed = None if before.scaling.clock is None else np.arange(7)
    assert_same(before(OBSERVATIONS, elapsed=elapsed), after(OBSERVATIONS, elapsed=elapsed))


def refused(path):
    """What is said about a file, in one line that names it."""
    with pytest.raises(InputError) as caught:
        load_predictor(path)
    said = str(caught.value)
    assert path.name in said
    assert "\n" not in said
    assert len(said) < 400 + len(str(path))
    return said


def damaged(tmp_path, case, changes=None, **header):
    """A well-formed safetensors file with other arrays, or another header; ... is left out."""
    (tmp_path / "good.safetensors").unlink(missing_ok=True)
    save_predictor(tmp_path / "good.safetensors", *case)
    arrays = load_file(tmp_path / "good.safetensors")
    with (tmp_path / "good.safetensors").open("rb") as stream:
        size = int.from_bytes(stream.read(8), "little")
        stated = json.loads(json.loads(stream.read(size))["__metadata__"]["tightrope"])
    for name, value in (changes or {}).items():
        arrays[name] = value(arrays[name]) if callable(value) else value
    arrays, stated = (
        {key: value for key, value in each.items() if value is not ...}
        for each in (arrays, {**stated, **header})
    )
    path = tmp_path / "bad.safetensors"
    save_file(arrays, path, metadata={"tightrope": json.dumps(stated)})
    return path


def starting(value):
    """The array with another first number."""

    def changed(old):
        found = old.copy()
        found.flat[0] = value
        return found

    return changed


DAMAGES = [
    *({name: ...} for name in ("scaling.range", "1.1.mean", "1.1.log_variance")),
    *({"scaling.range": np.array(ends)} for ends in ([1.0, 1.0], [0.0, 0.0, 0.0])),
    {"scaling.mean": np.ones(9, np.float32), "scaling.deviation": np.ones(9, np.float32)},
    {"scaling.deviation": starting(0.0)},
    {"1.1.mean": lambda old: old.astype(np.int32)},
    *({"1.1.mean": np.zeros(shape, np.float32)} for shape in ((17, 1), ())),
    {"0.1.log_variance": starting(np.inf)},
    {"1.1.log_variance": np.zeros((17, 1), np.float32)},
    {"2.2.mean": np.zeros((17, 2), np.float32)},
    {  # all log-variances of a posterior, those of a network with fewer hidden units
        f"1.{layer}.log_variance": np.zeros(shape, np.float32)
        for layer, shape in enumerate(((4, 8), (9, 8), (9, 1)))
    },
]
FIXED_DAMAGES = [
    {"network.1": ...},
    {f"network.{layer}": lambda old: old[:0] for layer in range(3)},
    {"network.1": lambda old: old[:2]},
    {"network.2": starting(-np.inf)},
]


def test_damaged_numbers_are_an_input_error(tmp_path):
    for case, damages in ((posteriors(), DAMAGES), (fixed(clock=CLOCK), FIXED_DAMAGES)):
        assert len(load_predictor(damaged(tmp_path, case))[1]) in (0, 3)  # unchanged it is read
        for changes in damages:
            said = refused(damaged(tmp_path, case, changes))
            assert "is damaged or no predictor: " in said, changes


HEADERS = [
    *({"range": value} for value in (..., "hearsay")),
    *({"clock": value} for value in (..., 20, {"limit": 20, "gamma": 2.0})),
    *({"layers": value} for value in (..., 0, 2, 4, "three")),
    *({"gaussians": value} for value in (..., -1, 0, 4, None)),
    {"layer_norm": 1},
]


def test_a_header_that_does_not_fit_is_an_input_error(tmp_path):
    for header in HEADERS:
        path = damaged(tmp_path, posteriors(clock=CLOCK), **header)
        assert "is damaged or no predictor: " in refused(path), header


def test_another_format_or_kind_of_file_is_an_input_error(tmp_path):
    for tag in ("tightrope.predictor/2", "tightrope.predictor/12", None, ...):
        found = repr(tag) if isinstance(tag, str) else "none"
        said = refused(damaged(tmp_path, posteriors(), format=tag))
        assert f"expected the format tightrope.predictor/3, found {found} in" in said
    path = tmp_path / "other.safetensors"
    assert "found nothing at" in refused(path)
    for metadata in (None, {"tightrope": "[2]"}):  # other harm: tests/fuzz/test_readers.py
        save_file(load_file(tmp_path / "good.safetensors"), path, metadata=metadata)
        refused(path)
