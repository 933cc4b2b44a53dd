"""SB3 and sb3-contrib zips: the same function, without executing anything that is in them."""

import base64
import io
import json
import zipfile

import custom_environments
import gymnasium as gym
import numpy as np
import pytest
import sb3_contrib
import torch
from refusals import refused
from stable_baselines3.common.policies import ActorCriticPolicy
from stable_baselines3.common.torch_layers import (
    BaseFeaturesExtractor,
    CombinedExtractor,
    FlattenExtractor,
)

from tightrope.environments import make_env
from tightrope.errors import InputError
from tightrope.policies import check_fit, load_policy

OBSERVATIONS = np.random.default_rng(0).normal(0, 2, (1000, 5)).astype(np.float32)
NO_NOISE = np.zeros((1000, 0), np.float32)
BOX, KEYS = "Five-v0", "FiveKeys-v0"
GSDE = {"arguments": {"use_sde": True}}
RELU = {"activation_fn": torch.nn.ReLU}

# Algorithm, environment, and the keywords of a model: its own, or those of its policy.
SAME = [
    *[(name, BOX, {}) for name in ("PPO", "A2C", "SAC", "TD3", "DDPG", "TRPO", "TQC", "ARS")],
    *[(name, KEYS, {}) for name in ("PPO", "A2C", "DQN", "TRPO", "QRDQN", "ARS", "MaskablePPO")],
    *[(name, BOX, GSDE) for name in ("PPO", "A2C", "SAC", "TQC")],
    ("PPO", BOX, {**GSDE, "squash_output": True, "full_std": False}),
    ("SAC", BOX, {**GSDE, "clip_mean": 0.2, "use_expln": True}),
    ("TQC", BOX, {**GSDE, "clip_mean": 0.0}),
    *[
        ("PPO", BOX, {"activation_fn": getattr(torch.nn, name)})
        for name in ("ReLU", "ELU", "LeakyReLU", "SiLU", "GELU", "Sigmoid", "Softplus")
    ],
    *[("SAC", BOX, {"activation_fn": torch.nn.Tanh}), ("QRDQN", KEYS, {**RELU, "n_quantiles": 7})],
    *[("PPO", BOX, {"net_arch": net}) for net in ({"pi": [8], "vf": [16]}, {"pi": [], "vf": [4]})],
    *[(name, BOX, {"net_arch": []}) for name in ("PPO", "SAC", "TQC", "DDPG")],
    ("TD3", BOX, {"net_arch": {"pi": [12], "qf": [4, 4]}}),
    *[("ARS", env, {"policy": "LinearPolicy", "net_arch": None}) for env in (BOX, KEYS)],
    ("ARS", BOX, {"squash_output": False}),
    ("ARS", BOX, {"with_bias": False}),
    ("PPO", BOX, {"ortho_init": False, "log_std_init": -1.0, "share_features_extractor": False}),
    ("PPO", BOX, {"features_extractor_class": FlattenExtractor}),
    ("A2C", BOX, {"optimizer_class": torch.optim.AdamW, "optimizer_kwargs": {"eps": 1e-5}}),
    ("PPO", BOX, {"normalize_images": False, "features_extractor_kwargs": {}}),
    *[("PPO", env, {}) for env in ("FiveChords-v0", "FiveBits-v0", "FiveGrid-v0")],
    ("SAC", "FiveGrid-v0", {}),
    ("PPO", BOX, {"arguments": {"clip_range": lambda left: 0.1 * left, "target_kl": 0.1}}),
]
# Observations that are flattened; SB3 flattens them alike. Two dimensions are never an image to it.
FLATTENED = [
    *[(name, env, "MlpPolicy", {}) for name in ("PPO", "TD3") for env in ("Grid-v0", "Symbol-v0")],
    *[("SAC", env, "MlpPolicy", {}) for env in ("Bits-v0", "Strings-v0")],
    *[(name, "Dictionary-v0", "MultiInputPolicy", {}) for name in ("PPO", "SAC", "TQC", "TD3")],
    ("A2C", "Dictionary-v0", "MultiInputPolicy", {"features_extractor_class": CombinedExtractor}),
]


def environment(name):
    return make_env(name)


