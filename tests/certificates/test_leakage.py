"""Nothing leaks: what a predictor, a prior, the scaling or a bet may depend on, bit for bit.

Nine validation episodes after four pilot episodes and before two for testing: portions of 2, 2 and
5 for rec-3, of 5 and 4 for nonrec-inf and holdout, of 2 and 7 for auto. What must not matter is
permuted, replaced, cut short or made longer.
"""

import dataclasses
import json

import numpy as np
import pytest
import torch
from recordings import recording, same, short_fits
from tightrope.certificates.data import prepare, view

from tightrope.certificates import Options, certify, certify_many, to_document
from tightrope.errors import InputError
from tightrope.posteriors.regression import Regression, regress
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
def _short_fits_of_small_networks():
    with short_fits(hidden=(16, 16)):
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


def made_longer(chosen):
    last = chosen[-1]
    longer = dataclasses.replace(
        last,
        observations=np.concatenate([last.observations, last.observations[-1:] + 1]),
        rewards=np.append(last.rewards, 0.7),
    )
    return [*chosen[:-1], longer]


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


# --- predictors and priors from free data -------------------------------------------------------

FREE = {"auto": 1, "holdout": 5, "nonrec-inf": 5}


def fixed_beforehand(certificate):
    """All that must stand before the episodes of the bounds are looked at, as bytes."""
    chain, scaling = certificate.chain, certificate.chain.scaling
    first = 1 if certificate.preset == "tight" else 2  # the prior; `paper` fits it like a posterior
    tensors = [] if certificate.scheme == "nonrec-inf" else list(chain.network.layers)
    for gaussians in chain.gaussians[:first]:
        tensors += [*gaussians.means, *gaussians.log_variances]
    return {
        "tensors": [tensor.numpy().tobytes() for tensor in tensors],
        "range": (scaling.low, scaling.high, scaling.source),
        "scaling": (scaling.mean.tobytes(), scaling.deviation.tobytes()),
        "clock": scaling.clock,
        "beforehand": certificate.beforehand,
        "thin": certificate.thin,
        "ledger": certificate.ledger,
        "first fit": certificate.fits[0],
    }


@pytest.fixture(scope="module")
def longer():
    """Enough steps in the free episodes for a profile of the band."""
    return recording(PILOT + VALIDATION + TEST, 40, seed=1)


@pytest.mark.parametrize("preset", ["tight", "paper"])
@pytest.mark.parametrize("scheme", FREE)
def test_what_is_fixed_on_free_data_does_not_know_the_episodes_of_the_bounds(
    scheme, preset, longer
):
    """Predictor, prior, scaling, clock, bets and profile; contents and lengths changed alike."""
    own = {**OPTIONS, "scheme": scheme, "preset": preset, "thin": "auto"}
    for changes in ({}, {"clock": "off"}):
        before = certify(longer, **own, **changes)
        if preset == "tight" and scheme != "nonrec-inf":
            assert len(before.beforehand.profile) == (1 if changes else 20)
            assert before.beforehand.bets
        every = [*CHANGES, made_longer] if changes else CHANGES
        for change in every:
            after = certify(rebuilt(longer, FREE[scheme], VALIDATION, change), **own, **changes)
            assert fixed_beforehand(before) == fixed_beforehand(after), (change, changes)
            assert before.portions != after.portions or change in (permuted, other_ends)
        # The counterpart: the comparison would notice.
        for change in (other_rewards, other_observations):
            after = certify(rebuilt(longer, 0, FREE[scheme], change), **own, **changes)
            assert fixed_beforehand(before)["tensors"] != fixed_beforehand(after)["tensors"]


def test_the_number_of_later_episodes_is_all_that_a_plan_of_bets_knows(longer):
    """More of them change the plan: it is made for their number, which is fixed beforehand."""
    own = {**OPTIONS, "test_episodes": 0}
    one = certify(longer.span(0, PILOT + 9), scheme="1,1", **own)
    assert one.beforehand.bet is not None
    held = {
        episodes: certify(longer, scheme="holdout", **{**own, "episodes": episodes}).beforehand
        for episodes in (9, 10)  # both with five free ones
    }
    assert held[9].bets != held[10].bets
    assert held[9].profile == held[10].profile


