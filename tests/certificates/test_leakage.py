"""Nothing leaks: what a predictor, a prior, the scaling or a bet may depend on, bit for bit.

Fifteen episodes. PAC-Bayes schemes: four pilot, nine validation (portions of 2, 2 and 5 for rec-3,
of 5 and 4 for nonrec-inf), two test. Fixed predictors: six fit, seven calibrate, two test. What
must not matter is permuted, replaced, cut short or made longer.
"""

import dataclasses
from functools import partial

import numpy as np
import pytest
from recordings import certified, recording, same, short

from tightrope.certificates import Options, settle, to_document
from tightrope.certificates.certify import issue
from tightrope.certificates.fitting import fit_predictor, regress_fitting_set
from tightrope.certificates.split import split_episodes
from tightrope.posteriors import PRESETS, regress
from tightrope.rollouts import join

PILOT, FIT, LAST, TEST = 4, 6, 13, 2
ENDS = (6, 8, 13)  # of the portions of rec-3
GIVEN = {
    "test_episodes": TEST, "thin": 1, "gamma": 0.5, "mc_passes": 2, "delta": 0.2,
    "delta_prime": 0.1, "seed": 3,
}  # fmt: skip


def issued(episodes, scheme, /, **options):
    """The certificate of a scheme, with the counts above."""
    fixed = scheme in ("auto", "holdout")
    counts = {"fit_episodes": FIT} if fixed else {"pilot_episodes": PILOT}
    return certified(episodes, scheme=scheme, **{**GIVEN, **counts, **options})


@pytest.fixture(scope="module")
def episodes():
    return recording(LAST + TEST, seed=1)


@pytest.fixture(scope="module")
def longer():
    """Enough steps in the fitting set for a profile of the band."""
    return recording(LAST + TEST, 40, seed=1)


def rebuilt(episodes, first, last, change):
    """The recording with the episodes from `first` to before `last` changed."""
    every = list(episodes)
    return join([*every[:first], *change(every[first:last]), *every[last:]], episodes.subject)


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
    shorter = {"observations": last.observations[:-1], "rewards": last.rewards[:-1]}
    return [*chosen[:-1], dataclasses.replace(last, **shorter)]


def made_longer(chosen):
    last = chosen[-1]
    observations = np.concatenate([last.observations, last.observations[-1:] + 1])
    rewards = np.append(last.rewards, 0.7)
    return [*chosen[:-1], dataclasses.replace(last, observations=observations, rewards=rewards)]


def revisited(chosen):
    """The last episode stays where it is: only its first step counts."""
    last = chosen[-1]
    still = np.repeat(last.observations[:1], len(last.rewards), axis=0)
    return [*chosen[:-1], dataclasses.replace(last, observations=still)]


CHANGES = [permuted, other_rewards, other_observations, other_ends, cut_short, revisited]

# --- posteriors ---------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def untouched(episodes):
    return {unit: issued(episodes, "rec-3", unit=unit).posteriors for unit in ("step", "episode")}


@pytest.mark.parametrize("unit", ["step", "episode"])
@pytest.mark.parametrize("change", CHANGES)
def test_later_portions_leave_earlier_posteriors_bit_identical(change, unit, episodes, untouched):
    """rho_0 ... rho_t depend on S_<=t alone, whatever happens to S_t+1 ... S_T."""
    before = untouched[unit]
    for t in (1, 2):
        spoilt = rebuilt(episodes, ENDS[t - 1], LAST, change)
        after = issued(spoilt, "rec-3", unit=unit).posteriors
        assert len(before) == len(after) == 4
        for index in range(t + 1):
            assert same(before[index], after[index]), f"rho_{index} knows S_{t + 1}"


@pytest.mark.parametrize("change", [other_rewards, other_observations])
def test_a_portions_own_change_does_reach_its_posterior(change, episodes, untouched):
    """The counterpart: the comparison above would notice."""
    for t in (1, 2, 3):
        spoilt = rebuilt(episodes, (PILOT, *ENDS)[t - 1], ENDS[t - 1], change)
        assert not same(untouched["step"][t], issued(spoilt, "rec-3").posteriors[t])


# --- predictors and priors from the fitting set -------------------------------------------------

OUT_OF_BOUNDS = {"auto": FIT, "holdout": FIT, "nonrec-inf": PILOT + 5}


def fixed_beforehand(certificate):
    """All that must stand before the calibration episodes are looked at, as bytes."""
    c, scaling = certificate, certificate.predictor.scaling
    first = 1 if c.preset == "tight" else 2  # the prior; `paper` fits it like a posterior
    arrays = [] if c.scheme == "nonrec-inf" else list(c.predictor.layers)
    for gaussians in c.posteriors[:first]:
        arrays += [*gaussians.means, *gaussians.log_variances]
    return {
        "arrays": [array.tobytes() for array in arrays],
        "range": (scaling.low, scaling.high, scaling.source),
        "scaling": (scaling.mean.tobytes(), scaling.deviation.tobytes()),
        "clock": scaling.clock,
        "chosen": {s.name: s.chosen for s in c.statements},
        "thin": c.thin,
        "ledger": c.ledger,
        "headline": c.headline,
        "first fit": c.fits[0],
    }