def assert_same(actions, expected):
    """To float32 rounding; which of two equal values is larger is left to it as well."""
    assert len(np.unique(expected.round(3), axis=0)) > 1  # or the comparison would prove little
    assert actions.shape == expected.shape
    if expected.dtype.kind == "i":
        assert (actions != expected).sum() <= 1
    else:
        np.testing.assert_allclose(actions, expected, atol=1e-5, rtol=0)


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


@pytest.mark.parametrize(
    ("algorithm", "env", "keywords"),
    SAME,
    ids=lambda value: str(value).partition(" at 0x")[0].replace(" ", "")[:60],
)
def test_a_rebuilt_policy_predicts_what_sb3_predicts(algorithm, env, keywords, sb3_model, sb3_file):
    expected, _ = sb3_model(algorithm, env, **keywords).predict(OBSERVATIONS, deterministic=True)
    policy = load_policy(sb3_file(algorithm, env, **keywords), environment(env))
    assert policy.deterministic
    assert policy.noise_size == 0
    assert_same(policy.act(OBSERVATIONS, NO_NOISE), expected)
    assert "unknown" not in policy.name


@pytest.mark.parametrize(("algorithm", "env", "kind", "keywords"), FLATTENED)
def test_a_policy_of_other_observations_is_rebuilt_for_the_flattened_environment(
    algorithm, env, kind, keywords, sb3_model, sb3_file
):
    made, flattened = gym.make(env), environment(env)
    space = made.observation_space
    space.seed(0)
    samples = [space.sample() for _ in range(1000)]
    keyed = isinstance(space, gym.spaces.Dict)
    batch = {key: np.stack([s[key] for s in samples]) for key in space} if keyed else samples
    model = sb3_model(algorithm, env, kind, **keywords)
    expected, _ = model.predict(batch if keyed else np.stack(batch), deterministic=True)
    flat = np.stack([gym.spaces.flatten(space, sample) for sample in samples]).astype(np.float32)
    policy = load_policy(sb3_file(algorithm, env, kind, **keywords), flattened)
    assert_same(policy.act(flat, NO_NOISE), expected)


# --- old zips -------------------------------------------------------------------------------------


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


def weights(content, **keywords):
    stream = io.BytesIO()
    torch.save(content, stream, **keywords)
    return stream.getvalue()


def of_another_time(module, name, protocol):
    """A pickle of an object whose class is not installed here."""
    array = "cnumpy.core.multiarray\n_reconstruct\n)R"
    text = f"c{module}\n{name}\n)R}}(Vshape\n(I5\ntVlow\n{array}ub."
    return b"\x80%c" % protocol + text.encode()


def serialized(content, kind="<class 'gym.spaces.box.Box'>", **texts):
    return {":type:": kind, ":serialized:": base64.b64encode(content).decode(), **texts}


OLD = {
    "spaces of gym, pickled": lambda data: data.update(
        observation_space=serialized(of_another_time("gym.spaces.box", "Box", 2), shape="[5]"),
        action_space=serialized(of_another_time("gym.spaces.box", "Box", 4), shape="[2]"),
    ),
    "spaces that are pickles only": lambda data: data.update(
        observation_space=serialized(b"cgym.spaces\nBox\n."), action_space=None
    ),
    "no spaces": lambda data: [data.pop(name) for name in ("observation_space", "action_space")],
    "schedules of another Python": lambda data: data.update(
        lr_schedule=serialized(b"\x80\x05cutils.utils\nlinear_schedule\n(F0.1\ntR.")
    ),
    "missing keys": lambda data: [
        data.pop(name, None)
        for name in ("use_sde", "_last_obs", "_last_original_obs", "system_info", "n_envs")
    ],
    "a class by reference, in words": lambda data: data.update(
        policy_class=f"<class '{data['policy_class']['__module__']}.MlpPolicy'>"
    ),
    "a class as a pickle only": lambda data: data["policy_class"].pop("__module__"),
    "an unreadable pickle of the class": lambda data: data["policy_class"].update(
        {":serialized:": "!"}
    ),
    "no keywords": lambda data: data.update(policy_kwargs={"net_arch": [8, 8]}),
    "keywords in words": lambda data: data.update(
        policy_kwargs=serialized(b"!", net_arch=[8, 8], device="cuda", sde_net_arch=None)
    ),
    "an optimizer and a device": lambda data: data.update(
        policy_kwargs=serialized(
            b"(dVoptimizer_class\nctorch.optim.rmsprop\nRMSprop\nsVdevice\n"
            b"ctorch\ndevice\n(Vcuda\ntRs."
        )
    ),
}


