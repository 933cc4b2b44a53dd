"""Policies that are Python objects or names of them, and how any policy is called."""

import subprocess
import sys
from textwrap import dedent

import cloudpickle
import custom_environments
import numpy as np
import pytest
import torch
from refusals import refused

from tightrope.environments import make_env
from tightrope.errors import InputError
from tightrope.policies import (
    BLOCK,
    Policy,
    act_in_blocks,
    as_policy,
    check_actions,
    check_fit,
    load_policy,
    rows_are_stable,
)
from tightrope.rollouts import collect

OBSERVATIONS = np.random.default_rng(0).normal(0, 1, (BLOCK, 5)).astype(np.float32)
NO_NOISE = np.zeros((BLOCK, 0), np.float32)
SOURCE = dedent(  # the standard library looks the module of such a dataclass up by its name
    """
    from __future__ import annotations
    from dataclasses import dataclass
    import numpy as np

    @dataclass
    class Gains:
        first: float = 1.0

    def first(observations):
        return Gains().first * observations[:, :1].clip(-1, 1)

    def network():
        import torch

        layer = torch.nn.Linear(5, 1, bias=False)
        torch.nn.init.constant_(layer.weight, 0.125)
        return torch.nn.Sequential(layer, torch.nn.Tanh())

    class Agent:
        def predict(self, observations, deterministic=False):
            return np.full((len(observations), 1), 0.5 if deterministic else -0.5), None

    agent = Agent()
    scale = 3
    """
)


def environment(name="FiveNarrow-v0"):
    return make_env(name)


@pytest.fixture
def user_file(tmp_path):
    path = tmp_path / "my_policy.py"
    path.write_text(SOURCE)
    return path


def act(source, **keywords):
    policy = load_policy(source, environment(), **keywords)
    assert isinstance(policy, Policy)
    check_fit(policy, environment())
    return policy.act(OBSERVATIONS, NO_NOISE)


EXPECTED = {
    "first": OBSERVATIONS[:, :1].clip(-1, 1),
    "network": np.tanh(0.125 * OBSERVATIONS.sum(axis=1, keepdims=True)),
    "agent": np.full((BLOCK, 1), 0.5),
}


# --- by name ----------------------------------------------------------------------------------


@pytest.mark.parametrize("name", EXPECTED)
def test_a_name_in_a_file_or_a_package_is_a_policy(name, user_file, monkeypatch):
    package = user_file.parent / f"robots_{name}"
    package.mkdir()
    (package / "__init__.py").touch()
    (package / "walker.py").write_text(SOURCE)
    monkeypatch.syspath_prepend(user_file.parent)
    for source in (f"{user_file}:{name}", f"robots_{name}.walker:{name}"):
        np.testing.assert_allclose(act(source), EXPECTED[name], atol=1e-6)


def test_a_function_of_a_file_travels_to_a_worker_by_value(user_file):
    target = user_file.with_suffix(".pickle")
    target.write_bytes(cloudpickle.dumps(load_policy(f"{user_file}:first", environment())))
    user_file.unlink()
    code = (
        "import pickle, sys, numpy as np; policy = pickle.load(open(sys.argv[1], 'rb'));"
        "print(policy.act(np.float32([[0.5, 0, 0, 0, 0]]), np.zeros((1, 0))))"
    )
    answer = subprocess.run([sys.executable, "-c", code, target], capture_output=True, text=True)
    assert answer.stdout == "[[0.5]]\n", answer.stderr


BROKEN = {
    "no such name": (SOURCE, "last", "last"),
    "not a policy": (SOURCE, "scale", "policy"),
    "an import error": ("import nothing_of_that_name", "first", "nothing_of_that_name"),
    "a syntax error": ("def first(:", "first", "SyntaxError"),
    "an error of two lines": ("raise RuntimeError('no\\nmotor')", "first", "RuntimeError"),
    "a file that leaves": ("import sys; sys.exit(5)", "first", "my_policy"),
    "a factory that raises": (
        "def first():\n    raise OSError('no\\nweights')",
        "first",
        "weights",
    ),
}


@pytest.mark.parametrize(("source", "name", "words"), BROKEN.values(), ids=BROKEN)
def test_a_file_that_cannot_give_the_policy_is_an_input_error_of_one_line(
    source, name, words, user_file
):
    user_file.write_text(source)
    with refused(words):
        load_policy(f"{user_file}:{name}", environment())


def test_what_names_no_policy_is_an_input_error():
    for source in (
        *("nowhere/my_policy.py:first", "nowhere.zip", "package_of_that_name.module:first"),
        *("no_colon", "policy.txt", ":first", "json:", "", None, 3, object(), [1.0]),
    ):
        with pytest.raises(InputError, match=r"expected|cannot import"):
            load_policy(source, environment())


