"""Regression on free data: what each network knows, when it stops, and in what units it speaks.

Folds are not told by the code. They are found from outside: changing the targets of an episode
leaves exactly those left-out predictions as they were whose network leaves that episode out.
"""

import dataclasses
import itertools
import math
from typing import NamedTuple

import numpy as np
import pytest
import torch
from interruptions import threads_when_interrupted
from numpy.typing import NDArray

from tightrope.posteriors import (
    PRESETS,
    Regression,
    ReturnPredictor,
    Scaling,
    informed_prior,
    kl_divergence,
    regress,
    regression,
)

SHORT = Regression(
    folds=3, steps=14, batch=16, exact_steps=14, exact_batch=16, learning_rate=1e-3, memory=5
)
ULP = 1e-6  # float32 predictions in [0, 1] of the same network, summed in another order


class Rows(NamedTuple):
    inputs: NDArray
    targets: NDArray


def settings(**changes):
    """Where nothing else is said, exact fits are as long and as wide as others."""
    for name in ("steps", "batch"):
        if name in changes:
            changes.setdefault(f"exact_{name}", changes[name])
    return dataclasses.replace(SHORT, **changes)


def data(episodes=7, steps=12, seed=0, *, noise=0.0):
    """Rows with a product of two features in their targets, and the episode of each row."""
    rng = np.random.default_rng(seed)
    inputs = rng.normal(size=(episodes * steps, 3)).astype(np.float32)
    raw = 1.5 * inputs[:, 0] * inputs[:, 1] + inputs[:, 2] + noise * rng.normal(size=len(inputs))
    targets = (1 / (1 + np.exp(-raw))).astype(np.float32)
    return Rows(inputs, targets), np.repeat(np.arange(episodes), steps)


def with_targets(rows, targets):
    return Rows(rows.inputs, np.asarray(targets))


def changed(rows, mask):
    """Other targets in some rows, so slightly that the updates still end where they did."""
    return with_targets(rows, (rows.targets * (1 - 0.05 * mask)).astype(np.float32))


def same_networks(left, right):
    return all(np.array_equal(a, b) for a, b in zip(left, right, strict=True))


def network(layers, index):
    """One of the networks."""
    return tuple(layer[index] for layer in layers)


def predictions(layers, inputs, *, layer_norm=True):
    """(rows,) by the average of networks, or by a single one; inputs are scaled."""
    layers = tuple(layer if layer.ndim == 3 else layer[None] for layer in layers)
    unscaled = np.zeros(inputs.shape[1], np.float32), np.ones(inputs.shape[1], np.float32)
    scaling = Scaling(0.0, 1.0, "user", *unscaled)
    return ReturnPredictor(layers, scaling, layer_norm).normalised(inputs.astype(np.float32), None)


# --- what each network knows -------------------------------------------------------------------


def untouched(rows, episode, own, *, exact):
    """For each episode: the episodes whose predictions stay, bit for bit, when its targets change.

    That holds as long as the number of updates stays: it alone is chosen on all folds.
    """
    before = regress(*rows, episode, own, 3, exact=exact)
    found = {}
    for name in np.unique(episode).tolist():
        after = regress(*changed(rows, episode == name), episode, own, 3, exact=exact)
        assert after.checks == before.checks
        assert after.steps == before.steps == own.steps
        assert not same_networks(after.single, before.single), "this one sees every row"
        kept = after.left_out == before.left_out
        groups = {other: kept[episode == other] for other in np.unique(episode).tolist()}
        assert all(group.all() or not group.any() for group in groups.values()), "whole episodes"
        found[name] = {other for other, group in groups.items() if group.all()}
        blind = [
            k
            for k in range(len(before.layers[0]))
            if same_networks(network(before.layers, k), network(after.layers, k))
        ]
        assert len(blind) == 1, "one network has not seen the change, all others have"
    return found