@pytest.mark.parametrize(("algorithm", "env"), [("PPO", BOX), ("SAC", BOX), ("DQN", KEYS)])
@pytest.mark.parametrize("change", OLD.values(), ids=OLD)
def test_zips_of_any_age_give_the_same_policy(
    change, algorithm, env, tmp_path, sb3_model, sb3_file
):
    """Shapes are taken from the weights, bounds from the environment."""
    source = sb3_file(algorithm, env)
    data = read_data(source)
    change(data)
    path = repack(source, tmp_path / "old.zip", data=json.dumps(data))
    policy = load_policy(path, environment(env))
    expected, _ = sb3_model(algorithm, env).predict(OBSERVATIONS, deterministic=True)
    assert_same(policy.act(OBSERVATIONS, NO_NOISE), expected)


def test_layers_that_actor_and_critic_share_are_rebuilt(tmp_path, sb3_model, sb3_file):
    """Before SB3 1.8, `net_arch=[8, dict(pi=[8], vf=[8])]`; and weights before torch 1.6."""
    state = dict(sb3_model("PPO", BOX).policy.state_dict())
    for part in ("weight", "bias"):
        for net in ("policy", "value"):
            first = state.pop(f"mlp_extractor.{net}_net.0.{part}")
            state[f"mlp_extractor.{net}_net.0.{part}"] = state.pop(
                f"mlp_extractor.{net}_net.2.{part}"
            )
            if net == "policy":
                state[f"mlp_extractor.shared_net.0.{part}"] = first
    content = weights(state, _use_new_zipfile_serialization=False)
    path = repack(sb3_file("PPO", BOX), tmp_path / "shared.zip", policy_pth=content)
    expected, _ = sb3_model("PPO", BOX).predict(OBSERVATIONS, deterministic=True)
    assert_same(load_policy(path, environment(BOX)).act(OBSERVATIONS, NO_NOISE), expected)


# --- sampled actions --------------------------------------------------------------------------


@pytest.mark.parametrize(("algorithm", "env"), [("PPO", "FiveWide-v0"), ("PPO", BOX), ("SAC", BOX)])
def test_sampled_actions_are_those_of_sb3s_normal_distribution(algorithm, env, sb3_model, sb3_file):
    """SB3 keeps the logarithm of SAC's spread in [-20, 2], and clips PPO's actions."""
    model = sb3_model(algorithm, env, arguments={"seed": 3})
    rows, noise = torch.from_numpy(OBSERVATIONS[:64]), torch.randn(64, 2)
    low, high = custom_environments.LOW, custom_environments.HIGH
    with torch.no_grad():
        if algorithm == "PPO":
            normal = model.policy.get_distribution(rows).distribution
            drawn = (normal.mean + normal.stddev * noise).numpy()
            expected = drawn if env != BOX else np.clip(drawn, low, high)
        else:
            model.actor.log_std.weight[0].mul_(0.2)
            model.actor.log_std.bias.copy_(torch.tensor([-1.5, 50.0]))
            mean, log_std, _ = model.actor.get_action_dist_params(rows)
            assert (log_std[:, 1] == 2).any()
            squashed = torch.tanh(mean + log_std.exp() * noise).numpy()
            expected = low + (high - low) * (squashed + 1) / 2
    path = sb3_file(algorithm, env, arguments={"seed": 3})
    policy = load_policy(path, environment(env), sample=True)
    assert (policy.deterministic, policy.noise_size) == (False, 2)
    found = policy.act(OBSERVATIONS[:64], noise.numpy())
    np.testing.assert_allclose(found, expected, atol=1e-4, rtol=0)