@pytest.mark.parametrize("preset", ["tight", "paper"])
@pytest.mark.parametrize("scheme", OUT_OF_BOUNDS)
def test_what_is_fixed_on_the_fitting_set_does_not_know_the_calibration_set(scheme, preset, longer):
    """Predictor, prior, scaling, clock, bets, profile, headline; contents and lengths changed."""
    own = {"preset": preset, "thin": "auto"}
    first = OUT_OF_BOUNDS[scheme]
    for changes in ({}, {"clock": "off"}):
        before = issued(longer, scheme, **own, **changes)
        if preset == "tight" and scheme == "auto":
            assert len(before.statement("band").chosen["profile"]) == (1 if changes else 20)
            assert before.statement("mean over steps").chosen["bets"]
        for change in [*CHANGES, made_longer] if changes else CHANGES:
            after = issued(rebuilt(longer, first, LAST, change), scheme, **own, **changes)
            assert fixed_beforehand(before) == fixed_beforehand(after), (change, changes)
            assert before.portions != after.portions or change in (permuted, other_ends)
        # The counterpart: the comparison would notice.
        for change in (other_rewards, other_observations):
            after = issued(rebuilt(longer, 0, first, change), scheme, **own, **changes)
            assert fixed_beforehand(before)["arrays"] != fixed_beforehand(after)["arrays"]


def test_the_number_of_later_episodes_is_all_that_a_plan_of_bets_knows(longer):
    """More of them change the plan: it is made for their number, which is fixed beforehand."""
    one = issued(longer.span(0, LAST), "1,1", test_episodes=0)
    assert one.statement("mean over steps").chosen["bet"] is not None
    held = {
        count: issued(longer, "holdout", episodes=count, fit_episodes=5, test_episodes=0)
        for count in (9, 10)
    }
    chosen = {count: c.statement("mean over steps").chosen for count, c in held.items()}
    assert chosen[9]["bets"] != chosen[10]["bets"]
    monitors = [c.statement("monitor").chosen for c in held.values()]
    assert monitors[0] == monitors[1]


def test_bets_are_planned_on_errors_of_networks_that_left_the_episode_out(longer, monkeypatch):
    """Returns of one fitting episode mirrored at their mean: its own left-out predictions stay.

    One look at the end, so that nothing is chosen among several; a mirror changes neither mean nor
    spread.
    """
    monkeypatch.setattr("tightrope.posteriors.regression._FIRST", 1.0)
    options = Options(scheme="holdout", fit_episodes=FIT, clock="off", **GIVEN)
    settings = settle(options, longer, preset=short("tight", updates=30))
    split = split_episodes(longer, settings)
    own = split.fit_rows.episode == 2

    def mirrored(inputs, targets, *rest, **more):
        targets = targets.copy()
        targets[own] = 2 * targets[own].mean() - targets[own]
        return regress(inputs, targets, *rest, **{**more, "exact": True})

    def plain(*arguments, **more):
        return regress(*arguments, **{**more, "exact": True})

    before, after = (regress_fitting_set(split, regress=how) for how in (plain, mirrored))
    np.testing.assert_allclose(before.left_out[own], after.left_out[own], atol=1e-5)
    moved = np.abs(before.left_out - after.left_out)[~own]
    assert moved.max() > 1e-3  # others did see it


@pytest.mark.parametrize(
    ("scheme", "fit", "calibration"),
    [
        ("auto", 6, 7), ("holdout", 6, 7), ("nonrec-inf", 5, 4),
        ("nonrec-noninf", 0, 9), ("rec-2", 0, 9), ("rec-6", 0, 9),
    ],
)  # fmt: skip
def test_pilot_fitting_and_test_episodes_are_counted_in_no_bound(
    scheme, fit, calibration, episodes
):
    c = issued(episodes, scheme)
    pilot = 0 if scheme in ("auto", "holdout") else PILOT
    assert dataclasses.asdict(c.episodes) == {
        "pilot": pilot, "fit": fit, "calibration": calibration, "test": TEST
    }  # fmt: skip
    units = {c.unit: c.portions, {"step": "episode", "episode": "step"}[c.unit]: c.other_portions}
    for unit, per_episode in (("step", 6), ("episode", 1)):
        first = units[unit][0]
        assert (first.episodes, first.n) == (calibration, calibration * per_episode)
    assert c.steps == calibration * 6
    for s in c.statements:
        whole = c.episodes.validation if pilot else calibration
        expected = whole if s.kind in ("return", "failure") else calibration
        assert s.n == expected * (6 if s.unit == "step" else 1), s.name
    if scheme == "nonrec-inf":
        assert [fit.rows for fit in c.fits if fit.kind == "posterior"] == [4 * 6]


