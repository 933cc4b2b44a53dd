"""Nothing leaks: what a posterior, the range or a bound may depend on, checked bit for bit.

rec-3 on nine validation episodes (portions of 2, 2 and 5) after four pilot episodes and before
two for testing. What must not matter is permuted, replaced or cut short.
"""

import dataclasses
import json

import numpy as np
import pytest
from recordings import recording, same, short_fits

from tightrope.certificates import Options, certify, certify_many
from tightrope.errors import InputError
from tightrope.rollouts import join

PILOT, VALIDATION, TEST = 4, 9, 2
ENDS = (2, 4, 9)  # of the portions, in validation episodes
OPTIONS = {
    "pilot_episodes": PILOT,
    "test_episodes": TEST,
    "thin": 1,
    "gamma": 0.5,
    "mc_passes": 2,
    "delta": 0.2,
    "delta_prime": 0.1,
    "seed": 3,
}


@pytest.fixture(autouse=True)
def _short_fits():
    with short_fits():
        yield


@pytest.fixture(scope="module")
def episodes():
    return recording(PILOT + VALIDATION + TEST, seed=1)


def rebuilt(episodes, first, last, change):
    """The recording with validation episodes `first` to `last` changed."""
    every = list(episodes)
    start, stop = PILOT + first, PILOT + last
    return join([*every[:start], *change(every[start:stop]), *every[stop:]], episodes.subject)


def permuted(chosen):
    order = np.random.default_rng(0).permutation(len(chosen))
    assert order.tolist() != list(range(len(chosen)))
    return [chosen[index] for index in order]


def other_rewards(chosen):
    return [dataclasses.replace(e, rewards=0.2 - 0.8 * e.rewards) for e in chosen]


def other_observations(chosen):
    return [dataclasses.replace(e, observations=40.0 - e.observations) for e in chosen]


def other_ends(chosen):
    return [
        dataclasses.replace(e, terminated=True, truncated=False, seed=e.seed + 1000) for e in chosen
    ]


def cut_short(chosen):
    last = chosen[-1]
    shorter = dataclasses.replace(
        last, observations=last.observations[:-1], rewards=last.rewards[:-1]
    )
    return [*chosen[:-1], shorter]


def revisited(chosen):
    """The last episode stays where it is: only its first step counts."""
    last = chosen[-1]
    still = np.repeat(last.observations[:1], len(last.rewards), axis=0)
    return [*chosen[:-1], dataclasses.replace(last, observations=still)]


CHANGES = [permuted, other_rewards, other_observations, other_ends, cut_short, revisited]


def posteriors(episodes, scheme, **options):
    return certify(episodes, scheme=scheme, **{**OPTIONS, **options}).chain.gaussians


@pytest.fixture(scope="module")
def untouched(episodes):
    """The posteriors of the recording as it is, fitted once for each scheme and unit."""
    fitted = {}

    def find(scheme, unit="step"):
        if (scheme, unit) not in fitted:
            fitted[scheme, unit] = posteriors(episodes, scheme, unit=unit)
        return fitted[scheme, unit]

    return find


@pytest.mark.parametrize("unit", ["step", "episode"])
@pytest.mark.parametrize("change", CHANGES)
def test_later_portions_leave_earlier_posteriors_bit_identical(change, unit, episodes, untouched):
    """rho_0 ... rho_t depend on S_<=t alone, whatever happens to S_t+1 ... S_T."""
    before = untouched("rec-3", unit)
    for t in (1, 2):
        spoilt = rebuilt(episodes, ENDS[t - 1], VALIDATION, change)
        after = posteriors(spoilt, "rec-3", unit=unit)
        assert len(before) == len(after) == 4
        for index in range(t + 1):
            assert same(before[index], after[index]), f"rho_{index} knows S_{t + 1}"


@pytest.mark.parametrize("change", [other_rewards, other_observations])
def test_a_portions_own_change_does_reach_its_posterior(change, episodes, untouched):
    """The counterpart: the comparison above would notice."""
    before = untouched("rec-3")
    for t in (1, 2, 3):
        spoilt = rebuilt(episodes, ([0, *ENDS])[t - 1], ENDS[t - 1], change)
        assert not same(before[t], posteriors(spoilt, "rec-3")[t])


