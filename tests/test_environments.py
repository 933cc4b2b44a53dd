"""Recipes: every environment builds, the same seed gives the same episode, errors name remedies."""

import functools
import json
import pickle
import subprocess
import sys
import warnings

import custom_environments
import gymnasium as gym
import numpy as np
import pytest
from refusals import refused

from tightrope.environments import PAPER_IDS, EnvInfo, make_env, recorded_environment
from tightrope.errors import InputError

EXTRA = {"dm_control": "shimmy", "metaworld": "metaworld"}
SUITES = dict.fromkeys(PAPER_IDS[:5], "gymnasium")
SUITES |= dict.fromkeys(PAPER_IDS[5:8], "dm_control")
SUITES |= dict.fromkeys(PAPER_IDS[8:], "metaworld")


@pytest.fixture(scope="module")
def made():
    """A function that builds an environment once, or skips without its extra."""
    cache = {}

    def make(name):
        if SUITES.get(name) in EXTRA:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                pytest.importorskip(EXTRA[SUITES[name]])
        if name not in cache:
            cache[name] = make_env(name)
        return cache[name]

    yield make
    for env in cache.values():
        env.close()


def roll_out(env, seed, steps=12):
    """Observations and rewards of a short episode under fixed actions."""
    space, rng = env.action_space, np.random.default_rng(5)
    observation, _ = env.reset(seed=seed)
    observations, rewards = [observation], []
    for _ in range(steps):
        action = rng.uniform(space.low, space.high).astype(np.float32)
        observation, reward, terminated, truncated, _ = env.step(action)
        observations.append(observation)
        rewards.append(reward)
        if terminated or truncated:
            break
    return np.stack(observations), np.array(rewards)


# --- the paper's eleven -----------------------------------------------------------------------


@pytest.mark.parametrize("name", PAPER_IDS)
def test_the_papers_environments_are_repeatable_and_as_the_specification_says(name, made):
    """The same seed, the same episode, bit for bit: after others in it, and in a new one."""
    env, about = made(name), EnvInfo.of(name)
    assert about.suite == SUITES[name]
    assert about.time_limit == about.to_json()["time_limit"] == LIMITS[name]
    assert isinstance(env.observation_space, gym.spaces.Box)
    assert isinstance(env.action_space, gym.spaces.Box)
    first = roll_out(env, 7)
    assert env.observation_space.shape == (first[0].shape[1],)
    assert np.isfinite(first[0]).all()
    other = roll_out(env, 8, steps=25)
    roll_out(env, 9, steps=3)  # left in the middle
    again = roll_out(env, 7)
    slow = SUITES[name] == "metaworld" and name != "reach-v3"  # to build; one of three will do
    fresh = first if slow else roll_out(make_env(name), 7)
    for found in (again, fresh):
        np.testing.assert_array_equal(found[0], first[0])
        np.testing.assert_array_equal(found[1], first[1])
    assert not np.array_equal(other[0][0], first[0][0])
    starts = [roll_out(env, seed, steps=1)[0].tobytes() for seed in range(8)]
    assert len(set(starts)) >= (6 if SUITES[name] == "metaworld" else 8)  # 50 goals may repeat


LIMITS = dict.fromkeys(PAPER_IDS[:8], 1000) | dict.fromkeys(PAPER_IDS[8:], 500)
KNOWN = [  # thinning (the paper's, for every version; 5 where the length is fixed), limit, fixed
    *[("Ant-v4", 5, 1000, False), ("Ant-v5", 5, 1000, False), ("HalfCheetah-v4", 5, 1000, True)],
    *[(f"{name}-v4", 3, 1000, False) for name in ("Humanoid", "Hopper", "Walker2d")],
    *[("dm_control/walker-walk-v0", 5, 1000, True), ("reach-v3", 5, 500, True)],
    ("dm_control/lqr-lqr_2_1-v0", 5, None, False),  # ends when it has come to rest
    *[("Pendulum-v1", 5, 200, True), ("Swimmer-v4", 5, 1000, True), ("Reacher-v4", 5, 50, True)],
    *[("Pusher-v4", 5, 100, True), ("HumanoidStandup-v4", 5, 1000, True)],
    *[("CartPole-v1", 3, 500, False), ("MountainCarContinuous-v0", 3, 999, False)],
    *[("InvertedPendulum-v4", 3, 1000, False), ("Counting-v0", 3, None, False)],
]