def test_bets_are_planned_on_errors_of_networks_that_left_the_episode_out(longer, monkeypatch):
    """Returns of one free episode mirrored at their mean: its own left-out predictions stay.

    One look at the end, so that nothing is chosen among several; a mirror changes neither mean nor
    spread.
    """
    monkeypatch.setattr("tightrope.posteriors.regression._FIRST", 1.0)
    options = Options(scheme="holdout", **OPTIONS)
    seen = view(prepare(longer, options), options)
    settings = Regression(
        folds=3,
        steps=30,
        batch=64,
        exact_steps=30,
        exact_batch=64,
        learning_rate=0.01,
        memory=10,
        hidden=(16, 16),
    )
    own = seen.free_episode == 2
    targets = seen.free.targets.clone()
    targets[own] = 2 * targets[own].mean() - targets[own]
    before, after = (
        regress(rows, seen.free_episode, settings, 5, exact=True)
        for rows in (seen.free, dataclasses.replace(seen.free, targets=targets))
    )
    np.testing.assert_allclose(before.left_out[own], after.left_out[own], atol=1e-5)
    moved = np.abs(before.left_out - after.left_out)[~own]
    assert moved.max() > 1e-2  # others did see it


@pytest.mark.parametrize(
    ("scheme", "episodes_in_bounds"), [("nonrec-inf", 4), ("holdout", 4), ("auto", 8)]
)
def test_free_episodes_are_in_no_bound(scheme, episodes_in_bounds, episodes):
    certificate = certify(episodes, scheme=scheme, **OPTIONS)
    assert certificate.n == episodes_in_bounds * 6
    assert certificate.portions[0].episodes == episodes_in_bounds
    for statement in certificate.statements:
        if statement.kind in ("tolerance", "band", "monitor"):
            assert statement.n == episodes_in_bounds
    posterior = [fit.rows for fit in certificate.fits if fit.kind == "posterior"]
    assert posterior == ([4 * 6] if scheme == "nonrec-inf" else [])


# --- test episodes ------------------------------------------------------------------------------

COMPARED = (
    *("test_error", "constant_error", "per_step_error", "tightness", "failed_fit", "digests"),
)


def without_comparison(certificate):
    document = to_document(certificate)
    return {name: value for name, value in document.items() if name not in COMPARED}


def fitted(certificate):
    chain = certificate.chain
    tensors = [*chain.network.layers]
    for gaussians in chain.gaussians:
        tensors += [*gaussians.means, *gaussians.log_variances]
    return tensors


@pytest.mark.parametrize("scheme", ["rec-3", "holdout", "auto"])
def test_test_episodes_change_nothing_but_the_comparison(scheme, episodes):
    before = certify(episodes, scheme=scheme, **OPTIONS)
    every = list(episodes)
    spoilt = join(
        [*every[:-TEST], *other_observations(other_rewards(every[-TEST:]))], episodes.subject
    )
    after = certify(spoilt, scheme=scheme, **OPTIONS)
    assert without_comparison(before) == without_comparison(after)
    assert before.test_error != after.test_error
    assert all(map(torch.equal, fitted(before), fitted(after)))
    none = certify(
        episodes.span(0, PILOT + VALIDATION), scheme=scheme, **{**OPTIONS, "test_episodes": 0}
    )
    assert none.test_error is None
    assert none.portions == before.portions
    assert none.statements == before.statements
    assert all(map(torch.equal, fitted(before), fitted(none)))


# --- pilot and validation -----------------------------------------------------------------------


@pytest.mark.parametrize("change", [permuted, other_rewards, other_observations, cut_short])
def test_validation_data_change_neither_the_range_nor_the_scaling_nor_the_first_prior(
    change, episodes
):
    before = certify(episodes, scheme="rec-2", **OPTIONS).chain
    after = certify(rebuilt(episodes, 0, VALIDATION, change), scheme="rec-2", **OPTIONS).chain
    for name in ("low", "high", "source", "clock"):
        assert getattr(before.scaling, name) == getattr(after.scaling, name)
    for name in ("mean", "deviation"):
        np.testing.assert_array_equal(getattr(before.scaling, name), getattr(after.scaling, name))
    assert same(before.gaussians[0], after.gaussians[0])


