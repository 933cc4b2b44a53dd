"""Collection: the same episodes whatever the workers, quotas fixed beforehand, failures by seed."""

import contextlib
import dataclasses
import os
import re
import sys
import time

import custom_environments
import gymnasium as gym
import numpy as np
import pytest
from waiting import children_of

from tightrope.environments import EnvInfo, make_env
from tightrope.errors import InputError
from tightrope.policies import as_policy
from tightrope.rollouts import CollectionError, Episodes, collect, episode_seeds
from tightrope.rollouts.stepping import roll_out
from tightrope.system import start_worker

HOPPER, CHEETAH = "Hopper-v4", "HalfCheetah-v4"
SHAPES = {HOPPER: (11, 3), CHEETAH: (17, 6)}
COUNTS = {HOPPER: 7, CHEETAH: 2}
ARRAYS = [
    field.name
    for field in dataclasses.fields(Episodes)
    if field.name not in ("subject", "success", "properties")
]


def assert_same_bits(found, expected):
    for name in ARRAYS:
        one, other = getattr(found, name), getattr(expected, name)
        assert one.dtype == other.dtype, name
        assert one.shape == other.shape, name
        assert one.tobytes() == other.tobytes(), name


# --- the same episodes ------------------------------------------------------------------------


@pytest.fixture(scope="module")
def reference(small_policy):
    """A function that collects (once) with one worker and one environment."""
    found = {}

    def get(env, log_std=None):
        if (env, log_std) not in found:
            policy = small_policy(*SHAPES[env], log_std=log_std)
            found[env, log_std] = collect(policy, env, COUNTS[env], 3, workers=1, batch=1)
        return found[env, log_std]

    return get


@pytest.mark.parametrize(
    ("env", "log_std", "workers", "batch"),
    [(HOPPER, -1.0, 3, 16), (CHEETAH, None, 2, 3)],
)
def test_episodes_are_bit_identical_whatever_the_workers_and_the_batch(
    env, log_std, workers, batch, small_policy, reference
):
    policy = small_policy(*SHAPES[env], log_std=log_std)
    found = collect(policy, env, COUNTS[env], 3, workers=workers, batch=batch)
    assert_same_bits(found, reference(env, log_std))


def test_rows_that_depend_on_each_other_are_asked_for_one_at_a_time():
    policy = lambda o: np.tanh(o[:, :1] + np.arange(len(o))[:, None])  # noqa: E731
    first, second = (
        collect(policy, "Counting-v0", 4, 2, workers=1, batch=batch) for batch in (1, 16)
    )
    assert_same_bits(second, first)


def test_sampled_episodes_differ_from_those_of_the_mode_and_from_each_other(reference):
    sampled, mode = reference(HOPPER, -1.0), reference(HOPPER)
    assert sampled.observations[0].tobytes() == mode.observations[0].tobytes()  # the same resets
    firsts = [each.actions[0].tobytes() for each in (mode, sampled[0], sampled[1])]
    assert len(set(firsts)) == 3
    said = [each.subject["policy"]["actions"] for each in (mode, sampled)]
    assert said == ["deterministic", "sampled"]


def test_the_noise_of_each_episode_is_standard_normal_and_its_own():
    found = collect(custom_environments.Noisy(), "Varying-v0", 8, 0, workers=2, batch=2)
    noise = np.arctanh(found.actions[:, 0].astype(np.float64))
    assert len(noise) == 2 * (400 + 1 + 2 + 3)
    assert abs(noise.mean()) < 5 / np.sqrt(len(noise))
    assert abs(noise.std() - 1) < 5 / np.sqrt(2 * len(noise))
    firsts = [episode.actions[0, 0] for episode in found]
    assert len(set(firsts)) == 8


# --- against Gymnasium's own interface --------------------------------------------------------


def replay(env, episode):
    """Observations, rewards and end that the recorded actions give in a fresh environment."""
    made, rows, rewards = make_env(env), [], []
    observation, _ = made.reset(seed=int(episode.seed))
    for action in episode.actions:
        rows.append(np.asarray(observation, np.float32))
        observation, reward, terminated, truncated, _ = made.step(action)
        rewards.append(reward)
        assert not (terminated or truncated) or len(rewards) == len(episode.actions)
    return rows, rewards, np.asarray(observation, np.float32), bool(terminated), bool(truncated)