@pytest.mark.parametrize("exact", [False, True], ids=["float32", "float64"])
def test_a_left_out_prediction_does_not_depend_on_the_targets_of_its_fold(exact):
    """Bit for bit; and folds are whole episodes, every episode in one, sizes as even as can be."""
    rows, episode = data()
    found = untouched(rows, episode, SHORT, exact=exact)
    assert all(name in others for name, others in found.items())
    folds = {frozenset(others) for others in found.values()}
    assert sorted(len(fold) for fold in folds) == [2, 2, 3]
    assert sorted(itertools.chain.from_iterable(folds)) == list(range(7))


def test_episodes_may_have_any_names_lengths_and_order():
    """Rows shuffled, names with gaps; more folds wanted than there are episodes."""
    rows, _ = data(1, 60)
    episode = np.random.default_rng(1).permutation(np.repeat([40, 7, 10**6], [30, 9, 21]))
    found = untouched(rows, episode, settings(folds=8), exact=False)
    assert found == {7: {7}, 40: {40}, 10**6: {10**6}}


def test_left_out_predictions_are_those_of_one_network_of_the_average_for_whole_episodes():
    """And never of the last one, which has seen everything."""
    rows, episode = data()
    found = regress(*rows, episode, SHORT, 3)
    each = np.stack([predictions(network(found.layers, k), rows.inputs) for k in range(4)])
    by = set()
    for name in range(7):
        distance = abs(each - found.left_out)[:, episode == name].max(axis=1)
        assert distance.min() < ULP < np.sort(distance)[1] / 100
        by.add(int(distance.argmin()))
    assert by == {0, 1, 2}
    assert same_networks(found.single, network(found.layers, 3))


# --- a function of its seed --------------------------------------------------------------------


@pytest.mark.parametrize("exact", [False, True], ids=["float32", "float64"])
def test_a_regression_is_a_function_of_its_seed(exact):
    rows, episode = data()
    one = regress(*rows, episode, SHORT, 5, exact=exact)
    torch.manual_seed(999)  # global randomness is not used
    state = torch.get_rng_state()
    again = regress(*rows, episode, SHORT, 5, exact=exact)
    assert torch.equal(torch.get_rng_state(), state)
    other = regress(*rows, episode, SHORT, 6, exact=exact)
    assert same_networks(one.layers, again.layers)
    np.testing.assert_array_equal(one.left_out, again.left_out)
    assert (one.checks, one.errors, one.steps) == (again.checks, again.errors, again.steps)
    assert not same_networks(one.layers, other.layers)


def test_an_exact_regression_does_not_depend_on_how_products_round():
    """Whoever verifies a certificate fits its prior again, alone and elsewhere.

    Inputs that are off by 1e-13, a thousand times what float64 rounds off, stand for another
    processor. In float32, inputs off by their last digit end in another prior.
    """
    rows, episode = data()
    own = settings(steps=40, folds=2, memory=20)
    one = regress(*rows, episode, own, 1, exact=True)
    nearly = rows.inputs.astype(float) * (1 + 1e-13), rows.targets.astype(float) * (1 - 1e-13)
    elsewhere = regress(*nearly, episode, own, 1, exact=True)
    assert elsewhere.steps == one.steps
    np.testing.assert_allclose(elsewhere.left_out, one.left_out, rtol=0, atol=1e-9)
    np.testing.assert_allclose(elsewhere.errors, one.errors, rtol=1e-9)
    assert all(layer.dtype == np.float32 for layer in (*one.layers, *one.single))
    assert (one.left_out != one.left_out.astype(np.float32)).any(), "more digits than float32 has"
    assert nats(one, elsewhere) < 1e-9
    scales = np.float32([1, 1 + 2e-7])
    rough = [regress(rows.inputs * scale, rows.targets, episode, own, 1) for scale in scales]
    assert nats(*rough) > 1e-5


def nats(left, right):
    """How far apart two regressions are as priors of `tight`."""
    return kl_divergence(*(informed_prior(PRESETS["tight"], each.single) for each in (left, right)))


