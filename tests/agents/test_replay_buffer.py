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


def both(steps, *, envs=1, dtype=np.float64, size=SIZE):
    buffers = [
        kind(size, space(dtype), ACTIONS, device="cpu", n_envs=envs)
        for kind in (CompactReplayBuffer, ReplayBuffer)
    ]
    fill(buffers, steps, envs=envs, dtype=dtype)
    return buffers


def same(ours, theirs, rows):
    """Bit for bit."""
    for mine, other in zip(ours._get_samples(rows)[:5], theirs._get_samples(rows)[:5], strict=True):
        assert torch.equal(mine.float(), other.float())
        assert mine.dtype == (torch.uint8 if other.dtype == torch.uint8 else torch.float32)


@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.uint8])
def test_samples_are_those_of_sb3s_buffer_in_float32(dtype):
    """Every row, before and after the ring is full, also of a tiny ring; and when emptied."""
    for size, steps in [
        *((SIZE, n) for n in (1, 30, 49, 50, 51, 333)),
        *((size, n) for size in (1, 3) for n in range(1, 8)),
    ]:
        ours, theirs = both(steps, dtype=dtype, size=size)
        assert (ours.pos, ours.full, ours.size()) == (theirs.pos, theirs.full, theirs.size())
        same(ours, theirs, np.arange(ours.size()))
    for buffer in (ours, theirs):
        buffer.reset()
    assert (ours.size(), ours.added, ours.apart) == (0, 0, {})
    fill([ours, theirs], 2, seed=3, dtype=dtype)
    same(ours, theirs, np.arange(2))


@pytest.mark.parametrize("envs", [1, 3])
def test_the_draws_are_those_of_sb3s_buffer(envs):
    """Also of several environments, which are held side by side."""
    samples = []
    for buffer in both(120, envs=envs):
        np.random.seed(1)  # noqa: NPY002
        samples.append([buffer.sample(64) for _ in range(3)])
    for mine, other in zip(*samples, strict=True):
        assert torch.equal(mine.next_observations, other.next_observations.float())
        assert torch.equal(mine.rewards, other.rewards)
        assert torch.equal(mine.dones, other.dones)


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
