"""Devices by name, and code that assumes none.

There may be no GPU here. But where the device that tensors are made on by default is `meta`, which
holds no numbers, code that forgets to say where a tensor belongs fails or loses its numbers.
"""

import dataclasses

import gymnasium as gym
import numpy as np
import pytest
import torch
from stable_baselines3.common.logger import Logger

from tightrope.agents import REDQ, SACPolicy, checkpoint
from tightrope.errors import InputError
from tightrope.posteriors import PRESETS, PosteriorStep, fit_posterior, random_prior
from tightrope.system import check_device, resolve_device

ELSEWHERE = torch.device("meta")


@pytest.fixture
def gpus(monkeypatch):
    """A function that sets how many GPUs torch says there are."""

    def pretend(count):
        monkeypatch.setattr("torch.cuda.is_available", lambda: count > 0)
        monkeypatch.setattr("torch.cuda.device_count", lambda: count)

    return pretend


def test_auto_is_a_gpu_where_there_is_one(gpus):
    gpus(0)
    assert resolve_device("auto") == "cpu"
    gpus(2)
    assert resolve_device("auto") == "cuda"
    for name in ("cpu", "cuda", "cuda:0", "cuda:1"):
        assert resolve_device(name) == name


def test_a_gpu_that_is_not_there_and_what_is_no_device_are_refused(gpus):
    for count, name, words in (
        (0, "cuda", "a GPU for `device` cuda, found none that torch can use: give cpu or auto"),
        (0, "cuda:0", "found none that torch can use"),
        (2, "cuda:2", "a GPU for `device` cuda:2, found 2, counted from cuda:0"),
    ):
        gpus(count)
        with pytest.raises(InputError, match=words):
            resolve_device(name)
        assert check_device(name) == name  # a certificate from another machine may name it
    for name in ("gpu", "CPU", "cuda:", "cuda:-1", "cuda:a", "", None, 0):
        with pytest.raises(InputError, match="`device` must be auto, cpu, cuda or such as cuda:1"):
            check_device(name)


# --- nothing is made on a device by default -------------------------------------------------------


@pytest.mark.parametrize("sampling", ["local", "weights"])
@pytest.mark.parametrize("preset", ["paper", "tight"])
def test_a_posterior_is_fitted_where_it_is_told(preset, sampling):
    rng = np.random.default_rng(0)
    data = [rng.random(shape).astype(np.float32) for shape in ((60, 3), 60)]
    own = dataclasses.replace(PRESETS[preset].fit, sampling=sampling, epochs=2, epoch_steps=3)
    for kappa in (0.0, 0.5):
        step, found = PosteriorStep(0, 60, 60, 0.01, kappa), []
        for default in (torch.device("cpu"), ELSEWHERE):
            with default:
                prior = random_prior(PRESETS[preset], 3, 1)
                found.append(fit_posterior(prior, *data, step, own, 1, device="cpu"))
        (ours, curves), (theirs, again) = found
        for mean, other in zip(ours.means, theirs.means, strict=True):
            np.testing.assert_array_equal(mean, other)
        assert curves == again


def redq(device):
    env = gym.make("Pendulum-v1")
    made = REDQ(
        SACPolicy,
        env,
        critics=3,
        policy_kwargs={"net_arch": [8, 8]},
        batch_size=8,
        seed=0,
        device=device,
    )
    made.set_logger(Logger(None, []))
    return made


def test_a_checkpoint_holds_the_random_state_of_the_gpu(monkeypatch):
    """With a GPU that is only pretended."""
    made, state, put_back = redq("cpu"), torch.arange(4, dtype=torch.uint8), []
    monkeypatch.setattr("torch.cuda.get_rng_state", lambda device: state)
    monkeypatch.setattr("torch.cuda.set_rng_state", lambda *given: put_back.append(given))
    checkpoint._restore_random(checkpoint._random(made), made)
    assert put_back == []
    made.device = torch.device("cuda:1")
    checkpoint._restore_random(checkpoint._random(made), made)
    assert put_back == [(state, torch.device("cuda:1"))]


def test_an_update_of_redq_is_made_where_the_agent_is():
    found = []
    for default in (torch.device("cpu"), ELSEWHERE):
        made = redq("cpu")
        rng = np.random.default_rng(0)
        for _ in range(32):
            before, after = rng.normal(size=(2, 1, 3)).astype(np.float32)
            made.replay_buffer.add(before, after, np.zeros((1, 1)), np.ones(1), np.zeros(1), [{}])
        torch.manual_seed(1)
        np.random.seed(1)  # noqa: NPY002  # SB3's buffer draws from it
        with default:
            made.train(2, batch_size=8)
        found.append(list(made.policy.parameters()))
    assert all(map(torch.equal, *found))
