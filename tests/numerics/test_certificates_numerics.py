"""Certificates where arithmetic is hard: extreme ranges, two episodes, one step, tiny deltas."""

import dataclasses
import math
import warnings
from functools import partial

import numpy as np
import pytest
import torch
from recordings import recording, short_fits

from tightrope.certificates import certify, issue, to_document, write
from tightrope.certificates.verify import verify
from tightrope.errors import InputError
from tightrope.rollouts import join

SCHEMES = ("holdout", "rec-2", "nonrec-noninf", "nonrec-inf", "auto")
certified = partial(certify, seed=1, mc_passes=2, gamma=0.9)


@pytest.fixture(autouse=True)
def quick():
    with short_fits(hidden=(16, 16)), warnings.catch_warnings():
        warnings.simplefilter("error", RuntimeWarning)  # of NumPy: overflow, invalid values
        yield


@pytest.fixture(scope="module")
def episodes():
    return recording(24, 5, seed=1)


def scaled(episodes, factor, shift=0.0):
    return join(
        [dataclasses.replace(one, rewards=one.rewards * factor + shift) for one in episodes],
        episodes.subject,
    )


def numbers(content, path=""):
    """Every number of a document, with where it is."""
    if isinstance(content, dict):
        for key, value in content.items():
            yield from numbers(value, f"{path}.{key}")
    elif isinstance(content, list | tuple):
        for index, value in enumerate(content):
            yield from numbers(value, f"{path}[{index}]")
    elif isinstance(content, float):
        yield path, content


def assert_sound(certificate):
    """Finite throughout; no statement claims more than was seen."""
    for path, value in numbers(to_document(certificate)):
        assert math.isfinite(value), path
    assert 0 <= certificate.train_error <= certificate.bound <= 1
    for statement in certificate.statements:
        if statement.kind == "mean-risk":
            assert statement.estimate <= statement.rms_raw
        elif statement.kind in ("return", "failure") and statement.estimate is not None:
            worse = statement.value_raw if statement.kind == "return" else statement.value
            outward = 1 if statement.direction == "at-most" else -1
            assert outward * (worse - statement.estimate) >= 0


@pytest.mark.parametrize("factor", [1e-30, 1e30])
@pytest.mark.parametrize("scheme", ["holdout", "rec-2"])
def test_the_unit_of_the_rewards_does_not_matter(scheme, factor, episodes):
    plain = certified(episodes, scheme=scheme, pilot_episodes=6)
    other = certified(scaled(episodes, factor), scheme=scheme, pilot_episodes=6)
    assert_sound(other)
    assert other.bound == pytest.approx(plain.bound, rel=1e-5)
    assert other.rms_raw == pytest.approx(plain.rms_raw * factor, rel=1e-5)
    assert other.bound_raw == pytest.approx(plain.bound_raw * factor**2, rel=1e-5)


@pytest.mark.parametrize("factor", [1e-320, 1e-160, 1e-110, 1e110, 1e160, 1e300])
def test_a_range_whose_square_is_no_number_is_refused(factor, episodes):
    """In return units a bound would be infinite, or 0 for an error that is not."""
    with pytest.raises(InputError, match="expected a return range between 1e-100 and 1e"):
        certified(scaled(episodes, factor), scheme="holdout", pilot_episodes=6)


def test_returns_that_float64_hardly_tells_apart_are_refused(episodes):
    assert_sound(certified(scaled(episodes, 1.0, 1e6), scheme="holdout", pilot_episodes=6))
    with pytest.raises(InputError, match="at least 1e-10 of its largest value"):
        certified(scaled(episodes, 1.0, 1e12), scheme="holdout", pilot_episodes=6)


@pytest.mark.parametrize("scheme", SCHEMES)
def test_two_episodes_and_one_step_each_are_enough_for_a_true_certificate(scheme, tmp_path):
    two = certified(recording(4, 5, seed=2), scheme=scheme, pilot_episodes=2)
    assert_sound(two)
    assert two.bound > 0.8  # two episodes show next to nothing
    for unit in ("step", "episode"):
        short = certified(recording(12, 1, seed=3), scheme=scheme, pilot_episodes=4, unit=unit)
        assert_sound(short)
        assert short.n <= 8  # a step is an episode
    write(two, tmp_path / "two")
    write(short, tmp_path / "short")
    assert verify(tmp_path / "two") == verify(tmp_path / "short") == []


@pytest.mark.parametrize("scheme", SCHEMES)
def test_a_smaller_delta_never_gives_a_smaller_bound(scheme, episodes):
    """The steps are so large that a fit that knows delta cannot make up for them."""
    found = []
    for delta in (1e-3, 1e-6, 1e-12):
        certificate = certified(
            episodes, scheme=scheme, pilot_episodes=6, delta=delta, delta_prime=delta
        )
        assert_sound(certificate)
        assert certificate.confidence == pytest.approx(1 - 2 * delta, abs=1e-15)
        found.append(certificate.bound)
    assert found == sorted(found)


def test_a_float64_fit_states_nearly_what_a_float32_fit_states(episodes, monkeypatch):
    """The fits end apart in the last digits of float32; each statement is true of its own fit."""
    single = certified(episodes, scheme="holdout", pilot_episodes=6)
    plain = issue.regress
    monkeypatch.setattr(issue, "regress", lambda *a, **k: plain(*a, **{**k, "exact": True}))
    double = certified(episodes, scheme="holdout", pilot_episodes=6)
    assert_sound(double)
    assert double.bound == pytest.approx(single.bound, rel=1e-3)
    for left, right in zip(single.statements, double.statements, strict=True):
        assert left.value == pytest.approx(right.value, rel=1e-2)


def test_losses_of_a_network_in_float32_are_those_in_float64_to_six_digits(episodes):
    network = certified(episodes, scheme="holdout", pilot_episodes=6).chain.network
    wide = dataclasses.replace(network, layers=tuple(layer.double() for layer in network.layers))
    inputs = torch.randn(200, network.layers[0].shape[1] - 1)
    difference = np.abs(network.outputs(inputs) - wide.outputs(inputs.double()))
    assert difference.max() < 1e-6
