"""Checkpoints in parts: small, whole whenever the process is killed, refused if a part is wrong."""

import contextlib
import json
import os
import shutil
import zipfile
from copy import deepcopy
from pathlib import Path

import numpy as np
import pytest
import safetensors.numpy
import torch
from gymnasium import spaces
from interruptions import interrupt_at
from stable_baselines3.common.buffers import ReplayBuffer

from tightrope.agents import TrainingInterruptedError, build, specify, train
from tightrope.agents.checkpoint import (
    Checkpoint,
    load_checkpoint,
    read_segments,
    sweep,
    write_segment,
)
from tightrope.agents.replay_buffer import CompactReplayBuffer
from tightrope.errors import InputError

SPACE, ACTIONS = spaces.Box(-9, 9, (3,), np.float64), spaces.Box(-1, 1, (1,), np.float32)
SETTINGS = {"hidden": (8, 8), "batch": 16, "warmup": 20, "steps": 70, "buffer": 25}
SHORT = {**SETTINGS, "evaluation_episodes": 1, "evaluate_every": 1000, "checkpoint_every": 15}
PENDULUM, ENV = "Pendulum-v1", "InvertedPendulum-v5"  # episodes of 5 to 20 steps at first


def add(buffers, rows, rng):
    """Episodes of about ten steps."""
    now = rng.normal(size=(1, 3))
    for _ in range(rows):
        after, done = rng.normal(size=(1, 3)), rng.random(1) < 0.1
        truncated = [{"TimeLimit.truncated": bool(done[0] and rng.random() < 0.5)}]
        for buffer in buffers:
            buffer.add(now, after, rng.uniform(-1, 1, (1, 1)), rng.normal(size=1), done, truncated)
        now = rng.normal(size=(1, 3)) if done[0] else after


def same_samples(left, right):
    """Whether every row of both gives the same bits."""
    rows = np.arange(right.size())
    pairs = zip(left._get_samples(rows)[:5], right._get_samples(rows)[:5], strict=True)
    same_place = (left.pos, left.full) == (right.pos, right.full)
    return same_place and all(torch.equal(ours, theirs.float()) for ours, theirs in pairs)


@pytest.mark.parametrize("seed", range(3))
def test_segments_give_back_the_buffer_wherever_the_ring_stands(tmp_path, seed):
    """Against SB3's buffer with the same rows; also when more than a ring of them is new."""
    rng = np.random.default_rng(seed)
    ours, theirs = (
        kind(60, SPACE, ACTIONS, device="cpu") for kind in (CompactReplayBuffer, ReplayBuffer)
    )
    segments = ()
    for rows in rng.choice(
        [1, 7, 13, 20, 29, 60, 61, 150], 25, p=[0.1, *[0.2] * 4, 0.04, 0.03, 0.03]
    ):
        state = rng.bit_generator.state
        add([ours], rows, rng)
        rng.bit_generator.state = state
        add([theirs], rows, rng)
        segments = write_segment(tmp_path, ours, segments)
        sweep(tmp_path, segments)
        assert {path.name for path in tmp_path.iterdir()} == {one.name for one in segments}
        read = CompactReplayBuffer(60, SPACE, ACTIONS, device="cpu")
        read_segments(tmp_path, read, segments)
        assert same_samples(read, theirs)
        if rng.random() < 0.3:
            ours = read  # as a resumed run does


def checkpoint(folder, **options):
    """Of a new agent and its environment."""
    return Checkpoint(folder / "checkpoint.pt", *build(specify("sac", PENDULUM, **options)))


def saved(folder, counts, **options):
    """A checkpoint after each of `counts` new rows; and the bytes written each time."""
    made, written, known = checkpoint(folder, **SETTINGS | options), [], {}
    for rows in counts:
        add([made.buffer], rows, np.random.default_rng(len(written)))
        made.save(0.0)
        files = {path: path.stat() for path in folder.rglob("*.*")}
        new = {path: stat for path, stat in files.items() if known.get(path) != stat.st_mtime_ns}
        written.append(sum(stat.st_size for stat in new.values()))
        known = {path: stat.st_mtime_ns for path, stat in files.items()}
    return made, written


def test_a_checkpoint_writes_only_what_is_new_and_keeps_no_more_than_the_ring(tmp_path):
    """A row is 3 + 1 + 3 floats and a next observation for one in ten, in all about 30 bytes."""
    made, written = saved(tmp_path / "new", [500] * 12, buffer=10_000)
    assert len(made.segments) == 12
    assert max(written) - min(written) < 3_000  # 100 bytes to name each segment; ends vary
    made, _ = saved(tmp_path / "old", [100] * 20, buffer=350)
    assert [one.first for one in made.segments] == [1600, 1700, 1800, 1900]
    assert len(list((tmp_path / "old" / "replay").iterdir())) == 4


def lose(path):
    path.unlink()


def flip(path):
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(content)


def swap(path):
    shutil.copy(next(one for one in path.parent.iterdir() if one != path), path)


@pytest.mark.parametrize("harm", [lose, flip, swap])
def test_a_wrong_segment_is_refused_in_one_line(harm, tmp_path):
    saved(tmp_path, [10, 10], buffer=100)
    harm(tmp_path / "replay" / "10-20.safetensors")
    words = r"^expected '.*10-20\.safetensors'.* SHA-256 .*, found \w+: put it back, or start anew"
    with pytest.raises(InputError, match=words) as caught:
        checkpoint(tmp_path, **SETTINGS | {"buffer": 100}).restore()
    assert "\n" not in str(caught.value)


