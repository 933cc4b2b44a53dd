"""VecNormalize: a policy is not certified without the statistics that it was trained with."""

import hashlib
import json
import os
import pickle
import zipfile

import custom_environments
import gymnasium as gym
import numpy as np
import pytest
import stable_baselines3
import torch
from opcodes import vecnormalize
from refusals import refused
from stable_baselines3.common.vec_env import DummyVecEnv, VecNormalize

from tightrope.environments import make_env
from tightrope.errors import InputError
from tightrope.policies import as_policy, load_mlp, load_policy, normalization, save_mlp
from tightrope.policies.vecnormalize import (
    find_statistics,
    read_statistics,
    zip_was_normalized,
)
from tightrope.rollouts import collect

DOUBLES, SINGLES = "Doubles-v0", "Five-v0"  # observations of float64, as MuJoCo's, or float32
SPACE = gym.spaces.Dict(
    {
        "velocity": gym.spaces.Box(-9.0, 9.0, (2, 2), np.float64),
        "contact": gym.spaces.Discrete(3),
        "angle": gym.spaces.Box(-9.0, 9.0, (1,), np.float32),
    }
)
if DOUBLES not in gym.registry:
    spaces = {
        "observation_space": gym.spaces.Box(-np.inf, np.inf, (5,), np.float64),
        "action_space": custom_environments.STRETCHED,
    }
    gym.register(DOUBLES, custom_environments.Shaped, kwargs=spaces)
    gym.register("Keyed-v0", custom_environments.Shaped, kwargs={"observation_space": SPACE})
SETTINGS = {
    "PPO": {"n_steps": 8, "batch_size": 8, "n_epochs": 1},
    "A2C": {"n_steps": 8},
    "SAC": {"learning_starts": 4, "buffer_size": 20},
    "TD3": {"learning_starts": 4, "buffer_size": 20},
    "DQN": {"learning_starts": 4, "buffer_size": 20},
}


def environment(name):
    return make_env(name)


def train(algorithm, env, policy="MlpPolicy", wrap=True, **keywords):
    """A model after a few steps, and its environment, behind a VecNormalize or not."""
    venv = DummyVecEnv([lambda: gym.make(env)])
    venv = VecNormalize(venv, **keywords) if wrap else venv
    model = getattr(stable_baselines3, algorithm)(
        policy,
        venv,
        device="cpu",
        seed=0,
        policy_kwargs={"net_arch": [8]},
        **SETTINGS[algorithm],
    )
    model.learn(16)
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():  # large enough for actions that differ
        for parameter in model.policy.parameters():
            parameter.copy_(0.5 * torch.randn(parameter.shape, generator=generator))
    return model, venv


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    """A function that trains and saves (once), each in a folder of its own."""
    found = {}

    def save(*arguments, **keywords):
        key = repr((arguments, keywords))
        if key not in found:
            path = tmp_path_factory.mktemp("trained") / "model.zip"
            model, venv = train(*arguments, **keywords)
            model.save(path)
            found[key] = path, model, venv
        return found[key]

    return save


def data_of(path):
    with zipfile.ZipFile(path) as archive:
        return json.loads(archive.read("data"))


# --- what zips show -------------------------------------------------------------------------------

SHOWN = [
    *[("PPO", SINGLES, True, True), ("PPO", SINGLES, False, False)],
    *[("A2C", DOUBLES, True, True), ("A2C", DOUBLES, False, False)],
    *[("SAC", DOUBLES, True, True), ("SAC", DOUBLES, False, False)],
    *[("SAC", SINGLES, True, None), ("SAC", SINGLES, False, None)],
    *[("DQN", "FiveKeys-v0", True, None), ("DQN", "FiveKeys-v0", False, None)],
]


@pytest.mark.parametrize(("algorithm", "env", "wrap", "shown"), SHOWN)
def test_a_policy_without_its_statistics_is_refused_where_its_zip_shows_them(
    algorithm, env, wrap, shown, saved
):
    """A zip shows its VecNormalize except off-policy with observations of float32."""
    path, _, _ = saved(algorithm, env, wrap=wrap)
    assert zip_was_normalized(data_of(path)) is shown
    for trust in (False, True):
        if not shown:
            policy = load_policy(path, environment(env), trust=trust)
            assert normalization(policy) == "none"
            continue
        with refused(r"model\.zip.*VecNormalize.*`normalize`.*`normalize=False`"):
            load_policy(path, environment(env), trust=trust)