def test_an_environment_knows_thinning_time_limit_and_whether_all_episodes_reach_it():
    for extra in EXTRA.values():
        pytest.importorskip(extra)
    found = [EnvInfo.of(name) for name, *_ in KNOWN]
    assert [(each.id, each.thin, each.time_limit, each.fixed_length) for each in found] == KNOWN


@pytest.mark.parametrize("name", ["Hopper-v4", PAPER_IDS[5], "reach-v3", "Pendulum-v1"])
def test_episodes_are_truncated_exactly_at_the_time_limit(name, made):
    env, steps = made(name), 0
    if hasattr(env.unwrapped, "_terminate_when_unhealthy"):
        env.unwrapped._terminate_when_unhealthy = False  # or it falls before its time
    env.reset(seed=1)
    terminated = truncated = False
    while not (terminated or truncated):
        action = np.zeros(env.action_space.shape, np.float32)
        *_, terminated, truncated, info = env.step(action)
        steps += 1
    assert (steps, terminated, truncated) == (EnvInfo.of(name).time_limit, False, True)
    assert ("success" in info) == (SUITES.get(name) == "metaworld")
    if hasattr(env.unwrapped, "_terminate_when_unhealthy"):
        env.unwrapped._terminate_when_unhealthy = True


def test_meta_worlds_goals_are_fifty_fixed_ones_and_the_record_says_so(made):
    """The oracle is Meta-World's own task list; the goal is the end of reach-v3's observation."""
    env = made("reach-v3")
    import metaworld

    tasks = metaworld.MT1("reach-v3", seed=EnvInfo.of("reach-v3").goal_seed).train_tasks
    goals = {pickle.loads(task.data)["rand_vec"][-3:].tobytes() for task in tasks}
    assert len(goals) == 50
    found = {env.reset(seed=seed)[0][-3:].tobytes() for seed in range(80)}
    assert found <= goals
    assert len(found) > 30  # 40 of 50 on average
    assert "initial state" in EnvInfo.of("Hopper-v4").seeds
    assert EnvInfo.of("Hopper-v4").goal_seed is None
    said = EnvInfo.of("reach-v3").seeds
    assert "50 goals" in said
    assert str(EnvInfo.of("reach-v3").goal_seed) in said
    assert "no others" in said


# --- records --------------------------------------------------------------------------------------


def test_a_record_is_read_back_and_one_with_other_fields_or_values_is_refused():
    for name in ("Hopper-v4", "custom_environments:Counting-v0"):
        original = EnvInfo.of(name)
        record = json.loads(json.dumps(original.to_json()))
        assert EnvInfo.from_json(record) == original == EnvInfo.of(original)
        assert record["id"] == name
    for changes in (
        *({"wrapper": "none"}, {"thin": 0}, {"thin": "3"}, {"suite": "atari"}),
        *({"time_limit": "1000"}, {"time_limit": True}, {"factory": "os.system"}, None),
    ):
        damaged = {} if changes is None else {**record, **changes}
        with refused("the record of an environment as tightrope writes it"):
            EnvInfo.from_json(damaged)


# --- warnings ---------------------------------------------------------------------------------


def warnings_of(action):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        action()
    return [str(warning.message) for warning in caught]


def test_building_a_v4_environment_warns_of_nothing_but_others_still_get_through():
    before = list(warnings.filters)
    assert warnings_of(lambda: gym.make("Hopper-v4"))  # Gymnasium itself does
    assert warnings_of(lambda: make_env("Hopper-v4")) == []
    found = " ".join(warnings_of(lambda: make_env("Complaining-v0")))
    assert "low on oil" in found
    assert "calibration is out of date" in found
    assert warnings.filters == before


def test_registering_again_is_passed_over_in_silence_but_nothing_else_is(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)
    for name in ("first", "second"):
        (tmp_path / f"{name}_registration.py").write_text(
            "import warnings, gymnasium\n"
            "warnings.warn('the forks are bent', stacklevel=2)\n"
            "gymnasium.register('Overridden-v0', 'custom_environments:Counting')\n"
        )
        (found,) = warnings_of(lambda name=name: EnvInfo.of(f"{name}_registration:Overridden-v0"))
        assert "the forks are bent" in found


