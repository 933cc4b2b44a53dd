"""SB3 zips: the rebuilt policy is SB3's own, and nothing inside a zip is executed."""

import base64
import hashlib
import io
import json
import os
import pickle
import zipfile

import custom_environments
import numpy as np
import pytest
import torch
from stable_baselines3 import PPO
from stable_baselines3.common.policies import ActorCriticPolicy
from stable_baselines3.common.torch_layers import BaseFeaturesExtractor
from stable_baselines3.common.vec_env import DummyVecEnv, VecNormalize

from tightrope.environments import make_env
from tightrope.errors import InputError
from tightrope.policies import as_policy, check_fit, load_policy

OBSERVATIONS = np.random.default_rng(0).normal(0, 2, (64, 5)).astype(np.float32)
NO_NOISE = np.zeros((64, 0), np.float32)

CONTINUOUS = [("PPO", "Five-v0"), ("A2C", "Five-v0")]
CONTINUOUS += [(name, "Five-v0") for name in ("SAC", "TD3", "DDPG")]
EVERY = [*CONTINUOUS, ("PPO", "FiveKeys-v0"), ("A2C", "FiveKeys-v0")]


def environment(name):
    return make_env(name)


class Extractor(BaseFeaturesExtractor):
    """A learned features extractor, as users write them."""

    def __init__(self, observation_space):
        super().__init__(observation_space, features_dim=4)
        self.layer = torch.nn.Linear(5, 4)

    def forward(self, observations):
        return self.layer(observations)


class CustomPolicy(ActorCriticPolicy):
    """A policy class of the user's own, which may do anything."""

    def _predict(self, observation, deterministic=False):
        return super()._predict(-observation, deterministic)


# --- the same function ------------------------------------------------------------------------


@pytest.mark.parametrize("activation", ["Tanh", "ReLU", "ELU", "LeakyReLU"])
@pytest.mark.parametrize(("algorithm", "env"), EVERY)
def test_a_rebuilt_policy_predicts_what_sb3_predicts(
    algorithm, env, activation, sb3_model, sb3_file
):
    variant = {"activation_fn": getattr(torch.nn, activation)}
    expected, _ = sb3_model(algorithm, env, **variant).predict(OBSERVATIONS, deterministic=True)
    policy = load_policy(sb3_file(algorithm, env, **variant), environment(env))
    actions = policy.act(OBSERVATIONS, NO_NOISE)
    assert policy.deterministic
    assert policy.noise_size == 0
    assert len(np.unique(expected.round(3), axis=0)) > 1  # or the comparison would prove little
    np.testing.assert_allclose(actions, expected, atol=1e-5, rtol=0)


@pytest.mark.parametrize(
    ("algorithm", "net_arch"),
    [
        ("PPO", {"pi": [8], "vf": [16, 16]}),
        ("PPO", {"pi": [8, 4, 2], "vf": []}),
        ("PPO", []),
        ("A2C", {"pi": [], "vf": [4]}),
        ("SAC", {"pi": [4, 6], "qf": [16]}),
        ("SAC", []),
        ("TD3", {"pi": [12], "qf": [4, 4]}),
        ("DDPG", []),
    ],
)
def test_every_shape_of_network_is_rebuilt(algorithm, net_arch, sb3_model, sb3_file):
    model = sb3_model(algorithm, "Five-v0", net_arch=net_arch)
    policy = load_policy(sb3_file(algorithm, "Five-v0", net_arch=net_arch), environment("Five-v0"))
    expected, _ = model.predict(OBSERVATIONS, deterministic=True)
    np.testing.assert_allclose(policy.act(OBSERVATIONS, NO_NOISE), expected, atol=1e-5, rtol=0)


@pytest.mark.parametrize(
    "harmless",
    [
        {"ortho_init": False},
        {"log_std_init": -1.0},
        {"optimizer_class": torch.optim.AdamW, "optimizer_kwargs": {"weight_decay": 0.1}},
        {"share_features_extractor": False},
    ],
)
def test_settings_that_leave_the_function_alone_do_not_need_trust(harmless, sb3_model, sb3_file):
    expected, _ = sb3_model("PPO", "Five-v0", **harmless).predict(OBSERVATIONS, deterministic=True)
    policy = load_policy(sb3_file("PPO", "Five-v0", **harmless), environment("Five-v0"))
    np.testing.assert_allclose(policy.act(OBSERVATIONS, NO_NOISE), expected, atol=1e-5, rtol=0)