# --- test episodes ------------------------------------------------------------------------------

COMPARED = (
    *("test_error", "constant_error", "per_step_error", "tightness", "failed_fit", "digests"),
)


def without_comparison(certificate):
    return {k: v for k, v in to_document(certificate).items() if k not in COMPARED}


def same_fit(left, right):
    layers = zip(left.predictor.layers, right.predictor.layers, strict=True)
    chains = zip(left.posteriors, right.posteriors, strict=True)
    return all(np.array_equal(*pair) for pair in layers) and all(same(*pair) for pair in chains)


@pytest.mark.parametrize("scheme", ["rec-3", "holdout", "auto"])
def test_test_episodes_change_nothing_but_the_comparison(scheme, episodes):
    before = issued(episodes, scheme)
    spoilt = rebuilt(episodes, LAST, LAST + TEST, lambda e: other_observations(other_rewards(e)))
    after = issued(spoilt, scheme)
    assert without_comparison(before) == without_comparison(after)
    assert before.test_error != after.test_error
    none = issued(episodes.span(0, LAST), scheme, test_episodes=0)
    assert none.test_error is None
    assert none.portions == before.portions
    assert none.statements == before.statements
    assert same_fit(before, after)
    assert same_fit(before, none)


# --- pilot and validation -----------------------------------------------------------------------


@pytest.mark.parametrize("change", [permuted, other_rewards, other_observations, cut_short])
def test_validation_data_change_neither_the_range_nor_the_scaling_nor_the_first_prior(
    change, episodes
):
    before = issued(episodes, "rec-2")
    after = issued(rebuilt(episodes, PILOT, LAST, change), "rec-2")
    one, other = before.predictor.scaling, after.predictor.scaling
    assert (one.low, one.high, one.source, one.clock) == (
        other.low, other.high, other.source, other.clock
    )  # fmt: skip
    np.testing.assert_array_equal(one.mean, other.mean)
    np.testing.assert_array_equal(one.deviation, other.deviation)
    assert same(before.posteriors[0], after.posteriors[0])


def test_the_default_thinning_of_a_log_does_not_look_at_validation_episodes(episodes):
    """Five for pilot episodes of one length, whatever comes after them; else three."""

    def thin(first, last, change):
        return issued(rebuilt(episodes, first, last, change), "rec-2", thin="auto").thin

    assert issued(episodes, "rec-2", thin="auto").thin == 5
    assert thin(PILOT, LAST, cut_short) == 5
    assert thin(PILOT, LAST, other_ends) == 5
    assert thin(PILOT - 1, PILOT, cut_short) == 3  # the last of the pilot
    assert thin(PILOT - 1, PILOT, other_ends) == 3


def test_what_a_certificate_is_asked_for_beside_the_fit_does_not_reach_the_posteriors(episodes):
    before = issued(episodes, "rec-2").posteriors
    for options in ({"mc_passes": 5}, {"fail_below": 1.0}, {"candidates": 3}):
        assert all(map(same, before, issued(episodes, "rec-2", **options).posteriors))
    assert not same(before[1], issued(episodes, "rec-2", seed=4).posteriors[1])


def test_the_headline_and_every_rank_do_not_depend_on_values():
    """A catastrophe in four of 80 calibration episodes: no level is dropped, none gets better."""
    plain = recording(107, seed=4)
    bad = rebuilt(
        plain, 30, 34, lambda e: [dataclasses.replace(x, rewards=-50 * x.rewards) for x in e]
    )
    found = [certified(each, fit_episodes=27, thin=1, gamma=0.5, seed=1) for each in (plain, bad)]
    assert found[0].headline == found[1].headline
    assert found[0].statements[found[0].headline].share == 0.9
    for one, other in zip(*(c.statements for c in found), strict=True):
        assert (one.name, one.share, one.n) == (other.name, other.share, other.n)
        if one.kind == "tolerance":
            assert one.note == other.note  # which order statistic it is
            assert other.value_raw >= one.value_raw


# --- one certificate, however it is made ---------------------------------------------------------


def test_the_same_call_gives_the_same_document_and_a_shared_fit_changes_nothing(episodes):
    options = Options(scheme="rec-2", pilot_episodes=PILOT, **GIVEN)
    settings = settle(options, episodes, preset=short("tight"))
    calls = []

    def remembered(inputs, targets, *rest, **more):
        calls.append(len(targets))
        return regress(inputs, targets, *rest, **more)

    shared = issue(
        episodes, settings, options=options, fit=partial(fit_predictor, regress=remembered)
    )
    alone = issued(episodes, "rec-2")
    assert calls == [PILOT * 6]
    assert to_document(shared) == to_document(alone)
    assert PRESETS["tight"].regression is not None
