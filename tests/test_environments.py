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


def test_the_papers_environments_are_the_eleven_of_the_specification():
    assert set(PAPER_IDS) == {
        *("Ant-v4", "HalfCheetah-v4", "Hopper-v4", "Walker2d-v4", "Humanoid-v4"),
        "dm_control/ball_in_cup-catch-v0",
        "dm_control/reacher-easy-v0",
        "dm_control/walker-walk-v0",
        *("drawer-open-v3", "window-open-v3", "reach-v3"),
    }


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


THINNING = dict(
    [
        # fixed by the paper, for every version
        *[("Ant-v4", 5), ("HalfCheetah-v4", 5), ("Ant-v5", 5)],
        *[("Humanoid-v4", 3), ("Hopper-v4", 3), ("Walker2d-v4", 3), ("Hopper-v5", 3)],
        # 5 where episodes have a fixed length
        *[("dm_control/walker-walk-v0", 5), ("reach-v3", 5), ("window-open-v3", 5)],
        *[("Pendulum-v1", 5), ("Swimmer-v4", 5), ("Pusher-v4", 5), ("Reacher-v4", 5)],
        ("HumanoidStandup-v4", 5),
        # 3 where they can end early
        *[("CartPole-v1", 3), ("MountainCarContinuous-v0", 3), ("InvertedPendulum-v4", 3)],
        *[("InvertedDoublePendulum-v4", 3), ("Counting-v0", 3), ("Acrobot-v1", 3)],
    ]
)
LIMITS = dict.fromkeys(PAPER_IDS[:8], 1000) | dict.fromkeys(PAPER_IDS[8:], 500)


def test_the_default_thinning_is_that_of_the_specification():
    for extra in EXTRA.values():
        pytest.importorskip(extra)
    assert {name: EnvInfo.of(name).thin for name in THINNING} == THINNING


def test_an_environment_knows_its_time_limit_and_whether_all_episodes_reach_it():
    pytest.importorskip("shimmy")
    for name, limit, fixed in (
        *(("HalfCheetah-v4", 1000, True), ("Pendulum-v1", 200, True), ("Hopper-v4", 1000, False)),
        *(("CartPole-v1", 500, False), ("Counting-v0", None, False)),
        ("dm_control/walker-walk-v0", 1000, True),
        ("dm_control/lqr-lqr_2_1-v0", None, False),  # ends when it has come to rest
    ):
        found = EnvInfo.of(name)
        assert (found.time_limit, found.fixed_length) == (limit, fixed), name


@pytest.mark.parametrize("name", [*PAPER_IDS, "Pendulum-v1"])
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
    said = EnvInfo.of("reach-v3").seeds
    assert "50 goals" in said
    assert str(EnvInfo.of("reach-v3").goal_seed) in said
    assert "no others" in said


def test_environments_say_what_their_seeds_mean():
    assert "initial state" in EnvInfo.of("Hopper-v4").seeds
    assert EnvInfo.of("Hopper-v4").goal_seed is None


# --- records --------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["Hopper-v4", *PAPER_IDS[7:9], "custom_environments:Counting-v0"])
def test_an_environment_survives_json(name):
    if SUITES.get(name) in EXTRA:
        pytest.importorskip(EXTRA[SUITES[name]])
    original = EnvInfo.of(name)
    record = json.loads(json.dumps(original.to_json()))
    assert EnvInfo.from_json(record) == original == EnvInfo.of(original)
    assert record["id"] == name


def test_a_record_with_other_fields_or_values_is_refused():
    record = EnvInfo.of("Hopper-v4").to_json()
    for damaged in (
        {name: value for name, value in record.items() if name != "thin"},
        *({**record, **change} for change in ({"wrapper": "none"}, {"thin": 0}, {"thin": "3"})),
        *({**record, **change} for change in ({"suite": "atari"}, {"time_limit": "1000"})),
        *({**record, **change} for change in ({"time_limit": True}, {"factory": "os.system"})),
        {},
    ):
        with pytest.raises(InputError, match="the record of an environment as tightrope writes it"):
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


