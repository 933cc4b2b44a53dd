"""The one way in: whatever a user brings becomes the same certificate, or one clear line."""

import dataclasses

import numpy as np
import pytest
from recordings import recording, short_fits
from tightrope.certificates.request import EPISODES, request, rollout_arguments

from tightrope.certificates import Options, Rollout, certify, to_document
from tightrope.errors import InputError
from tightrope.rollouts import export_arrays, save

OPTIONS = {
    "scheme": "holdout",
    "pilot_episodes": 3,
    "test_episodes": 2,
    "thin": 1,
    "gamma": 0.5,
    "seed": 2,
}


@pytest.fixture(autouse=True)
def _short_fits():
    with short_fits():
        yield


@pytest.fixture(scope="module")
def episodes():
    return recording(17, seed=1)


def numbers(certificate):
    """All that the source's name and seeds do not enter."""
    document = to_document(certificate)
    return {k: v for k, v in document.items() if k not in ("subject", "digests")}


def arrays(episodes):
    ends = np.zeros(len(episodes.rewards), bool)
    ends[episodes.offsets[1:] - 1] = True
    return {
        "observations": episodes.observations,
        "rewards": episodes.rewards,
        "terminals": np.zeros_like(ends),
        "timeouts": ends,
    }


SOURCES = {
    "a list of episodes": lambda episodes, folder: list(episodes),
    "a dictionary of arrays": lambda episodes, folder: arrays(episodes),
    "a file": lambda episodes, folder: _saved(episodes, folder / "e.safetensors", save),
    "the name of a file": lambda episodes, folder: str(
        _saved(episodes, folder / "e.safetensors", save)
    ),
    "an archive": lambda episodes, folder: _saved(episodes, folder / "e.npz", export_arrays),
}


def _saved(episodes, path, how):
    how(episodes, path)
    return path


@pytest.mark.parametrize("bring", SOURCES.values(), ids=SOURCES)
def test_recorded_episodes_in_any_form_are_one_certificate(bring, episodes, tmp_path):
    expected = certify(episodes, **OPTIONS)
    found = certify(bring(episodes, tmp_path), **OPTIONS)
    assert numbers(found) == numbers(expected)


def test_an_unknown_option_is_named_with_the_known(episodes):
    with pytest.raises(InputError, match=r"options among scheme, unit, .*found 'shceme'"):
        certify(episodes, shceme="rec-2")
    with pytest.raises(InputError, match="found 'workers'"):
        certify(episodes, workers=2)


@pytest.mark.parametrize(
    ("changes", "name"),
    [
        ({"env": "Pendulum-v1"}, "env"),
        ({"rollout": Rollout(workers=2)}, "workers"),
        ({"rollout": Rollout(timeout=5.0)}, "timeout"),
        ({"rollout": Rollout(sample=True)}, "sample"),
        ({"rollout": Rollout(trust=True)}, "trust"),
        ({"rollout": Rollout(no_normalize=True)}, "no_normalize"),
    ],
)
def test_how_to_roll_out_is_refused_for_recorded_episodes(changes, name, episodes):
    with pytest.raises(InputError, match=f"expected no `{name}` for the recorded episodes"):
        certify(episodes, **OPTIONS, **changes)
    certify(episodes, **OPTIONS, rollout=Rollout())  # the defaults ask for nothing


def test_a_fresh_seed_is_drawn_for_each_certificate_and_recorded(episodes):
    free = {name: value for name, value in OPTIONS.items() if name != "seed"}
    one, other = certify(episodes, **free), certify(episodes, **free)
    assert type(one.options.seed) is int
    assert one.options.seed != other.options.seed
    assert numbers(certify(episodes, **free, seed=one.options.seed)) == numbers(one)


def test_the_same_seed_is_the_same_certificate(episodes):
    assert to_document(certify(episodes, **OPTIONS)) == to_document(certify(episodes, **OPTIONS))


def test_both_ways_to_normalise_at_once_are_refused(tmp_path):
    both = Rollout(normalize=tmp_path / "n.npz", no_normalize=True)
    with pytest.raises(InputError, match="`normalize` or `no_normalize`, found both"):
        rollout_arguments(both)
    assert rollout_arguments(Rollout())["normalize"] is None
    assert rollout_arguments(Rollout(no_normalize=True))["normalize"] is False
    assert rollout_arguments(Rollout(normalize=tmp_path))["normalize"] == tmp_path
    assert rollout_arguments(Rollout(workers=3))["workers"] == 3


# --- policies -----------------------------------------------------------------------------------


def asked(source, env=None, **options):
    return request(source, env, Options(**options), Rollout())


def test_a_policy_gets_a_pilot_and_a_hundred_episodes_of_each_kind(small_policy):
    found = asked(small_policy(3, 1), "Pendulum-v1")
    options = found.options
    assert (options.pilot_episodes, options.episodes, options.test_episodes) == (10, 100, 100)
    assert EPISODES == 100
    assert type(options.seed) is int
    assert found.training is None
    few = asked(small_policy(3, 1), "Pendulum-v1", episodes=7, test_episodes=0, pilot_episodes=2)
    assert (few.options.pilot_episodes, few.options.episodes, few.options.test_episodes) == (
        2,
        7,
        0,
    )


def test_a_policy_without_pilot_range_or_record_is_refused_before_it_is_rolled_out(small_policy):
    with pytest.raises(InputError, match="`return_range` LO HI with `pilot_episodes` 0"):
        asked(small_policy(3, 1), "Pendulum-v1", pilot_episodes=0)
    asked(small_policy(3, 1), "Pendulum-v1", pilot_episodes=0, return_range=(-9, 0))


def test_a_training_record_saves_the_pilot_where_nothing_is_regressed(trained, tmp_path):
    trained(tmp_path)
    paper = asked(tmp_path, preset="paper")
    assert (paper.training.low, paper.training.high, paper.training.source) == (
        -900,
        0.5,
        "training",
    )
    assert paper.options.pilot_episodes == 0
    assert asked(tmp_path).options.pilot_episodes == 10  # to regress on
    assert asked(tmp_path).training is not None
    # what the user says goes before the record
    assert asked(tmp_path, return_range=(-9, 9)).training is None
    assert asked(tmp_path, pilot_episodes=4).training is None
    assert asked(tmp_path, pilot_episodes=0).training is not None
    with pytest.warns(UserWarning, match="the range of the training record is not used"):
        assert asked(tmp_path, gamma=0.5, preset="paper").options.pilot_episodes == 10


def test_a_policy_is_rolled_out_and_certified(small_policy):
    found = certify(
        small_policy(3, 1),
        "Pendulum-v1",
        pilot_episodes=2,
        episodes=4,
        test_episodes=1,
        gamma=0.9,
        rollout=Rollout(workers=1),
    )
    assert dataclasses.asdict(found.episodes) == {
        "pilot": 2, "validation": 4, "free": 1, "test": 1
    }  # fmt: skip
    assert found.time_limit == 200  # of the environment
    assert found.subject["policy"]["name"] == "perceptron"
    assert len(found.rollouts) == 7
    assert len(set(found.rollouts.seeds.tolist())) == 7