def test_a_vecnormalize_of_rewards_only_is_no_normalisation_where_the_zip_shows_it(saved):
    for algorithm in ("PPO", "SAC"):
        path, _, _ = saved(algorithm, DOUBLES, norm_obs=False)
        assert normalization(load_policy(path, environment(DOUBLES))) == "none"


def test_damaged_pickles_show_nothing_and_are_not_executed(saved):
    data = data_of(saved("SAC", DOUBLES)[0])
    for damage in ("!", "", "bm8gcGlja2xl", 7, None):
        for last in ({**data["_last_obs"], ":serialized:": damage}, damage):
            assert zip_was_normalized({**data, "_last_obs": last}) is None


@pytest.mark.parametrize(
    "place",
    ["vecnormalize.pkl", "vec_normalize.pkl", "model/vecnormalize.pkl", "model.pkl"],
)
def test_statistics_in_their_usual_place_are_named_and_settle_what_a_zip_leaves_open(
    place, saved, tmp_path
):
    source, _, venv = saved("SAC", SINGLES)
    path, file = tmp_path / "model.zip", tmp_path / place
    path.write_bytes(source.read_bytes())
    load_policy(path, environment(SINGLES))
    file.parent.mkdir(exist_ok=True)
    venv.save(file)
    if place == "model.pkl":
        file = file.rename(tmp_path / "model_vecnormalize_16_steps.pkl")
        path = path.rename(tmp_path / "model_16_steps.zip")
    assert find_statistics(path) == file
    with pytest.raises(InputError, match=f"{file.name}' may be it"):
        load_policy(path, environment(SINGLES))


@pytest.mark.parametrize(
    ("algorithm", "env", "other"),
    [
        *[("DQN", "FiveKeys-v0", env) for env in (SINGLES, "Pendulum-v1")],
        *[("SAC", SINGLES, SINGLES), ("SAC", DOUBLES, DOUBLES)],
    ],
)
def test_statistics_of_another_policy_nearby_do_not_matter(algorithm, env, other, saved, tmp_path):
    """Of the same shape or not: they do not explain the last observation of an off-policy zip."""
    path = tmp_path / "model.zip"
    path.write_bytes(saved(algorithm, env, wrap=False)[0].read_bytes())
    venv = VecNormalize(DummyVecEnv([lambda: gym.make(other)]))
    venv.obs_rms.mean, venv.obs_rms.var = venv.obs_rms.mean + 3, venv.obs_rms.var * 0.01
    venv.save(tmp_path / "vecnormalize.pkl")
    assert normalization(load_policy(path, environment(env))) == "none"


def test_where_nothing_tells_whose_statistics_they_are_the_user_is_asked(saved, tmp_path):
    source, _, venv = saved("SAC", SINGLES)
    venv.save(tmp_path / "vecnormalize.pkl")
    data = data_of(source) | {"_last_obs": None, "_last_original_obs": None}
    with zipfile.ZipFile(source) as old, zipfile.ZipFile(tmp_path / "model.zip", "w") as new:
        new.writestr("data", json.dumps(data))
        new.writestr("policy.pth", old.read("policy.pth"))
    with refused("does not say whether it was trained with it"):
        load_policy(tmp_path / "model.zip", environment(SINGLES))


# --- what is done with them -------------------------------------------------------------------


@pytest.fixture
def given(saved, tmp_path):
    """A normalised policy, its model, the wrapper, and the wrapper's pickle."""
    path, model, venv = saved("PPO", SINGLES)
    venv.save(tmp_path / "statistics.pkl")
    return path, model, venv, tmp_path / "statistics.pkl"


OBSERVATIONS = np.random.default_rng(0).normal(0, 2, (64, 5)).astype(np.float32)
NO_NOISE = np.zeros((64, 0), np.float32)