def test_a_checkpoint_of_an_earlier_format_or_of_something_else_says_what_to_do(tmp_path):
    path = tmp_path / "checkpoint.pt"
    torch.save({"format": "tightrope.checkpoint/1"}, path)
    words = r"expected .*/2, found 'tightrope.checkpoint/1' in .*: start anew .* or finish the run"
    with pytest.raises(InputError, match=words):
        load_checkpoint(path)
    path.write_bytes(b"PK\x03\x04 not a checkpoint")
    with pytest.raises(InputError, match="cannot read the checkpoint"):
        load_checkpoint(path)


# Whole runs.


def result(folders):
    """Weights and record of a finished run."""
    folder = folders["final"]
    with zipfile.ZipFile(folder / "policy.zip") as archive, archive.open("policy.pth") as stream:
        weights = torch.load(stream, weights_only=True)
    record = json.loads((folder / "policy.json").read_text())
    return {name: value.tolist() for name, value in weights.items()}, {**record, "digests": 0}


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """A run that nothing disturbed, with a ring that wraps around."""
    return result(train("sac", ENV, tmp_path_factory.mktemp("whole") / "run", **SHORT))


def on_files(monkeypatch, act):
    """Call `act(name, path, half)` before every change to the checkpoint's files, and half-way.

    `half` says that the file `path` is being written.
    """

    def watched(path):
        parts = Path(path).parts
        return "replay" in parts or Path(path).name.lstrip(".").startswith(
            ("checkpoint.pt", "finished")
        )

    def operation(name):
        plain = getattr(os, name)

        def call(path, *args, **kwargs):
            if watched(path):
                act(name, path, False)
            return plain(path, *args, **kwargs)

        monkeypatch.setattr(os, name, call)

    def writer(module, name, argument):
        plain = getattr(module, name)

        def call(*args, **kwargs):
            plain(*args, **kwargs)
            if isinstance(args[argument], Path) and watched(args[argument]):
                content = args[argument].read_bytes()
                args[argument].write_bytes(content[: len(content) // 2])
                act(name, args[argument], True)
                args[argument].write_bytes(content)

        monkeypatch.setattr(module, name, call)

    for name in ("link", "replace", "unlink", "mkdir", "rmdir", "chmod"):
        operation(name)
    writer(safetensors.numpy, "save_file", 1)
    writer(torch, "save", 1)


def test_a_kill_between_any_two_operations_loses_nothing(tmp_path, monkeypatch, whole):
    """The folder as it is before each change to a file: all of these resume to the same end."""
    folder, pictures, seen = tmp_path / "run", [], []

    def picture(name, path, half):
        ours = [folder / "checkpoint.pt", folder / "finished", *folder.glob("replay/*")]
        state = {(str(one), one.stat().st_size) for one in ours if one.exists()}
        if state not in seen:
            seen.append(state)
            pictures.append(shutil.copytree(folder, tmp_path / f"{len(pictures)}-{name}"))

    with monkeypatch.context() as patched:
        on_files(patched, picture)
        assert result(train("sac", ENV, folder, **SHORT)) == whole
    assert len(pictures) > 12
    reached = 0
    for copy in pictures:
        if (copy / "checkpoint.pt").is_file():
            step = load_checkpoint(copy / "checkpoint.pt")["counters"]["num_timesteps"]
            assert step >= reached
            reached = step
        else:
            assert not reached or (copy / "finished").is_file()
        assert result(train("sac", ENV, copy, **SHORT)) == whole, copy.name
        left = [*copy.glob("*checkpoint*"), *copy.glob("replay")]
        assert not left
    assert reached > 25  # the ring had wrapped around
    assert not all(list(copy.glob("replay/0-*")) for copy in pictures[-4:])  # and dropped a segment


@pytest.mark.parametrize("kind", [OSError, KeyboardInterrupt])
def test_whichever_operation_fails_a_checkpoint_stands_and_the_next_is_good(
    kind, tmp_path, monkeypatch
):
    """The n-th operation of a checkpoint, for every n: the earlier or the new one is there."""
    for failing in range(100):
        folder, count = tmp_path / str(failing), [0]

        def fail(name, path, half, count=count, failing=failing):
            count[0] += 1
            if count[0] == failing + 1:
                raise kind(28, "No space left on device")

        made, _ = saved(folder, [30, 30], buffer=50)
        earlier = deepcopy(made.buffer)
        add([made.buffer], 35, np.random.default_rng(9))  # drops the first segment
        with monkeypatch.context() as patched:
            on_files(patched, fail)
            with contextlib.suppress(InputError, KeyboardInterrupt):
                made.save(0.0)
        assert any(same_samples(read(folder), one) for one in (earlier, made.buffer)), failing
        add([made.buffer], 10, np.random.default_rng(10))
        made.save(0.0)
        assert same_samples(read(folder), made.buffer)
        if count[0] <= failing:
            break
    assert 8 < failing < 99


def read(folder):
    """The buffer of a checkpoint, in a new process as it were."""
    made = checkpoint(folder, **SETTINGS | {"buffer": 50})
    made.restore()
    return made.buffer


def test_a_run_goes_on_when_the_disk_is_full_now_and_then(tmp_path, monkeypatch, whole):
    """At every third operation; what stands at the end resumes."""
    count = [0]

    def fail(name, path, half):
        count[0] += 1
        if count[0] % 3 == 0 and "finished" not in str(path):
            raise OSError(28, "No space left on device")

    folder = tmp_path / "run"
    with monkeypatch.context() as patched:
        on_files(patched, fail)
        interrupt_at(patched, 68)
        with (
            pytest.warns(UserWarning, match="no checkpoint at step"),
            pytest.raises(TrainingInterruptedError),
        ):
            train("sac", ENV, folder, **SHORT)
    assert result(train("sac", ENV, folder, **SHORT)) == whole
    assert not list(folder.glob("replay"))