def assert_replays(found, env):
    """Exactly: the simulator rounds alike in each process, whatever computed the actions."""
    for episode in found:
        rows, rewards, final, terminated, truncated = replay(env, episode)
        np.testing.assert_array_equal(episode.observations, rows)
        np.testing.assert_array_equal(episode.rewards, rewards)
        np.testing.assert_array_equal(episode.final_observation, final)
        assert (episode.terminated, episode.truncated) == (terminated, truncated)
        assert terminated or truncated


def balance(observations):
    return (observations[:, 2] > 0).astype(np.int64)


REPLAYED = {
    "Varying-v0": custom_environments.leaning,
    "CartPole-v1": balance,
    "Dictionary-v0": custom_environments.still,
}


@pytest.mark.parametrize("env", [*SHAPES, "Pendulum-v1", *REPLAYED])
def test_recorded_actions_give_the_recorded_episodes_and_are_the_policys(
    env, small_policy, reference
):
    """The policy's own actions, one row at a time, round differently from those of a block; a loop
    closed with them would soon be another episode.
    """
    if env in SHAPES:
        policy, found = small_policy(*SHAPES[env]), reference(env)
    else:
        policy = as_policy(REPLAYED.get(env) or small_policy(3, 1, bound=2.0))
        found = collect(policy, env, 8, 3, workers=2, batch=2)
    assert_replays(found, env)
    nothing = np.zeros((1, 0), np.float32)
    actions = [policy.act(row[None], nothing)[0] for row in found.observations]
    np.testing.assert_allclose(found.actions, actions, rtol=1e-4, atol=1e-4)


def test_success_is_recorded_if_it_was_ever_reported():
    found = collect(custom_environments.still, "Succeeding-v0", 4, 0, workers=1)
    assert found.success.tolist() == [seed % 2 == 0 for seed in found.seeds]
    assert collect(custom_environments.still, "Counting-v0", 1, 0, workers=1).success is None


# --- seeds and quotas -------------------------------------------------------------------------


def test_seeds_are_distinct_and_those_of_a_longer_collection_begin_with_a_shorter_ones():
    for seed in (0, 1, 12345, 2**40):
        seeds = episode_seeds(seed, 1000)
        assert len(set(seeds)) == 1000
        assert episode_seeds(seed, 10) == seeds[:10]
        assert all(isinstance(value, int) and 0 <= value < 2**32 for value in seeds)
    roots = [set(episode_seeds(seed, 1000)) for seed in range(30)]
    assert len(set.union(*roots)) == 30 * 1000  # those of different roots do not overlap


def test_every_episode_is_there_in_the_order_of_its_seed_however_long_it_takes():
    """Lengths 400, 1, 2, 3: taking the first that finish would leave the long ones out."""
    found = collect(custom_environments.still, "Varying-v0", 12, 7, workers=3, batch=16)
    assert found.seeds.tolist() == episode_seeds(7, 12)
    assert found.lengths.tolist() == [(400, 1, 2, 3)[seed % 4] for seed in found.seeds]
    for episode in found:  # rewards 1, 2, 3, ...: no step of another episode
        assert episode.rewards.tolist() == list(range(1, len(episode.rewards) + 1))
        # the environment's own draw, from its seed
        draw = gym.utils.seeding.np_random(episode.seed)[0].normal()
        assert (episode.observations[:, 0] == np.float32(draw)).all()


# --- environments that keep something -------------------------------------------------------------


def test_what_a_reset_leaves_behind_is_found_and_every_episode_gets_its_own_environment():
    """The oracle rolls out each episode in a new environment."""
    with pytest.warns(UserWarning, match="a reset of Leftover-v0 leaves something behind"):
        found = collect(custom_environments.leaning, "Leftover-v0", 6, 0, workers=2, batch=2)
    assert found.subject["fresh_environments"] is True
    assert_replays(found, "Leftover-v0")
    assert found.seeds.tolist() == episode_seeds(0, 6)