@pytest.mark.parametrize("scheme", ["nonrec-inf", "holdout"])
@pytest.mark.parametrize("change", CHANGES)
def test_the_second_half_does_not_reach_the_informed_prior_or_the_frozen_predictor(
    scheme, change, episodes, untouched
):
    before = untouched(scheme)
    after = posteriors(rebuilt(episodes, 5, VALIDATION, change), scheme)
    assert same(before[0], after[0])
    assert same(before[1], after[1])


def test_an_informed_posterior_and_its_bound_come_from_the_second_half_only(episodes):
    """Given its prior, the posterior sees the second portion; the first is in no bound."""
    certificate = certify(episodes, scheme="nonrec-inf", **OPTIONS)
    assert certificate.n == 4 * 6
    assert [fit.rows for fit in certificate.fits] == [5 * 6, 4 * 6]


# --- test episodes ------------------------------------------------------------------------------

COMPARED = ("test_error", "constant_error", "tightness", "failed_fit", "digests")


def without_comparison(certificate):
    document = certificate.to_json()
    return {name: value for name, value in document.items() if name not in COMPARED}


@pytest.mark.parametrize("scheme", ["rec-3", "holdout"])
def test_test_episodes_change_nothing_but_the_comparison(scheme, episodes):
    before = certify(episodes, scheme=scheme, **OPTIONS)
    every = list(episodes)
    spoilt = join(
        [*every[:-TEST], *other_observations(other_rewards(every[-TEST:]))], episodes.subject
    )
    after = certify(spoilt, scheme=scheme, **OPTIONS)
    assert without_comparison(before) == without_comparison(after)
    assert before.test_error != after.test_error
    assert all(map(same, before.chain.gaussians, after.chain.gaussians))
    none = certify(
        episodes.span(0, PILOT + VALIDATION), scheme=scheme, **{**OPTIONS, "test_episodes": 0}
    )
    assert none.test_error is None
    assert none.portions == before.portions
    assert none.companions == before.companions
    assert all(map(same, before.chain.gaussians, none.chain.gaussians))


# --- pilot and validation -----------------------------------------------------------------------


@pytest.mark.parametrize("change", [permuted, other_rewards, other_observations, cut_short])
def test_validation_data_change_neither_the_range_nor_the_scaling_nor_the_first_prior(
    change, episodes
):
    before = certify(episodes, scheme="rec-2", **OPTIONS).chain
    after = certify(rebuilt(episodes, 0, VALIDATION, change), scheme="rec-2", **OPTIONS).chain
    for name in ("low", "high", "source"):
        assert getattr(before.scaling, name) == getattr(after.scaling, name)
    for name in ("mean", "deviation"):
        np.testing.assert_array_equal(getattr(before.scaling, name), getattr(after.scaling, name))
    assert same(before.gaussians[0], after.gaussians[0])


def test_the_default_thinning_of_a_log_does_not_look_at_validation_episodes(episodes):
    """Five for pilot episodes of one length, whatever comes after them; else three."""
    own = {**OPTIONS, "thin": None, "scheme": "rec-2"}
    assert certify(episodes, **own).thin == 5
    assert certify(rebuilt(episodes, 0, VALIDATION, cut_short), **own).thin == 5
    assert certify(rebuilt(episodes, 0, VALIDATION, other_ends), **own).thin == 5
    assert certify(rebuilt(episodes, -1, 0, cut_short), **own).thin == 3  # the last of the pilot
    assert certify(rebuilt(episodes, -1, 0, other_ends), **own).thin == 3


@pytest.mark.parametrize("scheme", ["nonrec-noninf", "nonrec-inf", "rec-2", "rec-6", "holdout"])
def test_pilot_and_test_episodes_are_counted_in_no_bound(scheme, episodes):
    certificate = certify(episodes, scheme=scheme, **OPTIONS)
    assert dict(certificate.episodes) == {"pilot": PILOT, "validation": VALIDATION, "test": TEST}
    whole = scheme not in ("nonrec-inf", "holdout")
    for found, per_episode in ((certificate.portions, 6), (certificate.other_portions, 1)):
        expected = VALIDATION if whole else 4
        assert (found[0].episodes, found[0].n) == (expected, expected * per_episode)
    assert certificate.steps == VALIDATION * 6
    assert {companion.n for companion in certificate.companions} == {VALIDATION}