def test_a_policy_of_dictionaries_is_rebuilt_for_the_flattened_environment(sb3_model, sb3_file):
    space = custom_environments.DICTIONARY
    space.seed(0)
    samples = [space.sample() for _ in range(64)]
    batch = {key: np.stack([sample[key] for sample in samples]) for key in space}
    model = sb3_model("PPO", "Dictionary-v0", "MultiInputPolicy")
    expected, _ = model.predict(batch, deterministic=True)
    env = environment("Dictionary-v0")
    flat = np.stack([env.observation(sample) for sample in samples]).astype(np.float32)
    policy = load_policy(sb3_file("PPO", "Dictionary-v0", "MultiInputPolicy"), env)
    np.testing.assert_allclose(policy.act(flat, NO_NOISE), expected, atol=1e-5, rtol=0)


def test_a_policy_of_a_grid_is_rebuilt_for_the_flattened_environment(sb3_model, sb3_file):
    """Two dimensions are never an image to SB3: it flattens them."""
    grids = np.random.default_rng(0).uniform(-1, 1, (64, 2, 3)).astype(np.float32)
    expected, _ = sb3_model("PPO", "Grid-v0").predict(grids, deterministic=True)
    policy = load_policy(sb3_file("PPO", "Grid-v0"), environment("Grid-v0"))
    flat = grids.reshape(64, 6)
    np.testing.assert_allclose(policy.act(flat, NO_NOISE), expected, atol=1e-5, rtol=0)


# --- sampled actions --------------------------------------------------------------------------

DRAWS = 40_000


def draws(path, env, outputs, observation, seed=1):
    policy = load_policy(path, environment(env), sample=True)
    assert not policy.deterministic
    assert policy.noise_size == outputs
    noise = np.random.default_rng(seed).standard_normal((DRAWS, outputs), dtype=np.float32)
    return policy.act(np.repeat(observation[None], DRAWS, axis=0), noise)


def assert_mean_and_spread(samples, mean, spread):
    """Six standard errors: one in 10^9 by chance."""
    error = 6 * spread / np.sqrt(DRAWS)
    assert (np.abs(samples.mean(axis=0) - mean) < error).all()
    assert (np.abs(samples.std(axis=0) - spread) < error).all()
    assert abs(np.corrcoef(samples.T)[0, 1]) < 6 / np.sqrt(DRAWS)


def test_sampled_ppo_actions_have_the_mean_and_spread_of_sb3s_distribution(sb3_model, sb3_file):
    model = sb3_model("PPO", "FiveWide-v0")
    observation = OBSERVATIONS[3]
    normal = model.policy.get_distribution(torch.from_numpy(observation[None])).distribution
    mean, spread = normal.mean.detach().numpy()[0], normal.stddev.detach().numpy()[0]
    samples = draws(sb3_file("PPO", "FiveWide-v0"), "FiveWide-v0", 2, observation)
    assert_mean_and_spread(samples, mean, spread)


def test_sampled_ppo_actions_are_clipped_to_the_bounds_as_sb3_does(sb3_file):
    wide = draws(sb3_file("PPO", "FiveWide-v0"), "FiveWide-v0", 2, OBSERVATIONS[3])
    actions = draws(sb3_file("PPO", "FiveWide-v0"), "Five-v0", 2, OBSERVATIONS[3])
    low, high = custom_environments.LOW, custom_environments.HIGH
    np.testing.assert_array_equal(actions, np.clip(wide, low, high))
    assert (wide != actions).any()


def test_sampled_sac_actions_have_the_mean_and_spread_of_sb3s_distribution(sb3_model, sb3_file):
    """Before the squashing, where SB3's distribution is a normal one."""
    model = sb3_model("SAC", "Five-v0", arguments={"seed": 3})
    with torch.no_grad():  # far from where the tanh is flat in float32
        model.actor.mu.weight.mul_(0.2)
        model.actor.log_std.weight.mul_(0.2)
        model.actor.log_std.bias.copy_(torch.tensor([-1.5, -0.5]))
        observation = torch.from_numpy(OBSERVATIONS[5][None])
        mean, log_std, _ = model.actor.get_action_dist_params(observation)
    path = sb3_file("SAC", "Five-v0", arguments={"seed": 3})
    actions = draws(path, "Five-v0", 2, OBSERVATIONS[5]).astype(np.float64)
    low, high = custom_environments.LOW, custom_environments.HIGH
    before = np.arctanh(2 * (actions - low) / (high - low) - 1)
    assert_mean_and_spread(before, mean.numpy()[0], np.exp(log_std.numpy()[0]))