def test_statistics_and_sampling_are_refused_where_they_mean_nothing(user_file, tmp_path):
    with pytest.raises(InputError, match="`normalize`"):
        load_policy(f"{user_file}:first", environment(), normalize=tmp_path / "x.npz")
    with pytest.raises(InputError, match="sample"):
        load_policy(f"{user_file}:first", environment(), sample=True)
    with pytest.raises(InputError, match="sample"):
        load_policy(f"{user_file}:network", environment(), sample=True)


# --- objects ----------------------------------------------------------------------------------


class Agent:
    """Anything with SB3's predict, whatever its attributes; here `policy` is another policy."""

    policy = staticmethod(lambda observations: observations[:, :1])

    def predict(self, observations, deterministic=False):
        return np.full((len(observations), 1), 0.5 if deterministic else -0.5), None


def test_an_object_with_predict_is_asked_for_its_mode_or_for_samples():
    assert (act(Agent()) == 0.5).all()
    sampling = as_policy(Agent(), sample=True)
    assert (sampling.act(OBSERVATIONS, NO_NOISE) == -0.5).all()
    assert as_policy(Agent()).deterministic
    assert not sampling.deterministic


def test_a_torch_module_is_a_policy_in_evaluation_mode():
    module = torch.nn.Sequential(torch.nn.Dropout(0.5), torch.nn.Linear(5, 1), torch.nn.Tanh())
    module.train()
    with torch.no_grad():
        expected = module[1:](torch.from_numpy(OBSERVATIONS)).numpy()
    np.testing.assert_allclose(act(module), expected, atol=1e-6)


class Called:
    def __call__(self, observations):
        return observations[:, :1].clip(-1, 1)


FUNCTIONS = [
    *(Called(), lambda o: o[:, :1].clip(-1, 1), lambda o: o[:1].clip(-1, 1)),
    *(lambda o: np.clip(o[0], -1, 1)[None], lambda o: [float(np.clip(o[0], -1, 1))]),
    lambda o: np.array([min(max(float(o[0]), -1.0), 1.0)]),
]


@pytest.mark.parametrize("features", [5, 8])
def test_any_callable_of_one_observation_or_of_a_batch_is_a_policy(features):
    """Eight features, too: as many as rows in a block, so shapes alone could be misread."""
    rows = np.random.default_rng(1).standard_normal((8, features)).astype(np.float32)
    for function in FUNCTIONS:
        found = as_policy(function).act(rows, np.zeros((8, 0), np.float32))
        np.testing.assert_allclose(found, rows[:, :1].clip(-1, 1))


def test_a_function_of_neither_says_what_was_tried():
    with pytest.raises(InputError, match=r"one observation \(5,\) or of a batch \(batch, 5\)"):
        check_fit(as_policy(lambda o: o @ np.ones((7, 1))), environment())


def test_a_module_that_returns_no_tensor_is_an_input_error():
    class Two(torch.nn.Module):
        def forward(self, observations):
            return observations, observations

    with pytest.raises(InputError, match="cannot act on them"):
        check_fit(as_policy(Two()), environment())


# --- what does not fit ------------------------------------------------------------------------


def constant(value):
    return lambda observations: np.repeat(np.asarray(value)[None], len(observations), axis=0)


MISFITS = {
    "too large": ("FiveNarrow-v0", constant([1.5])),
    "too small": ("FiveNarrow-v0", constant([-1.5])),
    "outside one of two bounds": ("Five-v0", constant([0.0, 1.0])),
    "NaN": ("FiveNarrow-v0", constant([np.nan])),
    "infinite": ("FiveNarrow-v0", constant([np.inf])),
    "too wide": ("FiveNarrow-v0", constant([0.0, 0.0])),
    "no width": ("FiveNarrow-v0", constant(0.0)),
    "words": ("FiveNarrow-v0", constant(["left"])),
    "complex": ("FiveNarrow-v0", constant([0j])),
    "a key that is not there": ("FiveKeys-v0", constant(4)),
    "a negative key": ("FiveKeys-v0", constant(-1)),
    "a key as a vector": ("FiveKeys-v0", constant([1])),
    "a key as a fraction": ("FiveKeys-v0", constant(0.5)),
    "nothing": ("FiveNarrow-v0", lambda observations: None),
    "an error": ("FiveNarrow-v0", lambda observations: observations @ np.ones((7, 1))),
    "one action for all": ("FiveNarrow-v0", lambda observations: np.zeros((1, 1))),
    "one action too many": ("FiveNarrow-v0", lambda o: np.zeros((len(o) + 1, 1))),
    "ragged": ("FiveNarrow-v0", lambda o: [[0.0]] * (len(o) - 1) + [[0.0, 0.0]]),
}