# --- other environments -----------------------------------------------------------------------


def test_other_observations_are_flattened_as_gymnasium_flattens_them():
    observation, _ = make_env("Dictionary-v0").reset(seed=3)
    raw, _ = gym.make("Dictionary-v0", disable_env_checker=True).reset(seed=3)
    expected = gym.spaces.flatten(custom_environments.DICTIONARY, raw)
    np.testing.assert_array_equal(observation, expected)
    widths = {"Dictionary-v0": 8, "Grid-v0": 6, "Pair-v0": 5, "Image-v0": 1296, "Bits-v0": 3}
    for name, width in {**widths, "FrozenLake-v1": 16}.items():
        env = make_env(name)
        assert env.observation_space.shape == env.reset(seed=0)[0].shape == (width,)


def test_unsupported_spaces_are_refused_and_named():
    for name, space in {"Ragged-v0": "Sequence", "Nested-v0": "Dict('left'"}.items():
        with refused() as refusal:
            make_env(name)
        assert space in str(refusal.value)
        assert name in str(refusal.value)


def test_a_module_that_cannot_give_the_environment_is_one_line(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)
    sources = (
        "raise RuntimeError('no\\nlicence')",
        "import not_there",
        "def broken(:",
    )
    for number, source in enumerate(sources):
        (tmp_path / f"broken{number}.py").write_text(source)
        with refused(f"broken{number}"):
            make_env(f"broken{number}:Forklift-v0")


# --- Python objects ---------------------------------------------------------------------------


def counting():
    return custom_environments.Counting()


def test_an_environment_as_registered_is_known_by_its_id_whatever_window_it_is_shown_in():
    for name in ("Hopper-v4", "Pendulum-v1", "Counting-v0"):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            env = gym.make(name)
        assert EnvInfo.of(env) == EnvInfo.of(name)
    env = gym.make("Pendulum-v1", render_mode="rgb_array")
    assert EnvInfo.of(env) == EnvInfo.of("Pendulum-v1")
    env = gym.make("Pendulum-v1", render_mode="rgb_array", g=5.0)
    assert make_env(env).render_mode is None


def test_an_environment_with_arguments_and_wrappers_is_built_with_them():
    env = gym.make("Pendulum-v1", g=5.0, max_episode_steps=7)
    found = EnvInfo.of(env)
    assert (found.id, found.suite, found.thin) == ("Pendulum-v1(g=5.0)", "custom", 3)
    assert found.time_limit == 7
    again = found.make()
    assert again.unwrapped.g == 5.0
    np.testing.assert_array_equal(roll_out(again, 3, 20)[0], roll_out(env, 3, 20)[0])
    assert again.unwrapped is not env.unwrapped
    wrapped = gym.wrappers.RescaleAction(gym.make("Pendulum-v1"), np.float32(-1), np.float32(1))
    found = EnvInfo.of(wrapped)
    assert (found.id, found.time_limit) == ("Pendulum-v1 in RescaleAction", 200)
    assert found.make().action_space == wrapped.action_space


def broken():
    raise OSError("no arm\nat /dev/arm0")


def test_what_cannot_be_built_again_or_is_no_environment_is_one_line_with_the_remedy():
    unknown = gym.Wrapper(gym.make("Pendulum-v1"))  # nobody knows its arguments
    for env, remedy in (
        (custom_environments.Counting(), "without a `spec`: pass a function"),
        (unknown, "expected a function"),
        *((factory, "expected a") for factory in (broken, lambda: 3, lambda size: size, dict)),
    ):
        with refused(remedy):
            EnvInfo.of(env)


@pytest.mark.filterwarnings("error")  # v4 is out of date, but nobody needs to hear
def test_a_function_that_returns_an_environment_knows_what_shows():
    """Its name, or that of a spec; thinning and time limit."""
    for factory, name, thin, limit in (
        (counting, "counting", 3, None),
        (custom_environments.Counting, "custom_environments.Counting", 3, None),
        (functools.partial(counting), "counting", 3, None),
        (lambda: gym.make("Pendulum-v1").unwrapped, "Pendulum-v1", 3, None),
        (lambda: gym.wrappers.TimeLimit(custom_environments.Counting(), 3), "<lambda>", 3, 3),
        (lambda: gym.make("Ant-v4", max_episode_steps=9), "Ant-v4", 5, 9),
    ):
        found = EnvInfo.of(factory)
        assert found.id.endswith(name)
        assert (found.suite, found.thin, found.time_limit) == ("custom", thin, limit)
        assert found.make().reset(seed=1)[0].ndim == 1