@pytest.mark.parametrize(
    ("env", "outputs"), [("FiveKeys-v0", 4), ("FiveChords-v0", 5), ("FiveBits-v0", 3)]
)
def test_sampled_discrete_actions_have_the_probabilities_of_sb3(env, outputs, sb3_model, sb3_file):
    model, draws = sb3_model("PPO", env), 40_000
    policy = load_policy(sb3_file("PPO", env), environment(env), sample=True)
    assert (policy.deterministic, policy.noise_size) == (False, outputs)
    for row, observation in enumerate(OBSERVATIONS[:3]):
        made = model.policy.get_distribution(torch.from_numpy(observation[None])).distribution
        parts = [each.probs.detach().numpy()[0] for each in np.atleast_1d(made)]
        if env == "FiveBits-v0":
            parts = [np.array([1 - p, p]) for p in parts[0]]
        noise = np.random.default_rng(row).standard_normal((draws, outputs), dtype=np.float32)
        samples = policy.act(np.repeat(observation[None], draws, axis=0), noise)
        for column, probabilities in zip(samples.reshape(draws, -1).T, parts, strict=True):
            found = np.bincount(column, minlength=len(probabilities)) / draws
            # Six standard errors: one in 10^9 by chance.
            error = 6 * np.sqrt(probabilities * (1 - probabilities) / draws) + 1e-9
            assert (np.abs(found - probabilities) < error).all()


def test_a_policy_without_a_distribution_of_its_own_cannot_sample(sb3_file):
    for algorithm, env, keywords in (
        *[("TD3", BOX, {}), ("DQN", KEYS, {}), ("ARS", BOX, {})],
        *[("PPO", BOX, GSDE), ("SAC", BOX, GSDE)],
    ):
        with pytest.raises(InputError, match="`sample`"):
            load_policy(sb3_file(algorithm, env, **keywords), environment(env), sample=True)


# --- what cannot be rebuilt is refused --------------------------------------------------------


REFUSED = {
    "learned features extractor": {"features_extractor_class": Extractor},
    "learned features of two": {"features_extractor_class": Extractor, "net_arch": []},
    "unknown activation": {"activation_fn": torch.nn.Hardswish},
    "custom policy class": {"policy": CustomPolicy},
}


@pytest.mark.parametrize("keywords", REFUSED.values(), ids=REFUSED)
def test_what_cannot_be_rebuilt_without_executing_it_needs_trust(keywords, sb3_model, sb3_file):
    """With it, SB3 itself loads it."""
    path = sb3_file("PPO", BOX, **keywords)
    with refused("`trust`"):
        load_policy(path, environment(BOX))
    expected, _ = sb3_model("PPO", BOX, **keywords).predict(OBSERVATIONS, deterministic=True)
    policy = load_policy(path, environment(BOX), trust=True)
    np.testing.assert_allclose(policy.act(OBSERVATIONS, NO_NOISE), expected, atol=1e-5, rtol=0)


def test_images_and_memory_are_refused_at_once_and_batch_norm_is_not_overlooked(tmp_path, sb3_file):
    """SB3 divides images by 255 and moves their channels, which no weight in the zip shows."""
    lstm, crossq = {"lstm_hidden_size": 4}, {"net_arch": [4]}
    given = {"env": environment(BOX), "device": "cpu"}
    model = sb3_contrib.RecurrentPPO("MlpLstmPolicy", **given, policy_kwargs=lstm)
    model.save(tmp_path / "lstm.zip")
    model = sb3_contrib.CrossQ("MlpPolicy", **given, policy_kwargs=crossq, buffer_size=9)
    model.save(tmp_path / "crossq.zip")
    with refused("`trust`"):
        load_policy(tmp_path / "crossq.zip", environment(BOX))
    for path, env, words in (
        (tmp_path / "lstm.zip", BOX, r"recurrent one in lstm\.zip: .* of a `seed`"),
        *(
            (sb3_file("PPO", "Image-v0", policy), "Image-v0", r"images in ppo\d+\.zip: give it as")
            for policy in ("MlpPolicy", "CnnPolicy")
        ),
    ):
        for trust in (False, True):
            with refused(words):
                load_policy(path, environment(env), trust=trust)


def test_a_masked_policy_is_refused_where_the_environment_has_masks(sb3_file):
    env = environment(KEYS)
    env.unwrapped.action_masks = lambda: np.ones(4, bool)
    with refused("MaskablePPO"):
        load_policy(sb3_file("MaskablePPO", KEYS), env)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"crobot_arm.gripper\nSchedule\n.", "ModuleNotFoundError: No module named 'robot_arm'"),
        (b"cbuiltins\nint\n(Vtwo\\u000alines\ntR.", "ValueError: .*two"),
    ],
)
def test_whatever_a_trusted_zip_raises_is_one_line(content, words, tmp_path, sb3_file):
    source = sb3_file("PPO", "Five-v0", policy=CustomPolicy)
    data = read_data(source)
    data["lr_schedule"] = {":serialized:": base64.b64encode(content).decode()}
    path = repack(source, tmp_path / "a.zip", data=json.dumps(data))
    with pytest.raises(InputError, match=rf"SB3 cannot load a\.zip \({words}"):
        load_policy(path, environment("Five-v0"), trust=True)