def test_actions_that_do_not_fit_are_an_input_error_with_the_environments_space():
    for name, function in MISFITS.values():
        env = environment(name)
        with pytest.raises(InputError, match="clumsy") as refusal:
            check_fit(as_policy(function, name="clumsy"), env)
        spaces = str(env.observation_space), str(env.action_space)
        assert any(space in str(refusal.value) for space in spaces)
        assert "\n" not in str(refusal.value)


def test_the_endpoints_of_the_action_space_fit_and_rounding_to_float32_does_not_matter():
    env = environment("Five-v0")
    low, high = custom_environments.LOW, custom_environments.HIGH
    for action in (low, high, low.astype(np.float64), np.nextafter(high, np.float32(9))):
        check_fit(as_policy(constant(action)), env)
    for key in (0, 3, np.uint8(3), np.int32(3)):
        check_fit(as_policy(constant(key)), environment("FiveKeys-v0"))


def test_every_row_of_the_actions_is_checked():
    policy, env = as_policy(constant([0.0])), environment()
    actions = np.zeros((5, 1))
    check_actions(policy, actions, env.action_space)
    for row in range(5):
        wrong = actions.copy()
        wrong[row] = 2.0
        with pytest.raises(InputError):
            check_actions(policy, wrong, env.action_space)


# --- blocks -----------------------------------------------------------------------------------


class Recorder:
    """A policy that notes how it is called."""

    name, digest, deterministic, noise_size = "recorder", None, True, 2

    def __init__(self):
        self.calls = []

    def act(self, observations, noise):
        self.calls.append((observations.shape, noise.shape))
        return observations[:, :1] + 10 * noise[:, :1]


def test_a_policy_is_always_called_with_whole_blocks():
    for rows in (1, 2, 15, 16, 17, 32, 50):
        rng = np.random.default_rng(rows)
        observations = rng.normal(size=(rows, 5)).astype(np.float32)
        noise = rng.normal(size=(rows, 2)).astype(np.float32)
        recorder = Recorder()
        actions = act_in_blocks(recorder, observations, noise)
        np.testing.assert_array_equal(actions, observations[:, :1] + 10 * noise[:, :1])
        assert recorder.calls == [((BLOCK, 5), (BLOCK, 2))] * -(-rows // BLOCK)


STABLE = [  # products and sums of two numbers round alike everywhere
    *(as_policy(lambda o: o[:, :1]), as_policy(lambda o: 0.3 * o[:, :1] + o[:, 1:2]), Recorder())
]
UNSTABLE = {
    "looks at the mean of the block": lambda o: o[:, :1] - o.mean(axis=0)[:1],
    "looks at the row above": lambda o: o[:, :1] + 1e-6 * np.roll(o, 1, axis=0)[:, :1],
    "looks at the number of its row": lambda o: o[:, :1] + 1e-6 * np.arange(len(o))[:, None],
    "looks at the first row": lambda o: o[:, :1] * 0 + o[:1, :1],
    "draws by itself": lambda o: np.random.default_rng().normal(size=(len(o), 1)),
}


def test_rows_are_stable_if_each_is_looked_at_by_itself():
    assert all(rows_are_stable(policy, 5) for policy in STABLE)
    for name, function in UNSTABLE.items():
        assert not rows_are_stable(as_policy(function), 5), name


# --- memory and dice: episodes would not be independent -------------------------------------------


def test_a_policy_with_a_generator_of_its_own_is_refused():
    """Pickled to two workers, it would draw the same numbers in both."""
    dice = np.random.default_rng(0)
    policy = as_policy(lambda rows: dice.uniform(-1, 1, (len(rows), 1)), name="dice")
    with pytest.raises(InputError, match=r"same actions.*dice.*not be independent"):
        check_fit(policy, environment())


def test_a_policy_that_remembers_is_refused():
    class Recurrent:
        def predict(self, rows, state=None, deterministic=True):
            return np.zeros((len(rows), 1), np.float32), (np.ones(3),)

    with pytest.raises(InputError, match="without memory"):
        check_fit(as_policy(Recurrent()), environment())


def test_what_cannot_sample_is_not_recorded_as_sampled():
    class Certain:
        def predict(self, observations, deterministic=False):
            return observations[:, :1].clip(-1, 1), None

    with pytest.raises(InputError, match="can sample"):
        check_fit(as_policy(Certain(), sample=True), environment())


def test_workers_of_a_policy_that_samples_by_itself_draw_different_numbers():
    """torch's generator starts alike in every process; here 2 workers, episodes 0 and 1."""

    class Drawing:
        def predict(self, observations, deterministic=False):
            drawn = np.zeros if deterministic else torch.rand
            return np.asarray(drawn((len(observations), 1))), None

    first, second = collect(Drawing(), "Pendulum-v1", 2, 0, workers=2, sample=True)
    assert abs(np.corrcoef(first.actions.ravel(), second.actions.ravel())[0, 1]) < 0.5