REGISTERING = """
import warnings
import gymnasium as gym
from custom_environments import Counting
warnings.warn("the forks are bent", stacklevel=2)
warnings.filterwarnings("ignore", "a filter of the module's own")
gym.register("Overridden-v0", Counting)
"""


def test_registering_again_is_passed_over_in_silence_but_nothing_else_is(tmp_path, monkeypatch):
    for name in ("first", "second"):
        (tmp_path / f"{name}_registration.py").write_text(REGISTERING)
    monkeypatch.syspath_prepend(tmp_path)
    for name in ("first", "second"):
        found = warnings_of(lambda name=name: EnvInfo.of(f"{name}_registration:Overridden-v0"))
        assert len(found) == 1
        assert "the forks are bent" in found[0]
    again = warnings_of(lambda: gym.register("Overridden-v0", custom_environments.Counting))
    assert "Overriding" in again[0]  # those of others are heard as ever


def test_an_imported_module_may_set_filters_of_its_own(tmp_path, monkeypatch):
    (tmp_path / "third_registration.py").write_text(REGISTERING)
    monkeypatch.syspath_prepend(tmp_path)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        before = list(warnings.filters)
        EnvInfo.of("third_registration:Overridden-v0")
        (added,) = [filter_ for filter_ in warnings.filters if filter_ not in before]
    assert added[1].pattern == "a filter of the module's own"


# --- other environments -----------------------------------------------------------------------


def test_dictionaries_are_flattened_as_gymnasium_flattens_them():
    env = make_env("Dictionary-v0")
    assert env.observation_space.shape == (8,)
    observation, _ = env.reset(seed=3)
    raw, _ = gym.make("Dictionary-v0", disable_env_checker=True).reset(seed=3)
    expected = gym.spaces.flatten(custom_environments.DICTIONARY, raw)
    np.testing.assert_array_equal(observation, expected)


def test_other_shapes_are_flattened():
    for name, width in [
        *[("Grid-v0", 6), ("Pair-v0", 5), ("Image-v0", 1296), ("FrozenLake-v1", 16), ("Bits-v0", 3)]
    ]:
        env = make_env(name)
        assert env.observation_space.shape == env.reset(seed=0)[0].shape == (width,)


def test_unsupported_spaces_are_refused_and_named():
    for name, space in {"Ragged-v0": "Sequence", "Nested-v0": "Dict('left'"}.items():
        with pytest.raises(InputError) as refusal:
            make_env(name)
        assert space in str(refusal.value)
        assert name in str(refusal.value)
        assert "\n" not in str(refusal.value)


