"""Certificates where arithmetic is hard: extreme ranges, two episodes, one step, tiny deltas."""

import dataclasses
import math
import warnings
from functools import partial

import pytest
from recordings import certified as issued
from recordings import recording, short

from tightrope.certificates import Options, settle, to_document, write
from tightrope.certificates.certify import issue
from tightrope.certificates.fitting import fit_predictor
from tightrope.certificates.verify import verify
from tightrope.errors import InputError
from tightrope.posteriors import regress
from tightrope.rollouts import join

SCHEMES = ("holdout", "rec-2", "nonrec-noninf", "nonrec-inf", "auto")
GIVEN = {"seed": 1, "mc_passes": 2, "gamma": 0.9}


def certified(episodes, scheme, pilot=6, **options):
    """With so many pilot episodes, or as many to fit."""
    name = "fit_episodes" if scheme in ("holdout", "auto") else "pilot_episodes"
    counts = {name: pilot}
    return issued(episodes, scheme=scheme, **{**GIVEN, **counts, **options})


@pytest.fixture(autouse=True)
def quick():
    with warnings.catch_warnings():
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
    plain = certified(episodes, scheme)
    other = certified(scaled(episodes, factor), scheme)
    assert_sound(other)
    assert other.bound == pytest.approx(plain.bound, rel=1e-5)
    assert other.rms_raw == pytest.approx(plain.rms_raw * factor, rel=1e-5)
    assert other.bound_raw == pytest.approx(plain.bound_raw * factor**2, rel=1e-5)


@pytest.mark.parametrize("factor", [1e-320, 1e-160, 1e-110, 1e110, 1e160, 1e300])
def test_a_range_whose_square_is_no_number_is_refused(factor, episodes):
    """In return units a bound would be infinite, or 0 for an error that is not."""
    with pytest.raises(InputError, match="between 1e-100 and 1e"):
        certified(scaled(episodes, factor), "holdout")


def test_returns_that_float64_hardly_tells_apart_are_refused(episodes):
    assert_sound(certified(scaled(episodes, 1.0, 1e6), "holdout"))
    with pytest.raises(InputError, match="at least 1e-10 of its largest value"):
        certified(scaled(episodes, 1.0, 1e12), "holdout")


@pytest.mark.parametrize("scheme", SCHEMES)
def test_two_episodes_and_one_step_each_are_enough_for_a_true_certificate(scheme, tmp_path):
    two = certified(recording(4, 5, seed=2), scheme, pilot=2)
    assert_sound(two)
    assert two.bound > 0.8  # two episodes show next to nothing
    for unit in ("step", "episode"):
        short = certified(recording(12, 1, seed=3), scheme, pilot=4, unit=unit)
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
        certificate = certified(episodes, scheme, delta=delta, delta_prime=delta)
        assert_sound(certificate)
        assert certificate.confidence == pytest.approx(1 - 2 * delta, abs=1e-15)
        found.append(certificate.bound)
    assert found == sorted(found)


def test_a_float64_fit_states_nearly_what_a_float32_fit_states(episodes):
    """The fits end apart in the last digits of float32; each statement is true of its own fit."""
    options = Options(scheme="holdout", **GIVEN)
    settings = settle(options, episodes, preset=short("tight"))

    def in_float64(inputs, targets, episode, own, seed, **more):
        same = dataclasses.replace(own, exact_batch=own.batch, exact_steps=own.steps)
        return regress(inputs, targets, episode, same, seed, **{**more, "exact": True})

    single = issue(episodes, settings)
    double = issue(episodes, settings, fit=partial(fit_predictor, regress=in_float64))
    assert_sound(double)
    assert double.bound == pytest.approx(single.bound, rel=1e-3)
    for left, right in zip(single.statements, double.statements, strict=True):
        assert left.value == pytest.approx(right.value, rel=1e-2)