def test_the_spread_of_sac_is_limited_as_in_sb3(sb3_model, sb3_file):
    """SB3 keeps the logarithm of the spread in [-20, 2]."""
    model = sb3_model("SAC", "Five-v0", arguments={"seed": 4})
    with torch.no_grad():
        model.actor.mu.weight.mul_(0)
        model.actor.mu.bias.mul_(0)
        model.actor.log_std.weight.mul_(0)
        model.actor.log_std.bias.copy_(torch.tensor([50.0, -50.0]))
    path = sb3_file("SAC", "Five-v0", arguments={"seed": 4})
    policy = load_policy(path, environment("Five-v0"), sample=True)
    low, high = custom_environments.LOW, custom_environments.HIGH
    noise = np.float32([[0.1, 5.0]])
    (action,) = policy.act(OBSERVATIONS[:1], noise)
    squashed = np.tanh([0.1 * np.exp(2), 0.0])
    np.testing.assert_allclose(action, low + (high - low) * (squashed + 1) / 2, atol=1e-5)


@pytest.mark.parametrize("algorithm", ["PPO", "A2C"])
def test_sampled_discrete_actions_have_the_probabilities_of_sb3(algorithm, sb3_model, sb3_file):
    model = sb3_model(algorithm, "FiveKeys-v0")
    for row, observation in enumerate(OBSERVATIONS[:3]):
        distribution = model.policy.get_distribution(torch.from_numpy(observation[None]))
        probabilities = distribution.distribution.probs.detach().numpy()[0]
        samples = draws(sb3_file(algorithm, "FiveKeys-v0"), "FiveKeys-v0", 4, observation, row)
        found = np.bincount(samples, minlength=4) / DRAWS
        error = 6 * np.sqrt(probabilities * (1 - probabilities) / DRAWS) + 1e-9
        assert (np.abs(found - probabilities) < error).all()


@pytest.mark.parametrize("algorithm", ["TD3", "DDPG"])
def test_a_policy_without_a_distribution_cannot_sample(algorithm, sb3_file):
    with pytest.raises(InputError, match="`sample`"):
        load_policy(sb3_file(algorithm, "Five-v0"), environment("Five-v0"), sample=True)


# --- normalisation ----------------------------------------------------------------------------


def vec_normalize(mean, spread, env="Five-v0", **keywords):
    wrapper = VecNormalize(DummyVecEnv([lambda: environment(env)]), **keywords)
    wrapper.obs_rms.mean, wrapper.obs_rms.var = np.asarray(mean), np.asarray(spread) ** 2
    return wrapper


@pytest.fixture(scope="module")
def statistics(tmp_path_factory):
    """A VecNormalize wrapper, its pickle, and the same numbers as an .npz."""
    rng = np.random.default_rng(4)
    wrapper = vec_normalize(rng.normal(0, 2, 5), rng.uniform(0.5, 2, 5), clip_obs=1.5, epsilon=0.01)
    folder = tmp_path_factory.mktemp("statistics")
    wrapper.save(folder / "normalize.pkl")
    numbers = {"mean": wrapper.obs_rms.mean, "var": wrapper.obs_rms.var}
    np.savez(folder / "normalize.npz", **numbers, epsilon=0.01, clip=1.5)
    return wrapper, folder


@pytest.mark.parametrize("algorithm", ["PPO", "SAC"])
@pytest.mark.parametrize(("file", "trust"), [("normalize.pkl", True), ("normalize.npz", False)])
def test_normalised_actions_are_those_of_sb3_on_normalised_observations(
    algorithm, file, trust, statistics, sb3_model, sb3_file
):
    wrapper, folder = statistics
    normalised = wrapper.normalize_obs(OBSERVATIONS)
    assert (np.abs(normalised) == 1.5).any()  # the clipping takes part
    expected, _ = sb3_model(algorithm, "Five-v0").predict(normalised, deterministic=True)
    path, env = sb3_file(algorithm, "Five-v0"), environment("Five-v0")
    with_statistics = load_policy(path, env, normalize=folder / file, trust=trust)
    without = load_policy(path, env, trust=trust)
    actions = with_statistics.act(OBSERVATIONS, NO_NOISE)
    np.testing.assert_allclose(actions, expected, atol=1e-5, rtol=0)
    assert np.abs(without.act(OBSERVATIONS, NO_NOISE) - expected).max() > 0.1