def test_a_module_before_the_id_is_imported_first(tmp_path, monkeypatch):
    (tmp_path / "warehouse.py").write_text(
        "import gymnasium as gym\n"
        "from custom_environments import Counting\n"
        "gym.register('Forklift-v3', Counting)\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(InputError):
        EnvInfo.of("Forklift-v3")
    found = EnvInfo.of("warehouse:Forklift-v3")
    assert found.make().reset(seed=1)[0].shape == (3,)
    assert (found.suite, found.thin) == ("gymnasium", 3)


@pytest.mark.parametrize(
    "source", ["raise RuntimeError('no\\nlicence')", "import not_there", "def broken(:"]
)
def test_a_module_that_cannot_be_imported_is_an_input_error_of_one_line(
    source, tmp_path, monkeypatch
):
    (tmp_path / "broken_warehouse.py").write_text(source)
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(InputError, match="broken_warehouse") as refusal:
        EnvInfo.of("broken_warehouse:Forklift-v0")
    assert "\n" not in str(refusal.value)


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


def test_an_environment_with_arguments_is_built_with_them():
    env = gym.make("Pendulum-v1", g=5.0, max_episode_steps=7)
    found = EnvInfo.of(env)
    assert (found.id, found.suite, found.thin) == ("Pendulum-v1(g=5.0)", "custom", 3)
    assert found.time_limit == 7
    again = found.make()
    assert again.unwrapped.g == 5.0
    np.testing.assert_array_equal(roll_out(again, 3, 20)[0], roll_out(env, 3, 20)[0])
    assert len(roll_out(again, 3, 20)[1]) == 7
    assert again.unwrapped is not env.unwrapped


def test_an_environment_with_wrappers_is_built_with_them():
    wrapped = gym.wrappers.RescaleAction(gym.make("Pendulum-v1"), np.float32(-1), np.float32(1))
    found = EnvInfo.of(wrapped)
    assert found.id == "Pendulum-v1 in RescaleAction"
    assert found.make().action_space == wrapped.action_space
    assert found.time_limit == 200


def broken():
    raise OSError("no arm\nat /dev/arm0")


def test_what_cannot_be_built_again_or_is_no_environment_is_one_line_with_the_remedy():
    unknown = gym.Wrapper(gym.make("Pendulum-v1"))  # nobody knows its arguments
    for env, remedy in (
        (custom_environments.Counting(), "without a `spec`: pass a function"),
        (unknown, "expected a function"),
        *((factory, "expected a") for factory in (broken, lambda: 3, lambda size: size, dict)),
    ):
        with pytest.raises(InputError, match=remedy) as refusal:
            EnvInfo.of(env)
        assert "\n" not in str(refusal.value)


FACTORIES = {
    "a function": (counting, "counting"),
    "a class": (custom_environments.Counting, "custom_environments.Counting"),
    "a partial": (functools.partial(counting), "counting"),
    "with a spec": (lambda: gym.make("Pendulum-v1").unwrapped, "Pendulum-v1"),
}


def test_a_function_that_returns_an_environment_is_known_by_its_name():
    for factory, name in FACTORIES.values():
        found = EnvInfo.of(factory)
        assert found.id.endswith(name)
        assert (found.suite, found.thin, found.time_limit) == ("custom", 3, None)
        assert found.make().reset(seed=1)[0].shape == (3,)


def test_the_environment_of_a_function_knows_thinning_and_time_limit_where_they_show():
    limited = EnvInfo.of(lambda: gym.wrappers.TimeLimit(custom_environments.Counting(), 3))
    assert limited.time_limit == 3
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # v4 is out of date, but nobody needs to hear
        ant = EnvInfo.of(lambda: gym.make("Ant-v4", max_episode_steps=9))
    assert (ant.id, ant.thin, ant.time_limit) == ("Ant-v4", 5, 9)


def test_what_a_function_returns_is_flattened_and_checked_as_all_environments():
    shaped = functools.partial(custom_environments.Shaped, custom_environments.DICTIONARY)
    assert make_env(shaped).observation_space.shape == (8,)
    several = EnvInfo.of(lambda: custom_environments.Shaped(gym.spaces.Sequence(shaped.args[0])))
    with pytest.raises(InputError, match="expected numbers as observations"):
        several.make()


def test_the_record_of_a_python_object_cannot_be_built_and_says_what_to_do():
    record = json.loads(json.dumps(EnvInfo.of(counting).to_json()))
    assert "factory" not in record
    found = EnvInfo.from_json(record)
    with pytest.raises(InputError, match=r"counting.*pass the object.*`env`"):
        found.make()


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


BAD_ARGUMENTS = {
    "no value": ("Pendulum-v1", ("g",), "NAME=VALUE, found 'g'"),
    "no name": ("Pendulum-v1", ("=3",), "NAME=VALUE, found '=3'"),
    "an object": ("Pendulum-v1", {"g": object()}, "on record, found"),
    "NaN": ("Pendulum-v1", {"g": float("nan")}, "on record, found"),
    "an unknown one": (
        "Pendulum-v1",
        {"gravity": 3},
        "cannot build 'Pendulum-v1': TypeError.*gravity",
    ),
    "for a function without": (lambda: custom_environments.Counting(), {"g": 3}, "cannot build"),
}


def test_bad_arguments_are_one_line():
    for env, given, words in BAD_ARGUMENTS.values():
        with pytest.raises(InputError, match=words) as refusal:
            make_env(env, given)
        assert "\n" not in str(refusal.value)


def test_of_a_record_only_arguments_that_are_numbers_are_used():
    """A text may be the name of a file that the environment reads."""
    record = {**EnvInfo.of("Ant-v4").to_json(), "kwargs": {"xml_file": "/etc/passwd"}}
    with pytest.raises(InputError, match=r"expected `env` and `env_kwargs`.*xml_file"):
        recorded_environment(record)
    record["kwargs"] = {"use_contact_forces": True}
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
        with pytest.raises(InputError) as refusal:
            EnvInfo.of(wrong)
        assert f"found {wrong.rpartition(':')[2]!r}" in str(refusal.value)
        assert right in str(refusal.value)
        assert "\n" not in str(refusal.value)
    for wrong in ("", "xyzzy", "a:b:c", "Hopper v4", "-v3", "no_module:X-v0"):
        with pytest.raises(InputError):
            EnvInfo.of(wrong)
    for wrong in (None, 3, ("Hopper-v4",)):
        with pytest.raises(InputError, match="expected the id of an environment"):
            EnvInfo.of(wrong)


def test_an_id_that_gymnasium_dropped_is_answered_with_the_one_that_replaced_it():
    for dropped, instead in [
        *[
            ("Hopper-v3", "Hopper-v4"),
            ("Hopper-v2", "Hopper-v4"),
            ("HalfCheetah-v1", "HalfCheetah-v4"),
        ],
        *[
            ("LunarLander-v2", "LunarLander-v3"),
            ("Pendulum-v0", "Pendulum-v1"),
            ("CartPole-v2", None),
        ],
        *[("BipedalWalker-v2", "BipedalWalker-v3"), ("Taxi-v1", "Taxi-v")],
        ("Ant-v3", "Ant-v4 with `env_kwargs` use_contact_forces=true"),
    ]:
        with pytest.raises(InputError) as refusal:
            EnvInfo.of(dropped)
        said = str(refusal.value)
        assert ("which it dropped: use" in said) == (instead is not None)
        assert instead is None or f"found {dropped!r}, which it dropped: use {instead}" in said
        assert "\n" not in said


@pytest.mark.parametrize(
    ("name", "module", "extra"),
    [
        ("dm_control/walker-walk-v0", "shimmy", "dmc"),
        ("reach-v3", "metaworld", "metaworld"),
        ("drawer-open-v3", "metaworld", "metaworld"),
    ],
)
def test_a_missing_extra_is_answered_with_the_remedy(name, module, extra, monkeypatch):
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(InputError) as refusal:
        EnvInfo.of(name)
    assert f'pip install "tightrope[{extra}]"' in str(refusal.value)
    assert "\n" not in str(refusal.value)
    given = EnvInfo(name, "dm_control" if extra == "dmc" else "metaworld", 5, True, "", 0)
    with pytest.raises(InputError, match="pip install"):
        given.make()


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
    with pytest.raises(InputError, match=r"cannot build 'LunarLander-v3'.*pip install") as refusal:
        make_env("LunarLander-v3")
    assert "\n" not in str(refusal.value)


def test_an_environment_that_cannot_be_built_is_an_input_error(tmp_path, monkeypatch):
    (tmp_path / "unbuildable.py").write_text(
        "import gymnasium as gym\n"
        "class Arm(gym.Env):\n"
        "    def __init__(self): raise OSError('no arm\\nat /dev/arm0')\n"
        "gym.register('Arm-v0', Arm)\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(InputError, match=r"cannot build 'unbuildable:Arm-v0'") as refusal:
        make_env("unbuildable:Arm-v0")
    assert "\n" not in str(refusal.value)