@pytest.mark.parametrize("exact", [False, True], ids=["float32", "float64"])
def test_a_regression_does_not_depend_on_the_number_of_cores_or_threads(exact, monkeypatch):
    """Bit for bit, with networks one after the other or side by side.

    torch sums numbers in an order that depends on its threads from 32,768 of them on.
    """
    (rows, episode), found = data(60, 1000), []
    own = settings(steps=6, batch=64, hidden=(8, 8))
    before = torch.get_num_threads()
    try:
        for cores, threads in ((1, 1), (2, 1), (4, 2)):
            monkeypatch.setattr("os.cpu_count", lambda cores=cores: cores)
            torch.set_num_threads(threads)
            found.append(regress(*rows, episode, own, 1, exact=exact))
            assert torch.get_num_threads() == threads
    finally:
        torch.set_num_threads(before)
    for other in found[1:]:
        assert same_networks(other.layers, found[0].layers)
        np.testing.assert_array_equal(other.left_out, found[0].left_out)
        assert other.errors == found[0].errors


def test_torch_has_one_thread_meanwhile_and_gets_its_own_back_when_interrupted():
    rows, episode = data()
    assert threads_when_interrupted(
        lambda stop: regress(*rows, episode, SHORT, 0, advance=stop)
    ) == [1]


def test_an_interrupt_in_one_network_ends_the_others(monkeypatch):
    """Whose first look would come after 50,000 updates each."""
    (rows, episode), made, done = data(), [], []
    start, adam = regression.Adam.__init__, regression.Adam.descend

    def started(self, *arguments):
        made.append(self)
        start(self, *arguments)

    def interrupted(self, *arguments):
        done.append(self)
        if self is made[0] and done.count(self) == 5:
            raise KeyboardInterrupt
        adam(self, *arguments)

    monkeypatch.setattr(regression.Adam, "__init__", started)
    monkeypatch.setattr(regression.Adam, "descend", interrupted)
    with pytest.raises(KeyboardInterrupt):
        regress(*rows, episode, settings(steps=500_000, batch=1, hidden=(4,)), 0)
    assert len(done) < 50_000 * (len(made) - 1)


# --- what it learns ----------------------------------------------------------------------------


def test_it_learns_a_product_that_neither_a_constant_nor_a_line_can():
    """Judged on new rows, and by the folds left out, which agree."""
    (rows, episode), (unseen, _) = data(20, 40), data(20, 100, seed=99)
    own = settings(folds=2, steps=250, batch=64, learning_rate=3e-3, memory=50)
    found = regress(*rows, episode, own, 0)
    truth = unseen.targets.astype(float)
    design = [
        np.c_[each.inputs.astype(float), np.ones(len(each.inputs))] for each in (rows, unseen)
    ]
    weights = np.linalg.lstsq(design[0], rows.targets.astype(float), rcond=None)[0]
    constant, line = truth.var(), np.mean((design[1] @ weights - truth) ** 2)
    error = np.mean((predictions(found.layers, unseen.inputs) - truth) ** 2)
    assert line < constant
    single = np.mean((predictions(found.single, unseen.inputs) - truth) ** 2)
    assert max(error, single) < 0.1 * line
    left_out = np.mean((found.left_out - rows.targets) ** 2)
    assert 0.5 * error < left_out < 4 * error


def test_networks_without_layer_normalisation_learn_as_such_and_predict_within_the_range():
    rows, episode = data(10, 40)
    own = settings(folds=2, steps=100, batch=64, learning_rate=3e-3, memory=20)
    found = regress(*rows, episode, own, 0, layer_norm=False)
    own_kind, other = (
        np.mean((predictions(found.layers, rows.inputs, layer_norm=on) - rows.targets) ** 2)
        for on in (False, True)
    )
    assert own_kind < 0.2 * min(rows.targets.var(), other)
    hard = with_targets(rows, (rows.inputs[:, 2] > 0).astype(np.float32))
    left_out = regress(*hard, episode, settings(steps=60, learning_rate=1e-2), 0).left_out
    assert (left_out.dtype, left_out.min(), left_out.max()) == (np.float64, 0.0, 1.0)


