"""Run folders of rl-baselines3-zoo, in both layouts, with YAML as PyYAML writes it."""

from collections import OrderedDict

import gymnasium as gym
import numpy as np
import pytest
import sb3_contrib.common.wrappers
import stable_baselines3
import yaml
from command import run
from refusals import refused
from stable_baselines3.common.vec_env import DummyVecEnv, VecNormalize

from tightrope.environments import EnvInfo
from tightrope.errors import InputError
from tightrope.policies import find_run, load_policy, normalization, run_environment
from tightrope.policies.inert import read_yaml
from tightrope.policies.zoo import TimeFeature
from tightrope.rollouts import collect, is_recording, policy_source

WRAPPER = "sb3_contrib.common.wrappers.TimeFeatureWrapper"


@pytest.fixture(scope="module")
def models():
    """Of Pendulum-v1, without and with the time as a feature, behind a VecNormalize."""

    def build(wrap):
        venv = VecNormalize(DummyVecEnv([lambda: wrap(gym.make("Pendulum-v1"))]))
        model = stable_baselines3.PPO(
            *("MlpPolicy", venv), n_steps=8, batch_size=8, n_epochs=1, device="cpu", seed=0
        )
        return model.learn(16), venv

    return {"": build(lambda env: env), WRAPPER: build(TimeFeature)}


@pytest.fixture
def zoo(tmp_path, models):
    """A function that writes a run folder."""

    def write(published=False, normalize=True, arguments=None, number=1, **config):
        model, venv = models[WRAPPER if "env_wrapper" in config else ""]
        folder = tmp_path / ("ppo-Pendulum-v1" if published else f"logs/ppo/Pendulum-v1_{number}")
        place = folder if published else folder / "Pendulum-v1"
        place.mkdir(parents=True)
        model.save(folder / ("ppo-Pendulum-v1.zip" if published else "Pendulum-v1.zip"))
        if normalize:
            venv.save(place / ("vec_normalize.pkl" if published else "vecnormalize.pkl"))
        given = {"algo": "ppo", "env": "Pendulum-v1", "env_kwargs": None, "gym_packages": []}
        given = OrderedDict(given | {"seed": 2**31, "uuid": False} | (arguments or {}))
        config = OrderedDict(normalize=normalize, policy="MlpPolicy", n_envs=1, **config)
        (place / "args.yml").write_text(yaml.dump(given))
        (place / "config.yml").write_text(yaml.dump(config))
        return folder

    return write


# --- YAML -------------------------------------------------------------------------------------

LONG = "dict(log_std_init=-2, net_arch=[dict(pi=[256, 256], vf=[256, 256])], activation_fn=nn.ReLU)"
TUPLE = (1, 2)
DOCUMENTS = [
    *[{}, [], None, "a text", 3, -2.5, True, [[[1], []], {"a": {"b": [None]}}]],
    OrderedDict(a=1, b=[1, [2, {"c": []}]], c=OrderedDict(d="1", e=None), f={}, g=""),
    OrderedDict(q="it's: a 'test' #x", colon="a: b", dash="- a", star="*x", yes="yes", e="1e3"),
    {"policy_kwargs": LONG, "list": [LONG, {"k": LONG}], "unicode": "é → \t"},
    {"env_wrapper": [WRAPPER, {"x.y.HistoryWrapper": {"horizon": 2}}, {"z.Empty": {}}]},
    {"normalize": "{'norm_obs': True, 'norm_reward': False}", "tuple": (1, 2.0, "x")},
    {"shared": TUPLE, "again": [TUPLE, [TUPLE]], "big": 3405556843, "small": 7.3e-05},
    OrderedDict(normalize=True, normalize_kwargs={"norm_obs": True, "norm_reward": False}),
]


def plain(value):
    if isinstance(value, dict):
        return {key: plain(each) for key, each in value.items()}
    return [plain(each) for each in value] if isinstance(value, list | tuple) else value


@pytest.mark.parametrize("flow", [False, None], ids=["block", "leaves in flow"])
def test_what_pyyaml_writes_is_read_as_plain_data(flow):
    """`flow=None` was its default until 5.1."""
    for document in DOCUMENTS:
        assert read_yaml(yaml.dump(document, default_flow_style=flow)) == plain(document)