def test_statistics_without_epsilon_and_clip_mean_sb3s_defaults(tmp_path, sb3_model, sb3_file):
    mean, spread = np.linspace(-1, 1, 5), np.full(5, 0.01)
    wrapper = vec_normalize(mean, spread)
    np.savez(tmp_path / "short.npz", mean=mean, var=spread**2)
    normalised = wrapper.normalize_obs(OBSERVATIONS)
    assert np.abs(normalised).max() == 10.0
    expected, _ = sb3_model("PPO", "Five-v0").predict(normalised, deterministic=True)
    path = sb3_file("PPO", "Five-v0")
    policy = load_policy(path, environment("Five-v0"), normalize=tmp_path / "short.npz")
    np.testing.assert_allclose(policy.act(OBSERVATIONS, NO_NOISE), expected, atol=1e-5, rtol=0)


def test_normalisation_is_exact_where_the_mean_is_large_and_the_spread_small(
    tmp_path, sb3_model, sb3_file
):
    """SB3 subtracts in float64; a mean rounded to float32 moves the observation."""
    mean, spread = np.full(5, 1000.1), np.full(5, 1e-3)
    wrapper = vec_normalize(mean, spread)
    np.savez(tmp_path / "far.npz", mean=mean, var=spread**2, epsilon=1e-8, clip=10.0)
    observations = np.full((64, 5), 1000.1, np.float32)
    model, path = sb3_model("PPO", "FiveWide-v0"), sb3_file("PPO", "FiveWide-v0")
    expected, _ = model.predict(wrapper.normalize_obs(observations), deterministic=True)
    policy = load_policy(path, environment("FiveWide-v0"), normalize=tmp_path / "far.npz")
    np.testing.assert_allclose(policy.act(observations, NO_NOISE), expected, atol=1e-5, rtol=0)


def test_a_wrapper_that_was_told_not_to_normalise_does_not(tmp_path, sb3_model, sb3_file):
    wrapper = vec_normalize(np.full(5, 3.0), np.full(5, 2.0))
    wrapper.norm_obs = False
    wrapper.save(tmp_path / "off.pkl")
    path, env = sb3_file("PPO", "Five-v0"), environment("Five-v0")
    expected, _ = sb3_model("PPO", "Five-v0").predict(OBSERVATIONS, deterministic=True)
    policy = load_policy(path, env, normalize=tmp_path / "off.pkl", trust=True)
    np.testing.assert_allclose(policy.act(OBSERVATIONS, NO_NOISE), expected, atol=1e-5, rtol=0)


@pytest.mark.parametrize("norm_obs", [True, False])
def test_a_model_in_memory_keeps_the_normalisation_it_was_trained_behind(norm_obs):
    wrapper = VecNormalize(
        DummyVecEnv([lambda: environment("FiveWide-v0")]), clip_obs=1.5, norm_obs=norm_obs
    )
    model = PPO("MlpPolicy", wrapper, device="cpu", seed=0, policy_kwargs={"ortho_init": False})
    if norm_obs:
        wrapper.obs_rms.mean, wrapper.obs_rms.var = np.full(5, 3.0), np.full(5, 4.0)
    expected, _ = model.predict(wrapper.normalize_obs(OBSERVATIONS), deterministic=True)
    actions = as_policy(model).act(OBSERVATIONS, NO_NOISE)
    np.testing.assert_allclose(actions, expected, atol=1e-5, rtol=0)
    plain, _ = model.predict(OBSERVATIONS, deterministic=True)
    assert (np.abs(plain - expected).max() > 0.01) == norm_obs


def test_the_digest_is_the_sha256_of_the_file_and_changes_with_the_normalisation(
    statistics, sb3_file, tmp_path
):
    path, env = sb3_file("PPO", "Five-v0"), environment("Five-v0")
    plain = load_policy(path, env).digest
    assert plain == hashlib.sha256(path.read_bytes()).hexdigest()
    assert plain == load_policy(path, env, trust=True).digest
    _, folder = statistics
    np.savez(tmp_path / "other.npz", mean=np.zeros(5), var=np.ones(5))
    digests = {
        load_policy(path, env, normalize=file).digest
        for file in (folder / "normalize.npz", tmp_path / "other.npz")
    }
    assert len(digests | {plain}) == 3