def test_a_trusted_policy_of_dictionaries_that_cannot_be_rebuilt_is_one_line(sb3_file):
    path = sb3_file("PPO", "Dictionary-v0", "MultiInputPolicy", activation_fn=torch.nn.Mish)
    env = environment("Dictionary-v0")
    with refused("cannot act on them"):
        check_fit(load_policy(path, env, trust=True), env)


def test_a_policy_for_another_environment_is_refused_with_the_environments_space(sb3_file):
    """Of other observations, kinds of actions and numbers of actions."""
    for algorithm, saved_for, used_in in (
        *[("PPO", BOX, "Pendulum-v1"), ("PPO", BOX, KEYS), ("PPO", KEYS, BOX)],
        *[(name, "FiveNarrow-v0", BOX) for name in ("SAC", "PPO")],
        *[("SAC", BOX, "FiveNarrow-v0"), ("PPO", KEYS, "FiveSwitch-v0")],
        ("PPO", "FiveSwitch-v0", KEYS),
    ):
        env = environment(used_in)
        with refused() as refusal:
            check_fit(load_policy(sb3_file(algorithm, saved_for), env), env)
        spaces = str(env.observation_space), str(env.action_space)
        assert any(space in str(refusal.value) for space in spaces), (algorithm, saved_for)


# --- damaged files ----------------------------------------------------------------------------


def loads_or_refuses(path):
    try:
        policy = load_policy(path, environment("Five-v0"))
    except InputError as refusal:
        assert "\n" not in str(refusal)  # noqa: PT017
        return False
    assert policy.act(OBSERVATIONS, NO_NOISE).shape == (1000, 2)
    return True


def test_a_zip_with_flipped_bytes_is_an_input_error_or_the_same_policy(tmp_path, sb3_file):
    source, path = sb3_file("PPO", "Five-v0"), tmp_path / "flipped.zip"
    content, rng = source.read_bytes(), np.random.default_rng(0)
    expected = load_policy(source, environment("Five-v0")).act(OBSERVATIONS, NO_NOISE)
    directory = content.index(b"PK\x01\x02")  # the zip's own structure, where flips go deepest
    places = [*rng.integers(0, len(content), 20), *rng.integers(directory, len(content), 80)]
    for place in places:
        damaged = bytearray(content)
        damaged[place] ^= 1 << rng.integers(8)
        path.write_bytes(damaged)
        if loads_or_refuses(path):
            actions = load_policy(path, environment("Five-v0")).act(OBSERVATIONS, NO_NOISE)
            np.testing.assert_array_equal(actions, expected)


LAYER = {"action_net.weight": torch.full((2, 5), torch.nan), "log_std": torch.zeros(2)}
WRONG = [
    *[{"data": text} for text in (b"[1, 2]", b"\xff\xfe\xfa", b"{}", b'{"policy_kwargs": 3}')],
    *[{"policy_pth": b"PK"}, {"policy_pth": weights([1, 2])}],
    {"policy_pth": weights(LAYER)},  # no bias
    {"policy_pth": weights({**LAYER, "action_net.bias": torch.zeros(2)})},  # not a number
]


def test_a_zip_with_the_wrong_content_is_an_input_error(tmp_path, sb3_file):
    env = environment(BOX)
    for members in WRONG:
        path = repack(sb3_file("PPO", BOX), tmp_path / "wrong.zip", **members)
        with pytest.raises(InputError):
            check_fit(load_policy(path, env), env)


def test_a_zip_that_would_fill_the_memory_is_refused_before_it_is_unpacked(tmp_path):
    path = tmp_path / "bomb.zip"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("data", "{}")
        archive.writestr("policy.pth", bytes(10_000_000))
    with pytest.raises(InputError, match="made to fill the memory"):
        load_policy(path, environment(BOX))