def test_what_a_function_returns_is_checked_and_its_record_cannot_be_built():
    shaped = functools.partial(custom_environments.Shaped, custom_environments.DICTIONARY)
    assert make_env(shaped).observation_space.shape == (8,)
    several = EnvInfo.of(lambda: custom_environments.Shaped(gym.spaces.Sequence(shaped.args[0])))
    with refused("expected numbers as observations"):
        several.make()
    record = json.loads(json.dumps(EnvInfo.of(counting).to_json()))
    assert "factory" not in record
    with pytest.raises(InputError, match=r"counting.*pass the object.*`env`"):
        EnvInfo.from_json(record).make()


# --- arguments and files ----------------------------------------------------------------------


@pytest.mark.parametrize(
    "given", [{"g": 5.0, "max_episode_steps": 7}, ("g=5.0", "max_episode_steps=7")]
)
def test_arguments_go_to_gymnasium_make_and_on_record(given):
    found = EnvInfo.of("Pendulum-v1", given)
    env = found.make()
    assert env.unwrapped.g == 5.0
    assert len(roll_out(env, 3, 20)[1]) == 7
    record = json.loads(json.dumps(found.to_json()))
    assert record == {
        **EnvInfo.of("Pendulum-v1").to_json(),
        "time_limit": 7,
        "kwargs": {"g": 5.0, "max_episode_steps": 7},
    }
    assert EnvInfo.from_json(record) == found == recorded_environment(record)
    assert "kwargs" not in EnvInfo.of("Pendulum-v1").to_json()
    assert EnvInfo.of(EnvInfo.of("Pendulum-v1", {"g": 5.0}), {"max_episode_steps": 7}) == found


def test_arguments_as_texts_are_json_or_else_texts():
    found = EnvInfo.of(counting_of, ("a=true", "b=[1, 2]", "c=far=off", "d=None", "e=False")).kwargs
    assert found == {"a": True, "b": [1, 2], "c": "far=off", "d": None, "e": False}


BAD_ARGUMENTS = [
    *[("Pendulum-v1", (text,), f"NAME=VALUE, found '{text}'") for text in ("g", "=3")],
    *[("Pendulum-v1", {"g": g}, "on record, found") for g in (object(), float("nan"))],
    ("Pendulum-v1", {"gravity": 3}, "cannot build 'Pendulum-v1': TypeError.*gravity"),
    (lambda: custom_environments.Counting(), {"g": 3}, "cannot build"),
]


def test_bad_arguments_are_one_line():
    for env, given, words in BAD_ARGUMENTS:
        with refused(words):
            make_env(env, given)


def test_of_a_record_only_arguments_that_are_numbers_are_used():
    """A text may be the name of a file that the environment reads."""
    record = {**EnvInfo.of("Ant-v4").to_json(), "kwargs": {"xml_file": "/etc/passwd"}}
    with refused(r"expected `env` and `env_kwargs`.*xml_file"):
        recorded_environment(record)
    record["kwargs"] = {"use_contact_forces": True, "healthy_z_range": [0.2, 1.0]}
    assert recorded_environment(record).make().observation_space.shape == (111,)


def counting_of(**arguments):
    return custom_environments.Counting()


WRAPPED = """
import gymnasium as gym

def slow(g=10.0):
    return gym.wrappers.TransformReward(gym.make("Pendulum-v1", g=g, max_episode_steps=9), abs)
"""


def test_a_function_of_a_file_gives_an_environment_with_wrappers_of_ones_own(tmp_path):
    (tmp_path / "wrapped.py").write_text(WRAPPED)
    found = EnvInfo.of(f"{tmp_path}/wrapped.py:slow", ("g=5.0",))
    assert (found.id, found.suite, found.time_limit) == ("wrapped.py:slow", "custom", 9)
    assert found.to_json()["kwargs"] == {"g": 5.0}
    assert found.make().unwrapped.g == 5.0
    assert roll_out(found.make(), 0)[1].min() >= 0
    with pytest.raises(InputError, match=r"a record that names .wrapped\.py:slow"):
        recorded_environment(found.to_json())
    with pytest.raises(InputError, match="expected a function 'fast' in"):
        EnvInfo.of(f"{tmp_path}/wrapped.py:fast")
    with pytest.raises(InputError, match="found nothing at"):
        EnvInfo.of(f"{tmp_path}/missing.py:slow")