@pytest.mark.filterwarnings("ignore:unclosed file:ResourceWarning")  # numpy's, of a bad .npz
@pytest.mark.parametrize(
    "content",
    [
        pytest.param(b"", id="empty"),
        pytest.param(b"not a file of numbers", id="text"),
        pytest.param(None, id="truncated"),
        pytest.param({"mean": np.zeros(5)}, id="no variance"),
        pytest.param({"mean": np.zeros(4), "var": np.ones(4)}, id="another width"),
        pytest.param({"mean": np.zeros(5), "var": np.full(5, -1.0)}, id="negative variance"),
        pytest.param({"mean": np.full(5, np.nan), "var": np.ones(5)}, id="NaN"),
        pytest.param({"mean": np.zeros(5, object), "var": np.ones(5)}, id="a pickle in an npz"),
    ],
)
def test_damaged_statistics_are_an_input_error(content, statistics, sb3_file, tmp_path):
    file = tmp_path / "statistics.npz"
    if isinstance(content, dict):
        np.savez(file, **content)
    elif content is None:
        file.write_bytes((statistics[1] / "normalize.npz").read_bytes()[:-40])
    else:
        file.write_bytes(content)
    env, said = environment("Five-v0"), "nothing"
    try:
        check_fit(load_policy(sb3_file("PPO", "Five-v0"), env, normalize=file), env)
    except Exception as error:  # not pytest.raises: it would keep the open file alive
        said = type(error).__name__
    assert said == "InputError"


@pytest.mark.parametrize("kept", [0, 10, 100])
def test_a_truncated_vecnormalize_pickle_is_an_input_error(kept, statistics, sb3_file, tmp_path):
    file = tmp_path / "statistics.pkl"
    file.write_bytes((statistics[1] / "normalize.pkl").read_bytes()[:kept])
    with pytest.raises(InputError, match="statistics"):
        load_policy(sb3_file("PPO", "Five-v0"), environment("Five-v0"), normalize=file, trust=True)


def test_statistics_that_are_not_there_are_an_input_error(sb3_file, tmp_path):
    with pytest.raises(InputError, match=r"nowhere\.npz"):
        load_policy(
            sb3_file("PPO", "Five-v0"),
            environment("Five-v0"),
            normalize=tmp_path / "nowhere.npz",
        )


# --- nothing is executed ----------------------------------------------------------------------


class Bomb:
    """Unpickling it creates the marker, a folder."""

    def __init__(self, marker):
        self.marker = marker

    def __reduce__(self):
        return os.mkdir, (str(self.marker),)


def repack(source, target, **members):
    """A copy of the zip with some members replaced; `policy_pth` names policy.pth."""
    members = {name.replace("_pth", ".pth"): content for name, content in members.items()}
    with zipfile.ZipFile(source) as old, zipfile.ZipFile(target, "w") as new:
        for name in old.namelist():
            new.writestr(name, members.get(name, old.read(name)))
    return target


def read_data(path):
    with zipfile.ZipFile(path) as archive:
        return json.loads(archive.read("data"))


def test_a_malicious_pickle_in_the_data_of_a_zip_is_not_executed(tmp_path, sb3_file):
    marker, source = tmp_path / "marker", sb3_file("PPO", "Five-v0")
    payload = base64.b64encode(pickle.dumps(Bomb(marker))).decode()
    data = read_data(source)
    armed = [value for value in data.values() if isinstance(value, dict)]
    for value in armed:
        value[":serialized:"] = payload
    assert armed
    target = repack(source, tmp_path / "bomb.zip", data=json.dumps(data))
    policy = load_policy(target, environment("Five-v0"))
    assert policy.act(OBSERVATIONS, NO_NOISE).shape == (64, 2)
    assert not marker.exists()
    with pytest.raises(FileExistsError):  # a live one: the second pickle finds the first's marker
        PPO.load(target, device="cpu")