def test_bipedal_walker_is_repeatable_however_it_is_collected():
    pytest.importorskip("Box2D")
    policy = lambda o: np.tanh(o[:, :4])  # noqa: E731
    with pytest.warns(UserWarning, match="leaves something behind"):
        found = collect(policy, "BipedalWalker-v3", 3, 0, workers=1, batch=1)
    assert_replays(found, "BipedalWalker-v3")


# --- the record -------------------------------------------------------------------------------


def test_the_subject_says_what_was_run(trained, tmp_path):
    import hashlib
    from importlib.metadata import version

    trained(tmp_path)
    path = tmp_path / "policy.safetensors"
    subject = collect(path, "Pendulum-v1", 1, 9, workers=1).subject
    assert subject["environment"] == EnvInfo.of("Pendulum-v1").to_json()
    assert subject["policy"]["digest"] == hashlib.sha256(path.read_bytes()).hexdigest()
    assert subject["policy"]["name"] == "perceptron"
    assert subject["policy"]["normalization"] == "none"
    assert subject["seed"] == 9
    for package in ("mujoco", "gymnasium", "numpy", "tightrope"):
        assert subject["versions"][package] == version(package)
    assert "partial" not in subject


# --- wrong arguments --------------------------------------------------------------------------


def test_an_argument_out_of_range_is_an_input_error_that_names_it():
    for name, values in {
        "episodes": (0, -3, 2.5),
        "workers": (0, -1, 1.5),
        "batch": (0, -1),
        "timeout": (0, -1.0, np.nan),
        "seed": (-1, 0.5),
    }.items():
        for value in values:
            arguments = {"episodes": 2, "workers": 1, name: value}
            with pytest.raises(InputError, match=rf"{name}`? must be.*{value}"):
                collect(custom_environments.still, "Counting-v0", **arguments)


def test_a_policy_for_another_environment_is_refused_before_anything_runs(small_policy):
    with pytest.raises(InputError, match="another environment") as refusal:
        collect(small_policy(*SHAPES[CHEETAH]), HOPPER, 2)
    assert not isinstance(refusal.value, CollectionError)
    assert str(make_env(HOPPER).observation_space) in str(refusal.value)


# --- failures ---------------------------------------------------------------------------------


def bad_seed(seeds):
    (bad,) = [seed for seed in seeds if seed % 4 == 3]
    return bad


PATIENCE = 5.0  # seconds: long beside a step on a busy machine, short beside one that hangs


def fail(env, policy=custom_environments.leaning, episodes=4, **keywords):
    start = time.monotonic()
    with pytest.raises(CollectionError) as failure:
        collect(policy, env, episodes, 0, **{"workers": 1, "timeout": PATIENCE, **keywords})
    assert time.monotonic() - start < custom_environments.HANG / 2
    assert "\n" not in str(failure.value)
    return failure.value


FAILURES = [
    ("Raises-v0", 16, "RuntimeError: the motor burnt out"),
    ("Exits-v0", 16, "exit code 7"),
    ("Hangs-v0", 16, f"hangs: no step in {PATIENCE:g} seconds"),
    ("HangsInReset-v0", 1, "hangs"),
    ("NaN-v0", 16, "NaN or infinity"),
    ("NaNObservation-v0", 16, "NaN"),
    ("SingleInReset-v0", 1, "found shape (1,) of float64 after 0 steps"),
]


@pytest.mark.parametrize(("env", "batch", "words"), FAILURES)
def test_a_failing_environment_is_answered_with_the_seed_of_its_episode(env, batch, words):
    """One of four episodes fails; what has finished before is kept, whole and finite."""
    seeds = episode_seeds(0, 4)
    failure = fail(env, batch=batch)
    assert str(bad_seed(seeds)) in str(failure)
    assert words in str(failure)
    assert "policy" not in str(failure)  # it would only pass a NaN on
    partial = failure.partial
    assert partial is not None
    assert 1 <= len(partial) < 4
    assert partial.lengths.tolist() == [2 + seed % 4 for seed in partial.seeds]
    assert bad_seed(seeds) not in partial.seeds
    assert partial.seeds.tolist() == [seed for seed in seeds if seed in partial.seeds]
    assert f"{len(partial)} of 4 episodes" in partial.subject["partial"]