def test_what_the_certificate_is_asked_for_beside_the_fit_does_not_reach_the_posteriors(episodes):
    before = posteriors(episodes, "rec-2")
    for options in ({"mc_passes": 5}, {"delta_prime": 0.3}, {"fail_below": 1.0}):
        assert all(map(same, before, posteriors(episodes, "rec-2", **options)))
    assert not same(before[1], posteriors(episodes, "rec-2", seed=4)[1])


# --- companions in computation ------------------------------------------------------------------


def assert_close(left, right, path=""):
    if isinstance(left, dict):
        assert set(left) == set(right), path
        for key in left:
            assert_close(left[key], right[key], f"{path}.{key}")
    elif isinstance(left, list):
        assert len(left) == len(right), path
        for index, (a, b) in enumerate(zip(left, right, strict=True)):
            assert_close(a, b, f"{path}[{index}]")
    elif isinstance(left, float):
        assert left == pytest.approx(right, rel=1e-3, abs=1e-5), path
    else:
        assert left == right, path


def document(certificate):
    return {name: value for name, value in certificate.to_json().items() if name != "digests"}


@pytest.mark.parametrize("sampling", ["local", "weights"])
def test_a_certificate_does_not_depend_on_how_many_repetitions_it_was_fitted_with(
    sampling, episodes
):
    request = Options(scheme="rec-3", **{**OPTIONS, "sampling": sampling})
    ((one, two, three),) = certify_many(episodes, [request], [3, 8, 9])
    ((alone,),) = certify_many(episodes, [request], [8])
    assert [c.options.seed for c in (one, two, three)] == [3, 8, 9]
    assert_close(document(two), document(alone))
    assert two.portions[0].bound != one.portions[0].bound
    single = certify(episodes, scheme="rec-3", **{**OPTIONS, "sampling": sampling, "seed": 8})
    assert document(single) == document(alone)


SCHEMES = ("holdout", "rec-6", "nonrec-inf", "rec-2", "nonrec-noninf", "2,2,5")


def test_a_certificate_does_not_depend_on_what_else_was_asked_for(episodes):
    requests = [Options(scheme=scheme, **OPTIONS) for scheme in SCHEMES]
    requests += [Options(scheme="rec-2", **{**OPTIONS, "preset": "paper"})]
    requests += [Options(scheme="rec-2", **{**OPTIONS, "unit": "episode"})]
    requests += [Options(scheme="rec-2", **{**OPTIONS, "kappa": 0.9})]
    requests += [Options(scheme="rec-2", **{**OPTIONS, "sampling": "weights"})]
    together = certify_many(episodes, requests, [3])
    for request, (certificate,) in zip(requests, together, strict=True):
        assert certificate.options == request
        alone = certify(episodes, **dataclasses.asdict(request))
        assert document(certificate) == document(alone), request
        assert all(map(same, certificate.chain.gaussians, alone.chain.gaussians))


def test_requests_about_different_data_are_refused(episodes):
    one = Options(**OPTIONS)
    with pytest.raises(InputError, match=r"one value of thin in all requests, found \[1, 2\]"):
        certify_many(episodes, [one, dataclasses.replace(one, thin=2)], [0])


@pytest.mark.parametrize(
    "changes", [{"thin": None}, {"episodes": 7}, {"return_range": (0.0, 1.0)}], ids=str
)
def test_requests_with_and_without_a_value_are_refused_as_well(changes, episodes):
    one = Options(**OPTIONS)
    with pytest.raises(InputError, match="one value of"):
        certify_many(episodes, [one, dataclasses.replace(one, **changes)], [0])


def test_the_same_call_gives_the_same_document(episodes):
    texts = {json.dumps(certify(episodes, scheme="rec-2", **OPTIONS).to_json()) for _ in range(2)}
    assert len(texts) == 1