# --- wrong ids and missing packages -----------------------------------------------------------


def test_an_unknown_id_names_the_nearest():
    for extra in EXTRA.values():
        pytest.importorskip(extra)
    for wrong, right in [
        *[("Hoper-v4", "Hopper-v4"), ("hopper-v4", "Hopper-v4"), ("Hopper-v9", "Hopper-v4")],
        *[("Hopper", "Hopper-v4"), ("HalfCheeta-v4", "HalfCheetah-v4"), ("hopper-v3", "Hopper-v")],
        *[("Penduluml-v1", "Pendulum-v1"), ("lunarlander-v3", "LunarLander-v3")],
        ("dm_control/walker-wlk-v0", "dm_control/walker-walk-v0"),
        *[("drawer-opn-v3", "drawer-open-v3"), ("reach-v2", "reach-v3")],
        ("custom_environments:Countin-v0", "Counting-v0"),
    ]:
        with refused() as refusal:
            EnvInfo.of(wrong)
        assert f"found {wrong.rpartition(':')[2]!r}" in str(refusal.value)
        assert right in str(refusal.value)
    for wrong in ("", "xyzzy", "a:b:c", "Hopper v4", "-v3", "no_module:X-v0"):
        with pytest.raises(InputError):
            EnvInfo.of(wrong)
    for wrong in (None, 3, ("Hopper-v4",)):
        with refused("expected the id of an environment"):
            EnvInfo.of(wrong)


def test_an_id_that_gymnasium_dropped_is_answered_with_the_one_that_replaced_it():
    for dropped, instead in {
        **{f"Hopper-v{version}": "Hopper-v4" for version in (2, 3)},
        "HalfCheetah-v1": "HalfCheetah-v4",
        "LunarLander-v2": "LunarLander-v3",
        "Pendulum-v0": "Pendulum-v1",
        "BipedalWalker-v2": "BipedalWalker-v3",
        "Ant-v3": "Ant-v4 with `env_kwargs` use_contact_forces=true",
        "Taxi-v1": "Taxi-v",
        "CartPole-v2": None,
    }.items():
        with pytest.raises(InputError) as refusal:
            EnvInfo.of(dropped)
        said = str(refusal.value)
        assert ("which it dropped: use" in said) == (instead is not None)
        assert instead is None or f"found {dropped!r}, which it dropped: use {instead}" in said
        assert "\n" not in said


@pytest.mark.parametrize("extra", [*EXTRA.items()], ids=str)
def test_a_missing_extra_is_answered_with_the_remedy(extra, monkeypatch):
    suite, module = extra
    name = {"dm_control": "dm_control/walker-walk-v0"}.get(suite, "reach-v3")
    monkeypatch.setitem(sys.modules, module, None)
    for call in (lambda: EnvInfo.of(name), EnvInfo(name, suite, 5, True, "", 0).make):
        with refused(r'pip install "tightrope\[(dmc|metaworld)\]"'):
            call()


def test_shimmy_without_dm_control_is_answered_with_the_remedy():
    """In a process of its own: Shimmy looks for dm_control when it is first imported."""
    pytest.importorskip("shimmy")
    code = (
        "import sys; sys.modules['dm_control'] = None\n"
        "from tightrope.environments import EnvInfo, make_env\n"
        "make_env('dm_control/walker-walk-v0')\n"
    )
    answer = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert 'pip install "tightrope[dmc]"' in answer.stderr.splitlines()[-1]


def test_a_package_that_gymnasium_itself_misses_is_an_input_error_of_one_line(monkeypatch):
    monkeypatch.setitem(sys.modules, "Box2D", None)
    monkeypatch.delitem(sys.modules, "gymnasium.envs.box2d", raising=False)
    monkeypatch.delitem(sys.modules, "gymnasium.envs.box2d.lunar_lander", raising=False)
    with pytest.raises(InputError, match=r"cannot build 'LunarLander-v3'.*pip install"):
        make_env("LunarLander-v3")
