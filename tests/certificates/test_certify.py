"""The one way in: whatever a user brings becomes the same certificate, or one clear line."""

import dataclasses

import numpy as np
import pytest
from recordings import certified, recording, short

from tightrope.certificates import to_document
from tightrope.certificates.certify import certify, open_source, roll_out
from tightrope.errors import InputError
from tightrope.rollouts import PolicySource, Rollout, export_arrays, save

OPTIONS = {
    "scheme": "holdout", "fit_episodes": 6, "test_episodes": 2, "thin": 1, "gamma": 0.5, "seed": 2
}  # fmt: skip


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


def saved(episodes, path, how):
    how(episodes, path)
    return path


SOURCES = {
    "a list of episodes": lambda episodes, folder: list(episodes),
    "a dictionary of arrays": lambda episodes, folder: arrays(episodes),
    "a file": lambda episodes, folder: saved(episodes, folder / "e.safetensors", save),
    "the name of a file": lambda episodes, folder: str(
        saved(episodes, folder / "e.npz", export_arrays)
    ),
}


@pytest.mark.parametrize("bring", SOURCES.values(), ids=SOURCES)
def test_recorded_episodes_in_any_form_are_one_certificate(bring, episodes, tmp_path):
    expected = certified(episodes, **OPTIONS)
    assert numbers(certified(bring(episodes, tmp_path), **OPTIONS)) == numbers(expected)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"shceme": "rec-2"}, "options among scheme, paper, .*found 'shceme'"),
        ({"workers": 2}, "found 'workers'"),
        ({"env": "Pendulum-v1"}, "expected no `env` for the recorded episodes"),
        ({"rollout": Rollout(workers=2)}, "expected no `workers` for the recorded episodes"),
        ({"rollout": Rollout(sample=True)}, "expected no `sample` for the recorded episodes"),
        ({"rollout": Rollout(trust=True)}, "expected no `trust` for the recorded episodes"),
        ({"scheme": "auto", "until": "rms<=3"}, "a policy to roll out with `until`"),
        ({"scheme": "sequential"}, "give `until` for a sequential search"),
        ({"properties": {"peak": 3.0}}, "a function of an episode as property 'peak', found 3.0"),
    ],
    ids=str,
)  # fmt: skip
def test_what_is_not_for_a_recording_is_refused_in_one_line(changes, words, episodes):
    with pytest.raises(InputError, match=words) as error:
        certified(episodes, **{**OPTIONS, **changes})
    assert "\n" not in str(error.value)
    certified(episodes, **OPTIONS, rollout=Rollout())  # the defaults ask for nothing


def test_a_fresh_seed_is_drawn_for_each_certificate_and_recorded(episodes):
    free = {name: value for name, value in OPTIONS.items() if name != "seed"}
    one, other = certified(episodes, **free), certified(episodes, **free)
    assert (one.options.seed, type(one.settings.seed)) == ("fresh", int)
    assert one.settings.seed != other.settings.seed
    again = {**free, "seed": one.settings.seed}
    assert certified(episodes, **again).statements == one.statements


def test_a_policy_is_rolled_out_and_certified(small_policy):
    found = certify(
        small_policy(3, 1),
        "Pendulum-v1",
        episodes=6,
        test_episodes=1,
        gamma=0.9,
        rollout=Rollout(workers=1),
        preset_values=short("tight"),
        properties={"steps": lambda episode: len(episode.rewards)},
    )
    assert dataclasses.asdict(found.episodes) == {
        "pilot": 0, "fit": 2, "calibration": 4, "test": 1
    }  # fmt: skip
    assert found.time_limit == 200  # of the environment
    assert found.subject["policy"]["name"] == "perceptron"
    assert len(set(found.rollouts.seeds.tolist())) == len(found.rollouts) == 7
    assert found.statement("property: steps").value_raw == pytest.approx(200, rel=1e-4)


def test_episodes_that_follow_are_those_of_one_collection(small_policy):
    source = open_source(small_policy(3, 1), "Pendulum-v1", Rollout(workers=1))
    assert isinstance(source, PolicySource)
    settings = certified(recording(9), seed=4).settings
    whole = roll_out(source, settings, Rollout(workers=1), 3)
    rest = roll_out(source, settings, Rollout(workers=1), 2, first=1)
    np.testing.assert_array_equal(whole.seeds[1:], rest.seeds)
    np.testing.assert_array_equal(whole.rewards[200:], rest.rewards)


def test_a_policy_without_pilot_range_or_record_is_refused_before_it_is_rolled_out(
    small_policy, monkeypatch
):
    monkeypatch.setattr("tightrope.certificates.certify.collect", None)
    with pytest.raises(InputError, match="`pilot_episodes` of at least 1 for a recursion"):
        certify(small_policy(3, 1), "Pendulum-v1", scheme="rec-2", pilot_episodes=0)