def test_names_and_records_say_what_a_policy_is_normalised_by(given):
    path, model, _, statistics = given
    found = load_policy(path, environment(SINGLES), normalize=str(statistics))
    assert found.name == "model.zip (PPO), normalised by statistics.pkl"
    assert normalization(found) == "statistics.pkl"
    without = load_policy(path, environment(SINGLES), normalize=False)
    assert without.name == "model.zip (PPO), not normalised"
    assert normalization(without) == "none"
    assert without.digest == hashlib.sha256(path.read_bytes()).hexdigest() != found.digest
    raw, _ = model.predict(OBSERVATIONS, deterministic=True)
    np.testing.assert_allclose(without.act(OBSERVATIONS, NO_NOISE), raw, atol=1e-5, rtol=0)
    collected = collect(path, SINGLES, 1, workers=1, normalize=statistics)
    assert collected.subject["policy"]["normalization"] == "statistics.pkl"


def test_a_model_in_memory_that_lost_its_statistics_is_refused(saved):
    """As after `PPO.load(path)`: the statistics are in another file."""
    for algorithm in ("PPO", "SAC"):
        path, _, venv = saved(algorithm, DOUBLES)
        model = getattr(stable_baselines3, algorithm).load(path, device="cpu")
        with pytest.raises(InputError, match=r"VecNormalize.*set_env.*`normalize=False`"):
            load_policy(model, environment(DOUBLES))
        assert normalization(load_policy(model, environment(DOUBLES), normalize=False)) == "none"
        model.set_env(venv)
        assert normalization(as_policy(model)) == f"the VecNormalize of {algorithm}"
        assert normalization(as_policy(model, normalize=False)) == "none"
    plain, _, _ = saved("PPO", DOUBLES, wrap=False)
    as_policy(stable_baselines3.PPO.load(plain, device="cpu"))


# --- the files --------------------------------------------------------------------------------


@pytest.mark.parametrize("algorithm", ["PPO", "SAC"])
def test_actions_are_those_of_sb3_on_normalised_observations(
    algorithm, tmp_path, sb3_model, sb3_file
):
    """Pickles of every protocol are read without `trust`."""
    rng = np.random.default_rng(4)
    wrapper = VecNormalize(DummyVecEnv([lambda: environment(SINGLES)]), clip_obs=1.5, epsilon=0.01)
    mean, var = rng.normal(0, 2, 5), rng.uniform(1, 4, 5)
    wrapper.obs_rms.mean, wrapper.obs_rms.var = mean, var
    normalised = wrapper.normalize_obs(OBSERVATIONS)
    assert (np.abs(normalised) == 1.5).any()  # the clipping takes part
    expected, _ = sb3_model(algorithm, SINGLES).predict(normalised, deterministic=True)
    path, env = sb3_file(algorithm, SINGLES), environment(SINGLES)
    plain = load_policy(path, env)
    assert np.abs(plain.act(OBSERVATIONS, NO_NOISE) - expected).max() > 0.1
    np.savez(tmp_path / "s.npz", mean=mean, var=var, epsilon=0.01, clip=1.5)
    for protocol in range(6):
        (tmp_path / f"{protocol}.pkl").write_bytes(pickle.dumps(wrapper, protocol=protocol))
    for file in tmp_path.iterdir():
        policy = load_policy(path, env, normalize=file)
        np.testing.assert_allclose(policy.act(OBSERVATIONS, NO_NOISE), expected, atol=1e-5, rtol=0)


def test_a_pickle_of_another_age_is_read_without_its_modules(tmp_path):
    (tmp_path / "old.pkl").write_bytes(vecnormalize([1, 2, 3, 4, 5], [4, 4, 4, 4, 9]))
    found = read_statistics(tmp_path / "old.pkl", environment(SINGLES))
    np.testing.assert_array_equal(found.mean, [1, 2, 3, 4, 5])
    np.testing.assert_allclose(found.scale, [2, 2, 2, 2, 3], rtol=1e-8)
    assert found.clip == 10.0
    (tmp_path / "off.pkl").write_bytes(vecnormalize([1], [1], norm_obs=b"\x89"))
    assert read_statistics(tmp_path / "off.pkl", environment(SINGLES)) is None