@pytest.mark.parametrize("legacy", [True, False])
@pytest.mark.parametrize("member", ["policy_pth", "pytorch_variables_pth"])
def test_malicious_weights_in_a_zip_are_not_executed(legacy, member, tmp_path, sb3_file):
    marker, weights = tmp_path / "marker", io.BytesIO()
    torch.save(
        {"action_net.weight": Bomb(marker)}, weights, _use_new_zipfile_serialization=not legacy
    )
    source = sb3_file("PPO", "Five-v0")
    target = repack(source, tmp_path / "bomb.zip", **{member: weights.getvalue()})
    try:
        policy = load_policy(target, environment("Five-v0"))
    except InputError:
        assert member == "policy_pth"
    else:  # members that are not read do no harm
        assert member != "policy_pth"
        assert policy.act(OBSERVATIONS, NO_NOISE).shape == (64, 2)
    assert not marker.exists()
    weights.seek(0)
    torch.load(weights, weights_only=False)
    assert marker.exists()


def test_a_malicious_vecnormalize_pickle_is_not_executed_without_trust(tmp_path, sb3_file):
    marker, file = tmp_path / "marker", tmp_path / "normalize.pkl"
    file.write_bytes(pickle.dumps(Bomb(marker)))
    with pytest.raises(InputError, match="`trust`"):
        load_policy(sb3_file("PPO", "Five-v0"), environment("Five-v0"), normalize=file)
    assert not marker.exists()
    pickle.loads(file.read_bytes())
    assert marker.exists()


def test_a_malicious_pickle_called_npz_is_not_executed(tmp_path, sb3_file):
    marker, file = tmp_path / "marker", tmp_path / "normalize.npz"
    for content in (pickle.dumps(Bomb(marker)), None):
        if content is None:
            np.savez(file, mean=np.array([Bomb(marker)] * 5, object), var=np.ones(5))
        else:
            file.write_bytes(content)
        with pytest.raises(InputError):
            load_policy(sb3_file("PPO", "Five-v0"), environment("Five-v0"), normalize=file)
        assert not marker.exists()


# --- what cannot be rebuilt is refused --------------------------------------------------------

REFUSED = {
    "learned features extractor": {"features_extractor_class": Extractor},
    "gSDE": {"arguments": {"use_sde": True}},
    "unknown activation": {"activation_fn": torch.nn.SiLU},
    "custom policy class": {"policy": CustomPolicy},
}


@pytest.mark.parametrize("keywords", REFUSED.values(), ids=REFUSED)
def test_what_cannot_be_rebuilt_without_executing_it_is_refused_and_names_trust(keywords, sb3_file):
    path = sb3_file("PPO", "Five-v0", **keywords)
    with pytest.raises(InputError, match="`trust`") as refusal:
        load_policy(path, environment("Five-v0"))
    assert "\n" not in str(refusal.value)


@pytest.mark.parametrize("keywords", REFUSED.values(), ids=REFUSED)
def test_with_trust_sb3_itself_loads_what_was_refused(keywords, sb3_model, sb3_file):
    path = sb3_file("PPO", "Five-v0", **keywords)
    expected, _ = sb3_model("PPO", "Five-v0", **keywords).predict(OBSERVATIONS, deterministic=True)
    policy = load_policy(path, environment("Five-v0"), trust=True)
    np.testing.assert_allclose(policy.act(OBSERVATIONS, NO_NOISE), expected, atol=1e-5, rtol=0)


@pytest.mark.parametrize("trust", [False, True])
@pytest.mark.parametrize("policy", ["MlpPolicy", "CnnPolicy"])
def test_an_image_policy_is_refused_at_once_with_what_to_do(policy, trust, sb3_file):
    """SB3 divides images by 255 and moves their channels, which no weight in the zip shows."""
    path = sb3_file("PPO", "Image-v0", policy)
    with pytest.raises(
        InputError, match=r"images in ppo\d+\.zip: give it as file\.py:name"
    ) as error:
        load_policy(path, environment("Image-v0"), trust=trust)
    assert "\n" not in str(error.value)


CONTRIB = {
    "RecurrentPPO": ("sb3_contrib.common.recurrent.policies", "certify the recording"),
    "TQC": ("sb3_contrib.tqc.policies", r"give it as file\.py:name"),
    "MaskablePPO": ("sb3_contrib.common.maskable.policies", r"give it as file\.py:name"),
}


@pytest.mark.parametrize("trust", [False, True])
@pytest.mark.parametrize(("module", "remedy"), CONTRIB.values(), ids=CONTRIB)
def test_policies_of_sb3_contrib_are_refused_at_once_with_what_to_do(
    module, remedy, trust, tmp_path, sb3_file
):
    source = sb3_file("PPO", "Five-v0")
    data = read_data(source)
    data["policy_class"]["__module__"] = module
    path = repack(source, tmp_path / "contrib.zip", data=json.dumps(data))
    with pytest.raises(InputError, match=remedy) as refusal:
        load_policy(path, environment("Five-v0"), trust=trust)
    assert "\n" not in str(refusal.value)