def test_an_observation_of_another_shape_is_refused_and_not_broadcast():
    bad = bad_seed(episode_seeds(0, 4))
    for name, words in {
        "ShortObservation-v0": "shape (3,) from the environment, found shape (2,)",
        "SingleObservation-v0": "shape (3,) from the environment, found shape (1,)",
        "BatchedObservation-v0": "shape (3,) from the environment, found shape (1, 3)",
        "ScalarObservation-v0": "found shape () of float64 after 3 steps",
        "WordedObservation-v0": "found shape (3,) of <U1",
    }.items():
        with pytest.raises(InputError, match=re.escape(words)):
            roll_out(lambda _: np.zeros(1, np.float32), make_env(name), bad)


@pytest.mark.parametrize("env", ["Hangs-v0", "Exits-v0", "Raises-v0"])
def test_no_process_and_no_descriptor_is_left_behind(env):
    before, others = len(os.listdir("/proc/self/fd")), children_of(os.getpid())
    with contextlib.suppress(CollectionError):
        collect(custom_environments.still, env, 4, 0, workers=2, timeout=1.0)
    assert children_of(os.getpid()) <= others  # a test before may have left a compiler's
    assert len(os.listdir("/proc/self/fd")) == before


def test_an_action_out_of_range_is_answered_with_the_seed_of_its_episode():
    """The policy leaves the space in the third step of episodes with a positive draw only."""
    seeds = episode_seeds(0, 8)
    draws = [gym.utils.seeding.np_random(seed)[0].normal() for seed in seeds]
    assert draws[-1] < 0 < max(draws)  # the last one is innocent
    failure = fail("Counting-v0", custom_environments.too_far, episodes=8)
    blamed = [seed for seed in seeds if str(seed) in str(failure)]
    assert len(blamed) == 1
    assert draws[seeds.index(blamed[0])] > 0
    assert str(custom_environments.ACTIONS) in str(failure)


def test_a_policy_that_raises_only_in_the_workers_is_answered_with_its_error(capfd):
    """It is fine in the first check, and fails elsewhere while its rows are compared."""
    parent = os.getpid()

    def picky(observations):
        if os.getpid() != parent:
            raise RuntimeError("only at home, please")
        return np.zeros((len(observations), 1), np.float32)

    failure = fail("Counting-v0", picky)
    assert "only at home, please" in str(failure)
    assert "Traceback" not in capfd.readouterr().err


def test_several_slow_resets_in_a_row_are_not_taken_for_a_hang():
    """Eight resets before the first step: together longer than the limit, none of them by far."""
    assert 5 * custom_environments.SLOW < 4.0 < 8 * custom_environments.SLOW
    found = collect(custom_environments.still, "SlowReset-v0", 8, 0, workers=1, timeout=4.0)
    assert len(found) == 8


@pytest.mark.filterwarnings("ignore:subprocess:ResourceWarning")
def test_a_worker_that_dies_at_once_is_a_collection_error(monkeypatch, small_policy):
    """Also if its job is larger than a pipe's buffer, so that sending it fails first."""
    monkeypatch.setattr(
        sys.modules["tightrope.rollouts.collecting"],
        "start_worker",
        lambda module, *descriptors: start_worker("dying_worker", *descriptors),
    )
    small = small_policy(3, 1)
    found = []
    for policy in (small, dataclasses.replace(small, name="large" * 200_000)):
        try:
            collect(policy, "Counting-v0", 2, 0, workers=2)
        except Exception as error:
            found.append(repr(error))
    assert all("CollectionError" in error and "exit code 3" in error for error in found), found
    assert len(found) == 2


# --- how it is called -------------------------------------------------------------------------


@pytest.mark.parametrize("env", ["Loud-v0", "LoudConstructor-v0"])
def test_nothing_lands_on_standard_output(env, capfd):
    """Neither ours nor what an environment prints: `--json` promises a clean output."""
    collect(custom_environments.still, env, 3, 0, workers=2, progress=True)
    assert capfd.readouterr().out == ""