def test_normalisation_is_exact_where_the_mean_is_large_and_the_spread_small(
    tmp_path, sb3_model, sb3_file
):
    """SB3 subtracts in float64; a mean rounded to float32 moves the observation."""
    wrapper = VecNormalize(DummyVecEnv([lambda: environment("FiveWide-v0")]))
    wrapper.obs_rms.mean, wrapper.obs_rms.var = np.full(5, 1000.1), np.full(5, 1e-6)
    np.savez(tmp_path / "far.npz", mean=wrapper.obs_rms.mean, var=wrapper.obs_rms.var)
    observations = np.full((64, 5), 1000.1, np.float32)
    model, path = sb3_model("PPO", "FiveWide-v0"), sb3_file("PPO", "FiveWide-v0")
    expected, _ = model.predict(wrapper.normalize_obs(observations), deterministic=True)
    policy = load_policy(path, environment("FiveWide-v0"), normalize=tmp_path / "far.npz")
    np.testing.assert_allclose(policy.act(observations, NO_NOISE), expected, atol=1e-5, rtol=0)


@pytest.mark.parametrize("norm_obs", [True, False])
def test_a_model_in_memory_keeps_the_normalisation_it_was_trained_behind(norm_obs):
    wrapper = VecNormalize(
        DummyVecEnv([lambda: environment("FiveWide-v0")]), clip_obs=1.5, norm_obs=norm_obs
    )
    model = stable_baselines3.PPO("MlpPolicy", wrapper, device="cpu", seed=0)
    if norm_obs:
        wrapper.obs_rms.mean, wrapper.obs_rms.var = np.full(5, 3.0), np.full(5, 4.0)
    expected, _ = model.predict(wrapper.normalize_obs(OBSERVATIONS), deterministic=True)
    actions = as_policy(model).act(OBSERVATIONS, NO_NOISE)
    np.testing.assert_allclose(actions, expected, atol=1e-5, rtol=0)
    assert normalization(as_policy(model)) == ("the VecNormalize of PPO" if norm_obs else "none")


WRONG = {
    "text": b"not a file of numbers",
    "no VecNormalize": pickle.dumps({"obs_rms": 1}),
    "another object": pickle.dumps(np.zeros(5)),
    "other observations": vecnormalize([1, 2], [1, 1]),
    "fewer variances": vecnormalize([1, 2, 3, 4, 5], [1, 1]),
    "negative variances": vecnormalize([1, 2, 3, 4, 5], [1, 1, 1, 1, -1]),
    "NaN": vecnormalize([1, 2, 3, 4, np.nan], [1, 1, 1, 1, 1]),
    "no statistics": vecnormalize([1, 2, 3, 4, 5], [1, 1, 1, 1, 1], obs_rms=None),
    "statistics of another kind": vecnormalize([1] * 5, [1] * 5, obs_rms=b"K\x01"),
    "a limit that is none": vecnormalize([1] * 5, [1] * 5, clip_obs=b"X\x01\x00\x00\x00a"),
    "npz: text": b"PK",
    "npz: another width": {"mean": np.zeros(4), "var": np.ones(4)},
    "npz: objects": {"mean": np.zeros(5, object), "var": np.ones(5)},
}


