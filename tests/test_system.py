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
from tightrope.agents.redq import actor_loss, critic_loss, draw_members
from tightrope.errors import InputError
from tightrope.posteriors import (
    OBJECTIVES,
    PRESETS,
    Rows,
    Stage,
    fit,
    kl_divergence,
    random_prior,
    regress,
)
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


@pytest.mark.parametrize(
    ("count", "name", "words"),
    [
        (0, "cuda", "a GPU for `device` cuda, found none that torch can use: give cpu or auto"),
        (0, "cuda:0", "found none that torch can use"),
        (2, "cuda:2", "a GPU for `device` cuda:2, found 2, counted from cuda:0"),
    ],
)
def test_a_gpu_that_is_not_there_is_refused(count, name, words, gpus):
    gpus(count)
    with pytest.raises(InputError, match=words):
        resolve_device(name)
    assert check_device(name) == name  # a certificate from another machine may name it


@pytest.mark.parametrize("name", ["gpu", "CPU", "cuda:", "cuda:-1", "cuda:a", "", None, 0])
def test_what_is_no_device_is_refused(name):
    with pytest.raises(InputError, match="`device` must be auto, cpu, cuda or such as cuda:1"):
        check_device(name)


# --- nothing is made on a device by default -------------------------------------------------------


def rows():
    generator = torch.Generator().manual_seed(0)
    return Rows(torch.randn(60, 3, generator=generator), torch.rand(60, generator=generator))


@pytest.mark.parametrize("sampling", ["local", "weights"])
@pytest.mark.parametrize("preset", ["paper", "tight"])
def test_a_posterior_is_fitted_where_it_is_told(preset, sampling):
    chosen = PRESETS[preset]
    settings = dataclasses.replace(chosen.fit, sampling=sampling, epochs=2, epoch_steps=3)
    for stage in (Stage(n=60, delta=0.01, kappa=0.0), Stage(n=60, delta=0.01, kappa=0.5)):
        found = []
        for default in (torch.device("cpu"), ELSEWHERE):
            data = rows()
            with default:
                prior = random_prior(chosen, 3, [1, 2])
                posterior, curves = fit(prior, data, stage, settings, [1, 2], device="cpu")
                found.append((posterior, curves, kl_divergence(posterior, prior)))
        (ours, curves, kl), (theirs, again, kl_again) = found
        assert all(map(torch.equal, ours.means, theirs.means))
        np.testing.assert_array_equal(curves.objective, again.objective)
        np.testing.assert_array_equal(kl, kl_again)


@pytest.mark.parametrize("exact", [False, True])
@pytest.mark.parametrize("episodes", [1, 6])
def test_a_regression_is_fitted_where_it_is_told(episodes, exact):
    settings = dataclasses.replace(PRESETS["tight"].regression, steps=20, batch=8, exact_steps=20)
    episode = np.arange(60) * episodes // 60
    found = []
    for default in (torch.device("cpu"), ELSEWHERE):
        data = rows()
        with default:
            found.append(regress(data, episode, settings, 3, exact=exact, device="cpu"))
    ours, theirs = found
    assert all(map(torch.equal, ours.network.layers, theirs.network.layers))
    np.testing.assert_array_equal(ours.left_out, theirs.left_out)


def test_an_objective_stays_on_the_device_of_its_losses():
    losses, kl = (torch.rand(shape, device=ELSEWHERE) for shape in ((2, 5), (2,)))
    stage = Stage(n=60, delta=0.01, kappa=0.5)
    for reference in (None, losses):
        value = OBJECTIVES["mcallester"](losses, reference, kl, stage)
        assert value.device == ELSEWHERE
    assert rows().to("meta").inputs.device == ELSEWHERE
    assert random_prior(PRESETS["tight"], 3, [1]).to("meta").log_variances[0].device == ELSEWHERE


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


def test_the_losses_of_redq_stay_on_the_device_of_the_agent():
    made = redq("meta")
    networks = (made.critic, made.critic_target, made.actor)
    assert {p.device for p in made.policy.parameters()} == {ELSEWHERE}
    observations, actions, scalars = (
        torch.zeros(shape, device=ELSEWHERE) for shape in ((8, 3), (8, 1), (8,))
    )
    given = {"observations": observations, "noise": actions, "temperature": scalars[:1]}
    members = draw_members(3, 2, made.device)
    for huber in (1.0, float("inf")):
        loss = critic_loss(
            *networks,
            **given,
            actions=actions,
            next_observations=observations,
            rewards=scalars,
            bootstraps=scalars,
            members=members,
            huber=huber,
        )
        assert loss.device == ELSEWHERE
    for climbs, climbed in (("mean", None), ("minimum", members)):
        loss, log_prob = actor_loss(
            made.critic, made.actor, **given, members=climbed, climbs=climbs
        )
        assert loss.device == log_prob.device == members.device == ELSEWHERE


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