def test_dqn_is_rebuilt_and_has_nothing_to_sample_from(sb3_model, sb3_file):
    path, env = sb3_file("DQN", "FiveKeys-v0"), environment("FiveKeys-v0")
    expected, _ = sb3_model("DQN", "FiveKeys-v0").predict(OBSERVATIONS, deterministic=True)
    assert len(set(expected.tolist())) > 1
    policy = load_policy(path, env)
    np.testing.assert_array_equal(policy.act(OBSERVATIONS, NO_NOISE), expected)
    assert "(DQN)" in policy.name
    with pytest.raises(InputError, match="`sample`"):
        load_policy(path, env, sample=True)


def test_a_learned_feature_extractor_of_dqn_is_not_overlooked(sb3_file):
    path = sb3_file("DQN", "FiveKeys-v0", features_extractor_class=Extractor)
    with pytest.raises(InputError, match="`trust`"):
        load_policy(path, environment("FiveKeys-v0"))


def test_what_can_be_rebuilt_is_not_executed_even_with_trust(tmp_path, sb3_file):
    marker, source = tmp_path / "marker", sb3_file("PPO", "Five-v0")
    data = read_data(source)
    data["lr_schedule"] = {":serialized:": base64.b64encode(pickle.dumps(Bomb(marker))).decode()}
    path = repack(source, tmp_path / "bomb.zip", data=json.dumps(data))
    load_policy(path, environment("Five-v0"), trust=True)
    assert not marker.exists()


def with_pickle(source, target, content):
    """A zip that SB3 itself has to load, with this for its learning-rate schedule."""
    data = read_data(source)
    data["lr_schedule"] = {":serialized:": base64.b64encode(content).decode()}
    return repack(source, target, data=json.dumps(data))


def test_a_trusted_zip_that_needs_a_missing_package_is_one_line_that_names_it(tmp_path, sb3_file):
    source = sb3_file("PPO", "Five-v0", policy=CustomPolicy)
    path = with_pickle(source, tmp_path / "a.zip", b"crobot_arm.gripper\nSchedule\n.")
    with pytest.raises(InputError, match=r"a\.zip: it needs the module 'robot_arm'") as refusal:
        load_policy(path, environment("Five-v0"), trust=True)
    assert "\n" not in str(refusal.value)


def test_whatever_a_trusted_zip_raises_is_one_line(tmp_path, sb3_file):
    """Here a call of int("two\\nlines")."""
    source = sb3_file("PPO", "Five-v0", policy=CustomPolicy)
    path = with_pickle(source, tmp_path / "a.zip", b"cbuiltins\nint\n(Vtwo\\u000alines\ntR.")
    with pytest.raises(InputError, match=r"SB3 cannot load a\.zip \(ValueError: .*two") as refusal:
        load_policy(path, environment("Five-v0"), trust=True)
    assert "\n" not in str(refusal.value)


def test_a_trusted_policy_of_dictionaries_that_cannot_be_rebuilt_is_one_line(sb3_file):
    path = sb3_file("PPO", "Dictionary-v0", "MultiInputPolicy", activation_fn=torch.nn.SiLU)
    with pytest.raises(InputError, match=r"of vectors, found one of Dict.*file\.py:name"):
        load_policy(path, environment("Dictionary-v0"), trust=True)


@pytest.mark.parametrize(
    ("algorithm", "saved_for", "used_in"),
    [
        pytest.param("PPO", "Five-v0", "Pendulum-v1", id="other observations"),
        pytest.param("PPO", "Five-v0", "FiveKeys-v0", id="discrete actions instead of Box"),
        pytest.param("PPO", "FiveKeys-v0", "Five-v0", id="Box actions instead of discrete"),
        pytest.param("SAC", "Five-v0", "FiveNarrow-v0", id="one action instead of two"),
        pytest.param("SAC", "FiveNarrow-v0", "Five-v0", id="SAC: two actions instead of one"),
        pytest.param("PPO", "FiveNarrow-v0", "Five-v0", id="PPO: two actions instead of one"),
        pytest.param("PPO", "FiveKeys-v0", "FiveSwitch-v0", id="two keys instead of four"),
        pytest.param("PPO", "FiveSwitch-v0", "FiveKeys-v0", id="four keys instead of two"),
    ],
)
def test_a_policy_for_another_environment_is_refused_with_the_environments_space(
    algorithm, saved_for, used_in, sb3_file
):
    env = environment(used_in)
    with pytest.raises(InputError) as refusal:
        check_fit(load_policy(sb3_file(algorithm, saved_for), env), env)
    spaces = str(env.observation_space), str(env.action_space)
    assert any(space in str(refusal.value) for space in spaces)
    assert "\n" not in str(refusal.value)