@pytest.mark.filterwarnings("ignore:unclosed file:ResourceWarning")  # numpy's, of a bad .npz
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_statistics_that_are_none_are_one_line(tmp_path, saved):
    saved("PPO", SINGLES)[2].save(tmp_path / "whole.pkl")
    whole = (tmp_path / "whole.pkl").read_bytes()
    short = {str(n): whole[:n] for n in (10, 100, len(whole) // 2, len(whole) - 1)}
    for name, content in {**WRONG, **short}.items():
        file = tmp_path / f"wrong.{'npz' if 'npz' in name else 'pkl'}"
        if isinstance(content, dict):
            np.savez(file, **content)
        else:
            file.write_bytes(content)
        with pytest.raises(InputError, match=r"wrong\.(npz|pkl)"):
            read_statistics(file, environment(SINGLES))
    os.mkfifo(tmp_path / "pipe.pkl")  # would never end
    with pytest.raises(InputError, match=r"no file at .*pipe\.pkl"):
        read_statistics(tmp_path / "pipe.pkl", environment(SINGLES))


def test_statistics_are_not_silently_left_out_for_objects_nor_guessed_at(given, tmp_path):
    with pytest.raises(InputError, match="`normalize`"):
        load_policy(custom_environments.still, environment("Counting-v0"), normalize=given[3])
    with pytest.raises(InputError, match="found True"):
        load_policy(given[0], environment(SINGLES), normalize=True)


# --- Dict observations ------------------------------------------------------------------------


def dict_statistics(venv, rng):
    for running in venv.obs_rms.values():
        running.mean = rng.normal(0, 2, running.mean.shape)
        running.var = rng.uniform(0.2, 2, running.var.shape)


def samples(space, rows=64):
    space.seed(0)
    found = [space.sample() for _ in range(rows)]
    batch = {key: np.stack([sample[key] for sample in found]) for key in space}
    flat = np.stack([gym.spaces.flatten(space, sample) for sample in found])
    return batch, flat.astype(np.float32)


@pytest.mark.parametrize(
    ("keys", "suffix"), [(["velocity", "angle"], ".pkl"), (["velocity"], ".npz")], ids=str
)
def test_statistics_of_dictionaries_are_those_of_sb3_key_by_key(keys, suffix, saved, tmp_path):
    """Other keys, here a one-hot one among them, are neither shifted, scaled nor clipped."""
    path, model, venv = saved(
        "PPO", "Keyed-v0", "MultiInputPolicy", norm_obs_keys=keys, clip_obs=1.5, epsilon=0.01
    )
    dict_statistics(venv, np.random.default_rng(4))
    file = tmp_path / f"statistics{suffix}"
    if suffix == ".pkl":
        venv.save(file)
    else:
        arrays = {f"{key}.mean": venv.obs_rms[key].mean for key in keys}
        arrays |= {f"{key}.var": venv.obs_rms[key].var for key in keys}
        np.savez(file, **arrays, epsilon=0.01, clip=1.5)
    batch, flat = samples(SPACE)
    scaled = venv.normalize_obs(batch)
    assert np.abs(scaled[keys[0]]).max() == 1.5
    expected, _ = model.predict(scaled, deterministic=True)
    env = environment("Keyed-v0")
    with pytest.raises(InputError, match="VecNormalize"):
        load_policy(path, env)
    policy = load_policy(path, env, normalize=file)
    np.testing.assert_allclose(policy.act(flat, NO_NOISE), expected, atol=1e-5, rtol=0)
    plain = load_policy(path, env, normalize=False)
    assert np.abs(plain.act(flat, NO_NOISE) - expected).max() > 0.05
    save_mlp(policy, tmp_path / "policy.safetensors", environment="Keyed-v0")
    again = load_mlp(tmp_path / "policy.safetensors")
    np.testing.assert_array_equal(again.act(flat, NO_NOISE), policy.act(flat, NO_NOISE))
    assert normalization(again) == "policy.safetensors"


OTHERS = [
    *[{"speed.mean": np.zeros(4), "speed.var": np.ones(4)}, {"velocity.mean": np.zeros(4)}],
    {"velocity.mean": np.zeros(3), "velocity.var": np.ones(3)},
    {"velocity.mean": np.zeros(4), "velocity.var": np.ones(3)},
    *[{"epsilon": 0.1}, {"mean": np.zeros(5), "var": np.ones(5)}],
    {"mean": np.zeros(8), "var": np.ones(8), "clip": np.nan},
    {"mean": np.zeros(8), "var": np.ones(5)},
]


def test_statistics_of_other_keys_or_widths_are_one_line(tmp_path):
    env = environment("Keyed-v0")
    for arrays in OTHERS:
        np.savez(tmp_path / "other.npz", **arrays)
        with refused(r"other\.npz"):
            read_statistics(tmp_path / "other.npz", env)