def test_the_default_thinning_of_a_log_does_not_look_at_validation_episodes(episodes):
    """Five for pilot episodes of one length, whatever comes after them; else three."""
    own = {**OPTIONS, "thin": "auto", "scheme": "rec-2"}
    assert certify(episodes, **own).thin == 5
    assert certify(rebuilt(episodes, 0, VALIDATION, cut_short), **own).thin == 5
    assert certify(rebuilt(episodes, 0, VALIDATION, other_ends), **own).thin == 5
    assert certify(rebuilt(episodes, -1, 0, cut_short), **own).thin == 3  # the last of the pilot
    assert certify(rebuilt(episodes, -1, 0, other_ends), **own).thin == 3


@pytest.mark.parametrize(
    "scheme", ["nonrec-noninf", "nonrec-inf", "rec-2", "rec-6", "holdout", "auto"]
)
def test_pilot_and_test_episodes_are_counted_in_no_bound(scheme, episodes):
    certificate = certify(episodes, scheme=scheme, **OPTIONS)
    free = FREE.get(scheme, 0)
    assert dataclasses.asdict(certificate.episodes) == {
        "pilot": PILOT,
        "validation": VALIDATION,
        "free": free,
        "test": TEST,
    }
    for found, per_episode in ((certificate.portions, 6), (certificate.other_portions, 1)):
        expected = VALIDATION - free
        assert (found[0].episodes, found[0].n) == (expected, expected * per_episode)
    assert certificate.steps == VALIDATION * 6
    outcomes = [s.n for s in certificate.statements if s.kind in ("return", "failure")]
    assert set(outcomes) == {VALIDATION}


def test_what_the_certificate_is_asked_for_beside_the_fit_does_not_reach_the_posteriors(episodes):
    before = posteriors(episodes, "rec-2")
    for options in ({"mc_passes": 5}, {"fail_below": 1.0}, {"candidates": 3}):
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
    return {name: value for name, value in to_document(certificate).items() if name != "digests"}


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


SCHEMES = ("auto", "holdout", "rec-6", "nonrec-inf", "rec-2", "nonrec-noninf", "2,2,5")


def test_a_certificate_does_not_depend_on_what_else_was_asked_for(episodes):
    requests = [Options(scheme=scheme, **OPTIONS) for scheme in SCHEMES]
    requests += [
        Options(scheme=scheme, **{**OPTIONS, **changes})
        for scheme, changes in (
            ("rec-2", {"preset": "paper"}),
            ("rec-6", {"preset": "paper"}),  # has no regression to share
            ("holdout", {"preset": "paper"}),
            ("rec-2", {"unit": "episode"}),
            ("rec-2", {"kappa": 0.9}),
            ("rec-2", {"sampling": "weights"}),
            ("rec-2", {"clock": "off"}),
            ("auto", {"time_limit": 50}),
            ("rec-2", {"time_limit": 50}),
            ("auto", {"candidates": 4}),
        )
    ]
    together = certify_many(episodes, requests, [3])
    for request, (certificate,) in zip(requests, together, strict=True):
        asked = dataclasses.replace(
            request, **{n: getattr(certificate.options, n) for n in SETTLED}
        )
        assert certificate.options == asked
        alone = certify(episodes, **dataclasses.asdict(request))
        assert document(certificate) == document(alone), request
        assert all(map(torch.equal, fitted(certificate), fitted(alone)))


SETTLED = ("clock", "time_limit", "episodes", "device")


def test_requests_about_different_data_are_refused(episodes):
    one = Options(**OPTIONS)
    with pytest.raises(InputError, match=r"one value of `thin` in all requests, found \[1, 2\]"):
        certify_many(episodes, [one, dataclasses.replace(one, thin=2)], [0])


@pytest.mark.parametrize(
    "changes", [{"thin": "auto"}, {"episodes": 7}, {"return_range": (0.0, 1.0)}], ids=str
)
def test_requests_with_and_without_a_value_are_refused_as_well(changes, episodes):
    one = Options(**OPTIONS)
    with pytest.raises(InputError, match="one value of"):
        certify_many(episodes, [one, dataclasses.replace(one, **changes)], [0])


def test_the_same_call_gives_the_same_document(episodes):
    for scheme in ("auto", "rec-2"):
        texts = {
            json.dumps(to_document(certify(episodes, scheme=scheme, **OPTIONS))) for _ in range(2)
        }
        assert len(texts) == 1