def test_nothing_that_a_document_names_is_made(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for text in (
        "!!python/object/apply:os.mkdir [marker]",
        "a: !!python/object/new:os.mkdir\n  args: [marker]",
        "- !!python/name:os.mkdir ''\n- !!python/module:os ''",
    ):
        read_yaml(text)
        assert not (tmp_path / "marker").exists()
        if "object" in text:  # it is live
            yaml.unsafe_load(text)
            (tmp_path / "marker").rmdir()


def test_neither_aliases_nor_numbers_make_long_texts():
    keys = [f"[&a{n} [{f'*a{n - 1},' * 9 if n else 'x'}], 1]" for n in range(6)]
    text = f"!!python/object/apply:collections.OrderedDict [[{', '.join(keys)}, [x, 2]]]"
    assert read_yaml(text) == {"x": 2}
    with pytest.raises(ValueError, match="digits"):
        read_yaml(f"frame_stack: 0x{'f' * 9_000}")


# --- folders ----------------------------------------------------------------------------------


@pytest.mark.parametrize("published", [False, True])
@pytest.mark.parametrize(
    "normalize",
    [True, "dict(norm_obs=True, norm_reward=False)", {"norm_obs": True}],
    ids=lambda value: type(value).__name__,
)
def test_a_folder_gives_policy_statistics_and_environment(published, normalize, zoo, models):
    folder = zoo(published, normalize)
    model, venv = models[""]
    if published:
        (folder / "train_eval_metrics.zip").write_bytes(b"PK")
        (folder / "env_kwargs.yml").write_text("render_mode: rgb_array\n")
    assert not is_recording(folder)
    source = policy_source(folder)
    assert source.environment == EnvInfo.of("Pendulum-v1")
    policy = load_policy(source.policy, source.environment.make())
    rows = np.random.default_rng(0).normal(0, 1, (64, 3)).astype(np.float32)
    expected, _ = model.predict(venv.normalize_obs(rows), deterministic=True)
    found = policy.act(rows, np.zeros((64, 0), np.float32))
    np.testing.assert_allclose(found, expected, atol=1e-5, rtol=0)
    assert normalization(policy) == ("vec_normalize.pkl" if published else "vecnormalize.pkl")
    raw = load_policy(folder, source.environment.make(), normalize=False)
    assert normalization(raw) == "none"


@pytest.mark.parametrize(
    "statistics", [None, "vec_normalize.pkl", "ppo-Pendulum-v1/vec_normalize.pkl"]
)
def test_a_published_folder_without_files_of_the_zoo_has_one_policy(statistics, zoo, models):
    """As `package_to_hub` leaves it; the id is in the name, and statistics there are its own."""
    folder = zoo(published=True)
    for name in ("args.yml", "config.yml"):
        (folder / name).unlink()
    for name in ("README.md", "config.json", "results.json", "replay.mp4", ".gitattributes"):
        (folder / name).write_text("{}")
    (folder / "train_eval_metrics.zip").write_bytes(b"PK")
    (folder / "ppo-Pendulum-v1").mkdir()
    kept = (folder / "vec_normalize.pkl").rename(folder / (statistics or "elsewhere"))
    assert not is_recording(folder)
    source = policy_source(folder)
    assert source.environment == EnvInfo.of("Pendulum-v1")
    if statistics is None:
        with refused("VecNormalize"):
            load_policy(source.policy, source.environment.make())
    else:
        policy = load_policy(source.policy, source.environment.make())
        assert normalization(policy) == kept.name
    (folder / "ppo-Pendulum-v1.zip").rename(folder / "model.zip")
    with pytest.raises(InputError, match="expected `env`, found no file that names one"):
        policy_source(folder)


def test_observations_are_normalised_only_if_the_run_says_so(zoo):
    for number, (normalize, keywords, expected) in enumerate(
        [
            (True, {"norm_obs": False, "norm_reward": True}, False),
            (True, {"norm_obs": True}, True),
            ("{'norm_obs': False, 'norm_reward': True}", None, False),
            ({"norm_obs": False}, None, False),
        ]
    ):
        folder = zoo(number=number, normalize=normalize, normalize_kwargs=keywords)
        assert (find_run(folder).require_statistics() is not None) is expected
    (folder / "Pendulum-v1" / "config.yml").write_text("normalize: true")
    (folder / "Pendulum-v1" / "vecnormalize.pkl").unlink()
    with pytest.raises(InputError, match=r"vecnormalize\.pkl.*`normalize`"):
        load_policy(folder, run_environment(find_run(folder)).make())


def test_another_zip_of_the_folder_is_taken_on_request(zoo):
    folder = zoo()
    best = (folder / "Pendulum-v1.zip").read_bytes()
    (folder / "best_model.zip").write_bytes(best)
    (folder / "rl_model_16_steps.zip").write_bytes(best)
    assert find_run(folder).policy.name == "Pendulum-v1.zip"
    for name in ("best_model.zip", "rl_model_16_steps.zip"):
        source = policy_source(folder / name)
        assert source.environment.id == "Pendulum-v1"
        policy = load_policy(source.policy, source.environment.make())
        assert policy.name == f"{name} (PPO), normalised by vecnormalize.pkl"
    (folder / "Pendulum-v1.zip").unlink()
    with pytest.raises(InputError, match=r"best_model\.zip, rl_model_16_steps\.zip: give one"):
        find_run(folder)


def test_a_zip_that_belongs_to_no_run_is_a_zip(zoo, tmp_path):
    folder = zoo()
    (tmp_path / "alone").mkdir()
    (folder / "Pendulum-v1.zip").rename(tmp_path / "alone" / "model.zip")
    assert find_run(tmp_path / "alone" / "model.zip") is None
    for name in ("model.zip", "other.zip"):  # no policy, or two of them
        (tmp_path / "alone" / name).write_bytes(b"PK")
        assert find_run(tmp_path / "alone") is None


def test_arguments_of_the_environment_are_its_own(zoo):
    folder = zoo(arguments={"env_kwargs": {"g": 9.81, "render_mode": "human"}})
    env = policy_source(folder).environment.make()
    assert env.unwrapped.g == 9.81
    assert env.unwrapped.render_mode is None


@pytest.mark.parametrize(
    "wrapper",
    [WRAPPER, f"gym.wrappers.FlattenObservation {WRAPPER}".split(), [{WRAPPER: {"max_steps": 9}}]],
    ids=str,
)
def test_the_time_feature_is_known(wrapper, zoo):
    source = policy_source(zoo(env_wrapper=wrapper))
    env = source.environment.make()
    assert env.observation_space.shape == (4,)
    if wrapper == WRAPPER:
        found = collect(source.policy, source.environment, 1, seed=0, workers=1).observations
        np.testing.assert_allclose(found[:, 3], 1 - np.arange(200) / 200, rtol=1e-6)
    # The wrapper belongs to the policy: also around an id that replaces the recorded one ...
    named = policy_source(source.policy, "Pendulum-v1").environment
    assert named.make().observation_space == env.observation_space
    # ... and not around what a function returns, which is meant as it is.
    made = policy_source(source.policy, lambda: gym.make("Pendulum-v1")).environment
    assert made.make().observation_space.shape == (3,)


class Goals(gym.Env):
    """Observations are dictionaries, as in robotics."""

    action_space = gym.spaces.Discrete(2)

    def __init__(self):
        box = gym.spaces.Box(-9, 9, (2,), np.float32)
        self.observation_space = gym.spaces.Dict({"observation": box, "desired_goal": box})

    def reset(self, **keywords):
        return {"observation": np.float32([1, 2]), "desired_goal": np.float32([3, 4])}, {}

    def step(self, action):
        return self.reset()[0], 0.0, False, False, {}


@pytest.mark.parametrize("make", [lambda: gym.make("Pendulum-v1"), Goals], ids=["Box", "Dict"])
@pytest.mark.parametrize("keywords", [{}, {"test_mode": True}, {"max_steps": 50}], ids=str)
def test_the_time_feature_is_that_of_sb3_contrib(make, keywords):
    ours = TimeFeature(make(), **keywords)
    theirs = sb3_contrib.common.wrappers.TimeFeatureWrapper(make(), **keywords)
    assert ours.observation_space == theirs.observation_space
    found, expected = ours.reset(seed=0)[0], theirs.reset(seed=0)[0]
    for _ in range(5):
        np.testing.assert_equal(found, expected)
        action = ours.action_space.sample()
        found, expected = ours.step(action)[0], theirs.step(action)[0]


REFUSED = {
    "an unknown wrapper": (
        {"env_wrapper": [{"rl_zoo3.wrappers.HistoryWrapper": {"horizon": 2}}]},
        r"'rl_zoo3\.wrappers\.HistoryWrapper'.*`env` as file\.py:function.*HistoryWrapper\(",
    ),
    "a wrapper of several": ({"vec_env_wrapper": "a.VecFrameStack"}, "'a.VecFrameStack'"),
    "stacked frames": ({"frame_stack": 4}, "4 stacked frames.*file.py:function"),
    "an environment that is gone": ({"arguments": {"env": "Pendulum-v0"}}, "Pendulum-v1"),
    "a file": (
        {"arguments": {"env": "evil.py:make"}},
        "no module is imported because a file says so",
    ),
    "an argument that may name a file": (
        {"arguments": {"env_kwargs": {"xml_file": "/etc/passwd"}}},
        "`env` and `env_kwargs`",
    ),
    "an unknown environment": ({"arguments": {"env": "AntBulletEnv-v0"}}, "'AntBulletEnv-v0'"),
    "arguments of no names": ({"arguments": {"env_kwargs": [1]}}, "arguments by name"),
}


@pytest.mark.parametrize(("changes", "words"), REFUSED.values(), ids=REFUSED)
def test_what_only_the_user_can_give_is_said_in_one_line(changes, words, zoo, capfd):
    changes = dict(changes)
    wrapper = changes.pop("env_wrapper", None)
    folder = zoo(**changes)
    if wrapper:
        config = {"normalize": True, "env_wrapper": wrapper}
        (folder / "Pendulum-v1" / "config.yml").write_text(yaml.dump(config))
    with pytest.raises(InputError, match=words):
        policy_source(folder)
    code, out, lines = run(capfd, "certify", folder)
    assert (code, out, len(lines)) == (2, "", 1)
    if "env_kwargs" not in str(changes):
        assert policy_source(folder, "Pendulum-v1").environment == EnvInfo.of("Pendulum-v1")


def test_damaged_files_of_a_run_are_one_line(zoo):
    folder = zoo()
    for content in ("[1, 2", "- a", "\x00", "!!python/object/apply:os.mkdir [x]"):
        (folder / "Pendulum-v1" / "args.yml").write_text(content)
        with pytest.raises(InputError, match="args"):
            policy_source(folder)
