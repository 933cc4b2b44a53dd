"""Stopping early: the search, its certificate, and what is refused."""

import numpy as np
import pytest
from command import run
from recordings import recording, short_fits

from tightrope.bounds import betting_upper, default_bets, target_bets
from tightrope.certificates import Options, Rollout, certify, load_certificate, write
from tightrope.certificates.options import target_of
from tightrope.certificates.verify import verify
from tightrope.errors import InputError
from tightrope.rollouts import collect

SEARCH = {"seed": 3, "rollout": Rollout(workers=1), "pilot_episodes": 4, "thin": 1}


@pytest.fixture(autouse=True)
def _short():
    import custom_environments  # noqa: F401 - registers them

    with short_fits():
        yield


def search(until, **options):
    return certify(
        "custom_environments:still", "custom_environments:Counting-v0", until=until,
        **{**SEARCH, **options},
    )  # fmt: skip


@pytest.fixture(scope="module")
def found():
    import custom_environments  # noqa: F401

    with short_fits():
        return search("rms<=6", max_episodes=200)


def test_a_search_ends_with_a_certificate_of_the_target(found, tmp_path):
    assert found.rms_raw <= 6
    assert found.scheme == "sequential"
    counts = found.episodes
    assert (counts.pilot, counts.free, counts.test) == (4, 20, 0)
    assert 30 < counts.validation < 200  # later than the first look, sooner than the last
    assert (found.options.until, found.options.max_episodes) == ("rms<=6", 200)
    write(found, tmp_path / "certificate")
    assert verify(tmp_path / "certificate") == []
    assert load_certificate(tmp_path / "certificate").statements == found.statements


def test_only_what_holds_at_every_number_of_episodes_is_stated(found):
    assert [s.kind for s in found.statements] == ["mean-risk"] * 2
    assert {round(s.confidence, 12) for s in found.statements} == {0.965}
    assert {round(s.joint_confidence, 12) for s in found.statements} == {0.93}
    assert any("every number of episodes at once" in each for each in found.assumptions)


def test_episodes_of_a_search_are_those_of_one_collection(found):
    """Batch by batch, no seed twice, none left out."""
    whole = collect(
        "custom_environments:still", "custom_environments:Counting-v0",
        len(found.rollouts), 3, workers=1,
    )  # fmt: skip
    np.testing.assert_array_equal(found.rollouts.seeds, whole.seeds)
    np.testing.assert_array_equal(found.rollouts.observations, whole.observations)


def test_the_bound_is_that_of_bets_that_do_not_depend_on_the_stop(found):
    """Bets for the target and for the largest number of episodes, from free episodes alone."""
    rows = found.rollouts.span(24, len(found.rollouts))
    from tightrope.rollouts import pairs

    late = pairs(rows, gamma=0.99)
    predicted = found.predictor(late.observations).mean
    low, high = found.return_range.low, found.return_range.high
    losses = ((predicted - np.clip(late.returns, low, high)) / found.width) ** 2
    before = found.beforehand
    bound = betting_upper(losses, delta=0.035, bets=before.bets, weights=before.weights)
    assert found.bound == pytest.approx(float(bound), rel=1e-5)
    free = pairs(found.rollouts.span(0, 24), gamma=0.99)
    largest = default_bets(round(len(free) / 24 * 180))[0]
    assert before.bets[1:] == tuple(largest)
    assert before.episode_bets[1:] == tuple(default_bets(180)[0])


def test_a_target_that_is_missed_leaves_an_honest_certificate(capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    arguments = (
        *("certify", "custom_environments:still", "--env", "custom_environments:Counting-v0"),
        *("--until", "rms<=6", "--seed", 3, "--workers", 1, "--thin", 1, "--pilot-episodes", 4),
    )
    code, out, _ = run(capsys, *arguments, "--max-episodes", 32, "--out", "missed")
    assert code == 1
    assert "rms<=6 was NOT certified with 32 validation episodes: the bound is" in out
    assert load_certificate("missed").rms_raw > 6
    code, out, _ = run(capsys, *arguments[:5], "rms<=15", *arguments[6:], "--out", "reached")
    assert code == 0
    assert "rms<=15 was certified after" in out


def test_a_target_below_the_floor_is_refused_with_the_floor():
    """Not even without any error: 80 episodes leave ln(1/0.035)/60 of the squared range."""
    with pytest.raises(InputError, match=r"not even a perfect predictor could be .* below \d"):
        search("rms<=2", max_episodes=80, unit="episode", return_range=(0.0, 100.0))


def test_a_target_below_the_error_of_the_predictor_is_doubted():
    with pytest.warns(UserWarning, match="will hardly be reached: on free episodes"):
        search("rms<=1.8", max_episodes=200)


@pytest.mark.parametrize("preset", ["paper", "tight"])
def test_every_preset_has_bets_that_stand_beforehand(preset):
    made = search("rms<=30", max_episodes=40, preset=preset, unit="episode")
    assert made.beforehand.bets
    assert made.beforehand.episode_bets
    assert made.preset == preset


@pytest.mark.parametrize(
    ("words", "limit"), [("rms<=20", 20.0), (" rms < 1.5 ", 1.5), ("rms<=2e1", 20.0)]
)
def test_targets_are_read(words, limit):
    assert target_of(words) == limit


@pytest.mark.parametrize("words", ["20", "rms>=20", "bound<=1", "rms<=", "rms<=0", "rms<=1e999"])
def test_other_targets_are_refused(words):
    with pytest.raises(InputError, match="expected a target such as 'rms<=20' for `until`"):
        Options(until=words)


@pytest.mark.parametrize("scheme", ["holdout", "nonrec-inf", "rec-6"])
def test_schemes_for_a_number_of_episodes_fixed_beforehand_are_refused(scheme):
    with pytest.raises(InputError, match=f"expected `scheme` sequential with `until`, .* {scheme}"):
        Options(until="rms<=20", scheme=scheme)


def test_what_does_not_go_with_a_search_is_refused():
    with pytest.raises(InputError, match="expected a policy to roll out with `until`"):
        certify(recording(24), until="rms<=20")
    with pytest.raises(InputError, match="expected `max_episodes` with `until`, found `episodes`"):
        search("rms<=20", episodes=100)
    with pytest.raises(InputError, match="expected `until` with `max_episodes`, found 40"):
        search("off", max_episodes=40)
    with pytest.raises(InputError, match="expected `max_episodes` of at least 30, found 29"):
        search("rms<=20", max_episodes=29)
    with pytest.raises(InputError, match="more than 20 validation episodes for sequential"):
        certify(recording(24), scheme="sequential", pilot_episodes=4)


def test_target_bets_grow_fastest_against_the_target():
    values = np.random.default_rng(0).beta(0.3, 3.0, 500)
    target = 2 * values.mean()
    bets, weights = target_bets(values, target=target, n=64)
    assert weights.sum() == pytest.approx(1.0)
    assert weights[0] == 0.9

    def growth(bet):
        return np.log(1 - bet + bet * (1 - values) / (1 - target)).mean()

    grid = np.linspace(1e-3, 0.999, 2000)
    assert growth(bets[0]) >= max(map(growth, grid)) - 1e-4
    with pytest.raises(ValueError, match="at least one value"):
        target_bets([], target=0.1, n=3)
    with pytest.raises(ValueError, match="target"):
        target_bets([0.1], target=1.5, n=3)
