"""CertifyCallback: certificates while SB3 trains, paid for, logged, and out of the way."""

from pathlib import Path

import gymnasium as gym
import numpy as np
import pytest
from constructed import certificate as constructed
from constructed import made_up, recorded
from custom_environments import Counting
from recordings import short
from stable_baselines3 import A2C, PPO
from stable_baselines3.common.monitor import Monitor
from stable_baselines3.common.vec_env import DummyVecEnv, VecNormalize

import tightrope
from tightrope import CertifyCallback, Rollout
from tightrope.deploy.callback import _numbers
from tightrope.errors import InputError
from tightrope.posteriors import PRESETS


class Short(Counting):
    """Five to seven steps, with or without a seed."""

    def choose_length(self):
        return int(self.np_random.integers(5, 8))


FEW = {"episodes": 12, "fit_episodes": 4}


def model(kind=PPO, env="Pendulum-v1", **arguments):
    given = {"n_steps": 64, "policy_kwargs": {"net_arch": [4]}, "seed": 0, "device": "cpu"}
    if kind is PPO:
        given |= {"batch_size": 64, "n_epochs": 1}
    return kind("MlpPolicy", env, **{**given, **arguments})


@pytest.fixture(scope="module", autouse=True)
def quick():
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(PRESETS, "tight", short())
        yield


@pytest.fixture(scope="module")
def trained(tmp_path_factory, quick):
    """A training with two certificates, and the same training without."""
    folder = tmp_path_factory.mktemp("trained")
    plain = model(A2C).learn(128)
    callback = CertifyCallback(
        every=64, out=folder / "made", seed=3, candidates=2, rollout=Rollout(workers=1), **FEW
    )
    learnt = model(A2C, tensorboard_log=str(folder / "log"))
    learnt.learn(128, callback=callback, tb_log_name="run")
    return callback, learnt, plain, folder


def test_the_policies_of_those_moments_are_certified_in_their_environment_and_kept(trained):
    callback, learnt, _, folder = trained
    assert list(callback.certificates) == [64, 128]
    made = callback.last
    assert made.subject["environment"]["id"] == "Pendulum-v1"
    actions, _ = learnt.predict(made.rollouts.observations, deterministic=True)
    np.testing.assert_allclose(made.rollouts.actions, actions, atol=1e-5)
    before = callback.certificates[64].rollouts
    actions, _ = learnt.predict(before.observations, deterministic=True)
    assert np.abs(before.actions - actions).max() > 1e-4  # it has learnt since
    for steps, each in callback.certificates.items():
        assert tightrope.load_certificate(folder / "made" / f"steps-{steps}") == each


def test_the_choice_among_them_is_paid_for_and_they_never_share_an_episode(trained):
    made = list(trained[0].certificates.values())
    for each in made:
        assert each.options.candidates == 4
        total = sum(entry.failure for entry in each.ledger if entry.budget == "joint")
        assert total == pytest.approx((each.delta + each.delta_prime) / 4)
    seeds = np.concatenate([each.rollouts.seeds for each in made])
    assert len(np.unique(seeds)) == len(seeds) == 2 * 12


def test_training_goes_on_as_without_a_callback(trained):
    _, watched, plain, _ = trained
    for one, other in zip(plain.policy.parameters(), watched.policy.parameters(), strict=True):
        np.testing.assert_array_equal(one.detach().numpy(), other.detach().numpy())


def test_the_numbers_are_in_tensorboards_files(trained):
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    callback, _, _, folder = trained
    (log,) = (folder / "log").iterdir()
    events = EventAccumulator(str(log))
    events.Reload()
    names = set(events.Tags()["scalars"])
    assert {"certificate/bound", "certificate/undiscounted-return"} <= names
    for name in ("undiscounted return", "early termination"):
        logged = {e.step: e.value for e in events.Scalars(f"certificate/{name.replace(' ', '-')}")}
        expected = {
            step: made.statement(name).limit for step, made in callback.certificates.items()
        }
        assert logged == pytest.approx(expected, rel=1e-6)


def test_which_numbers_are_logged_depends_on_no_score():
    """The largest score is not among them, and a level does not give way to another one."""
    found = []
    for scale in (0.1, 40.0):
        rewards, errors = made_up(seed=3, episodes=200)
        errors[-5:] = [scale * each for each in errors[-5:]]
        found.append(_numbers(constructed(recorded(rewards, errors))))
    assert found[0].keys() == found[1].keys() >= {"certificate/rms-90", "certificate/rms-95"}
    assert found[1]["certificate/rms-95"] >= found[0]["certificate/rms-95"]


def test_the_end_alone_in_an_environment_given_as_a_function_with_vec_normalize():
    env = VecNormalize(DummyVecEnv([lambda: Monitor(Short())]))
    callback = CertifyCallback(Short, rollout=Rollout(workers=1), **FEW)
    model(env=env).learn(64, callback=callback)
    assert list(callback.certificates) == [64]
    assert callback.last.options.candidates == 1
    assert callback.last.subject["policy"]["normalization"] == "the VecNormalize of PPO"


class Wrapped(gym.Wrapper):
    """A wrapper that Gymnasium cannot build anew."""


def test_an_environment_that_cannot_be_built_anew_is_refused_before_training():
    for made, words in (
        (Monitor(Counting()), "expected an environment that Gymnasium can build"),
        (Wrapped(gym.make("Pendulum-v1")), "cannot build 'Pendulum-v1' again .*: pass `env`"),
    ):
        learner = model(env=made)
        with pytest.raises(InputError, match=words):
            learner.learn(64, callback=CertifyCallback(**FEW))
        assert learner.num_timesteps == 0


def test_what_cannot_be_certified_is_a_warning_and_training_ends_well():
    """The model is still there to be saved."""
    callback = CertifyCallback(rollout=Rollout(normalize=Path("a.npz")), **FEW)
    with pytest.warns(UserWarning, match="no certificate at 64 steps: expected an SB3 zip"):
        model().learn(64, callback=callback)
    with pytest.raises(InputError, match="found none yet"):
        callback.last  # noqa: B018
    with pytest.raises(InputError, match="a new CertifyCallback for each training"):
        model().learn(64, callback=callback)


def test_wrong_options_are_refused_at_once():
    for arguments, words in (
        ({"every": 0}, "`every` must be a whole number of at least 1"),
        ({"episods": 3}, "found 'episods'"),
        ({"delta": 2.0}, "`delta` must be below 1"),
    ):
        with pytest.raises(InputError, match=words):
            CertifyCallback("Pendulum-v1", **arguments)