def test_constant_targets_are_predicted_as_they_are():
    rows, episode = data()
    for value, exact in ((0.0, False), (0.3, True), (1.0, False)):
        constant = np.full(84, value, np.float32)
        found = regress(rows.inputs, constant, episode, SHORT, 0, exact=exact)
        np.testing.assert_allclose(found.left_out, value, atol=1e-5)
        np.testing.assert_allclose(predictions(found.layers, rows.inputs), value, atol=1e-5)
        assert max(found.errors) < 1e-10


# --- in the units of the targets ---------------------------------------------------------------


def test_the_average_reaches_over_the_memory():
    """A last layer that walks by one learning rate in each update, against the plain recursion.

    Targets are 0 or 1 by one feature of inputs that all have the same size, so the sign of every
    gradient of the last layer is the same in each of a few updates.
    """
    inputs = np.tile(np.float32([[1.0, 0.0, 0.0], [-1.0, 0.0, 0.0]]), (40, 1))
    targets = (inputs[:, 0] > 0).astype(np.float32)
    own = settings(steps=30, batch=1000, learning_rate=1e-5, memory=2)
    found = regress(inputs, targets, np.zeros(80, int), own, 0, exact=True)
    average = 0.0
    for step in range(1, 31):
        average += max(1 / 2, 1 / (1 + step / 10)) * (step - average)
    walked = abs(found.single[-1][:-1, 0].astype(float)) / (1e-5 * 0.5)
    assert np.median(walked) == pytest.approx(average, rel=0.02)


# --- when it stops -----------------------------------------------------------------------------


def test_it_stops_when_nothing_has_improved_for_long_and_takes_the_best_look():
    """Few rows with much noise: left-out predictions get better, and soon worse again.

    Looks are geometric: each at the same factor of the one before, down to whole updates.
    """
    rows, episode = data(6, 15, noise=0.7)
    own, advanced = settings(folds=2, steps=300, memory=20), []
    found = regress(*rows, episode, own, 0, advance=advanced.append)
    gaps = regression._CHECKS - 1
    looks = [300 * regression._FIRST ** (1 - place / gaps) for place in range(gaps + 1)]
    best, least = 0, math.inf
    for place, (step, error) in enumerate(zip(found.checks, found.errors, strict=True)):
        assert looks[place] - 1 < step <= looks[place] + 1e-6
        if error <= least:
            best, least = step, error
        over = step >= regression._PATIENCE * best
        assert over == (place == len(found.checks) - 1), (place, found.checks, found.errors)
    assert found.steps == best < found.checks[-1] < own.steps, "or this test would say nothing"
    error = np.mean((found.left_out - rows.targets.astype(float)) ** 2)
    assert least == pytest.approx(error, rel=1e-6)
    # A regression that is told to end there ends with the same networks.
    ended = regress(*rows, episode, dataclasses.replace(own, steps=best), 0)
    assert ended.steps == ended.checks[-1] == best
    assert same_networks(found.layers, ended.layers)
    np.testing.assert_array_equal(found.left_out, ended.left_out)
    # Progress adds up to all updates, whether they were needed or not.
    for steps in (1, 2, 20):
        regress(*rows, episode, settings(steps=steps), 0, advance=advanced.append)
    assert (min(advanced) >= 0, sum(advanced)) == (True, 323)


def test_an_exact_regression_has_updates_and_mini_batches_of_its_own():
    rows, episode = data()
    one, same, other = (
        regress(*rows, episode, settings(batch=batch, exact_batch=exact), 5, exact=True)
        for batch, exact in ((16, 8), (32, 8), (16, 4))
    )
    assert same_networks(one.layers, same.layers)
    assert not same_networks(one.layers, other.layers)
    short = settings(steps=14, exact_steps=6)
    assert regress(*rows, episode, short, 5, exact=True).checks[-1] == short.updates(True) == 6
    assert regress(*rows, episode, short, 5).checks[-1] > 6
