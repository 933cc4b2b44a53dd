"""The compact replay buffer against SB3's own, which holds everything twice and wide."""

import numpy as np
import pytest
import torch
from gymnasium import spaces
from stable_baselines3.common.buffers import ReplayBuffer

from tightrope.agents.replay_buffer import CompactReplayBuffer

SIZE, FEATURES = 50, 7
ACTIONS = spaces.Box(-1, 1, (2,), np.float32)


def space(dtype=np.float64):
    low, high = (-np.inf, np.inf) if np.issubdtype(dtype, np.floating) else (0, 100)
    return spaces.Box(low, high, (FEATURES,), dtype)


def fill(buffers, steps, seed=0, *, envs=1, dtype=np.float64):
    """The same episodes into all of them: terminations, truncations, and an episode cut off."""
    rng = np.random.default_rng(seed)

    def draw():
        return (100 * rng.random((envs, FEATURES))).astype(dtype)

    now = draw()
    for _ in range(steps):
        after, action = draw(), rng.uniform(-1, 1, (envs, 2)).astype(np.float32)
        done, truncated = rng.random(envs) < 0.2, rng.random(envs) < 0.5
        infos = [
            {"TimeLimit.truncated": bool(d and t)} for d, t in zip(done, truncated, strict=True)
        ]
        reward = rng.normal(size=envs)
        for buffer in buffers:
            buffer.add(now, after, action, reward, done, infos)
        now = np.where(done[:, None], draw(), after)
        if rng.random() < 0.05:  # a new process begins an episode, though the last has not ended
            now = draw()


def both(steps, *, envs=1, dtype=np.float64, size=SIZE, **options):
    buffers = [
        kind(size, space(dtype), ACTIONS, "cpu", n_envs=envs, **options)
        for kind in (CompactReplayBuffer, ReplayBuffer)
    ]
    fill(buffers, steps, envs=envs, dtype=dtype)
    return buffers


@pytest.mark.parametrize("steps", [1, 2, 30, 49, 50, 51, 100, 333])
@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.int64, np.uint8])
def test_samples_are_those_of_sb3s_buffer_in_float32(steps, dtype):
    """Every row, before and after the ring is full; bit for bit."""
    ours, theirs = both(steps, dtype=dtype)
    assert (ours.pos, ours.full, ours.size()) == (theirs.pos, theirs.full, theirs.size())
    rows = np.arange(ours.size())
    for mine, other in zip(ours._get_samples(rows)[:5], theirs._get_samples(rows)[:5], strict=True):
        assert torch.equal(mine.float(), other.float())
        assert mine.dtype == (torch.uint8 if other.dtype == torch.uint8 else torch.float32)


def test_the_draws_are_those_of_sb3s_buffer():
    ours, theirs = both(120)
    samples = []
    for buffer in (ours, theirs):
        np.random.seed(1)  # noqa: NPY002
        samples.append([buffer.sample(16) for _ in range(3)])
    for mine, other in zip(*samples, strict=True):
        assert torch.equal(mine.next_observations, other.next_observations.float())
        assert torch.equal(mine.rewards, other.rewards)


@pytest.mark.parametrize("size", [1, 2, 3])
def test_a_tiny_ring_is_exact_too(size):
    for steps in range(1, 8):
        ours, theirs = both(steps, size=size)
        rows = np.arange(ours.size())
        mine, other = ours._get_samples(rows), theirs._get_samples(rows)
        assert torch.equal(mine.observations, other.observations.float())
        assert torch.equal(mine.next_observations, other.next_observations.float())


def test_several_environments_are_held_side_by_side():
    ours, theirs = both(40, envs=3)
    samples = []
    for buffer in (ours, theirs):
        np.random.seed(2)  # noqa: NPY002
        samples.append(buffer.sample(64))
    assert torch.equal(samples[0].next_observations, samples[1].next_observations.float())
    assert torch.equal(samples[0].dones, samples[1].dones)


def test_a_time_limit_counts_as_an_end_only_if_asked():
    for handled in (True, False):
        ours, theirs = both(SIZE, handle_timeout_termination=handled)
        rows = np.arange(SIZE)
        assert torch.equal(ours._get_samples(rows).dones, theirs._get_samples(rows).dones)
    assert ours._get_samples(rows).dones.sum() == ours.dones.sum() > 0


def test_a_sample_does_not_change_with_the_buffer():
    ours, _ = both(SIZE)
    sample = ours.sample(32)
    before = [tensor.clone() for tensor in sample[:5]]
    fill([ours], SIZE, seed=1)
    assert all(torch.equal(*pair) for pair in zip(before, sample[:5], strict=True))


def test_memory_is_a_quarter_and_the_ends_of_episodes():
    ours, theirs = both(SIZE)
    apart = sum(row.nbytes for row in ours.apart.values())
    wide = theirs.observations.nbytes + theirs.next_observations.nbytes
    assert ours.observations.nbytes == wide / 4
    assert apart / ours.observations.nbytes < 0.4  # ends are drawn with probability 0.2
    assert not hasattr(ours, "next_observations")


def test_a_buffer_can_be_emptied():
    ours, theirs = both(70)
    for buffer in (ours, theirs):
        buffer.reset()
    assert (ours.size(), ours.added, ours.apart) == (0, 0, {})
    fill([ours, theirs], 10, seed=3)
    rows = np.arange(10)
    mine, other = ours._get_samples(rows), theirs._get_samples(rows)
    assert torch.equal(mine.next_observations, other.next_observations.float())