# --- damaged files ----------------------------------------------------------------------------


def loads_or_refuses(path):
    try:
        policy = load_policy(path, environment("Five-v0"))
    except InputError as refusal:
        assert "\n" not in str(refusal)  # noqa: PT017
        return False
    assert policy.act(OBSERVATIONS, NO_NOISE).shape == (64, 2)
    return True


def test_a_truncated_zip_is_an_input_error(tmp_path, sb3_file):
    content, path = sb3_file("PPO", "Five-v0").read_bytes(), tmp_path / "short.zip"
    for kept in np.linspace(0, len(content) - 1, 40).astype(int):
        path.write_bytes(content[:kept])
        assert not loads_or_refuses(path)


def test_a_zip_with_flipped_bytes_is_an_input_error_or_the_same_policy(tmp_path, sb3_file):
    source, path = sb3_file("PPO", "Five-v0"), tmp_path / "flipped.zip"
    content, rng = source.read_bytes(), np.random.default_rng(0)
    expected = load_policy(source, environment("Five-v0")).act(OBSERVATIONS, NO_NOISE)
    directory = content.index(b"PK\x01\x02")  # the zip's own structure, where flips go deepest
    places = [*rng.integers(0, len(content), 60), *rng.integers(directory, len(content), 240)]
    for place in places:
        damaged = bytearray(content)
        damaged[place] ^= 1 << rng.integers(8)
        path.write_bytes(damaged)
        if loads_or_refuses(path):
            actions = load_policy(path, environment("Five-v0")).act(OBSERVATIONS, NO_NOISE)
            np.testing.assert_array_equal(actions, expected)


def weights(content):
    stream = io.BytesIO()
    torch.save(content, stream)
    return stream.getvalue()


@pytest.mark.parametrize(
    "members",
    [
        pytest.param({"data": b"[1, 2]"}, id="data is a list"),
        pytest.param({"data": b"\xff\xfe\xfa"}, id="data is not text"),
        pytest.param({"data": b"{}"}, id="data is empty"),
        pytest.param({"data": b'{"policy_kwargs": 3}'}, id="policy_kwargs is a number"),
        pytest.param({"policy_pth": b"PK"}, id="weights are no torch file"),
        pytest.param({"policy_pth": weights([1, 2])}, id="weights are a list"),
        pytest.param({"policy_pth": weights({"action_net.weight": 3})}, id="a weight is a number"),
        pytest.param(
            {"policy_pth": weights({"action_net.weight": torch.ones(2, 5)})}, id="no bias"
        ),
        pytest.param(
            {
                "policy_pth": weights(
                    {
                        "action_net.weight": torch.full((2, 5), torch.nan),
                        "action_net.bias": torch.zeros(2),
                        "log_std": torch.zeros(2),
                    }
                )
            },
            id="a weight is NaN",
        ),
    ],
)
def test_a_zip_with_the_wrong_content_is_an_input_error(members, tmp_path, sb3_file):
    path = repack(sb3_file("PPO", "Five-v0"), tmp_path / "wrong.zip", **members)
    env = environment("Five-v0")
    with pytest.raises(InputError):
        check_fit(load_policy(path, env), env)


def test_a_zip_of_something_else_is_an_input_error(tmp_path):
    with zipfile.ZipFile(tmp_path / "holiday.zip", "w") as archive:
        archive.writestr("photo.jpg", b"...")
    with pytest.raises(InputError, match="Stable-Baselines3"):
        load_policy(tmp_path / "holiday.zip", environment("Five-v0"))


def test_a_zip_that_is_not_there_is_an_input_error(tmp_path):
    with pytest.raises(InputError, match="nothing at"):
        load_policy(tmp_path / "nothing.zip", environment("Five-v0"))
