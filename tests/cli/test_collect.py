"""`tightrope collect` as a stranger meets it: exit codes, one line for a mistake, whole files."""

import contextlib
import os
import signal
import subprocess
import sys
from pathlib import Path

import custom_environments  # noqa: F401
import numpy as np
import pytest
from command import lines, options, run, tightrope, words
from waiting import wait_until, wait_until_idle

from tightrope.files import sha256
from tightrope.rollouts import collect, episode_seeds, load, load_episodes, save


@pytest.fixture
def environ(helpers):
    """Environment variables with which the helpers are found."""
    path = [str(helpers), os.environ.get("PYTHONPATH")]
    return {"PYTHONPATH": os.pathsep.join(filter(None, path)), "PYTHONDONTWRITEBYTECODE": "1"}


# --- good runs --------------------------------------------------------------------------------


@pytest.mark.parametrize("suffix", ["safetensors", "npz", "hdf5"])
def test_a_good_run_writes_the_episodes_of_the_library_and_says_so(suffix, folder):
    if suffix == "hdf5":
        pytest.importorskip("h5py")
    out = folder / "new" / f"episodes.{suffix}"
    few = ("--episodes", 3, "--seed", 5, "--workers", 2, "--out", out)
    answer = tightrope("collect", "policy.py:act", "--env", "Pendulum-v1", *few)
    assert answer.returncode == 0, answer.stderr
    assert lines(answer.stderr) == []
    assert answer.stdout == f"3 episodes, 600 steps of Pendulum-v1 (seed 5) in {out}\n"
    expected = collect("policy.py:act", "Pendulum-v1", 3, 5, workers=1)
    found = load_episodes(out)
    for name in ("observations", "rewards", "actions", "offsets", "final_observations"):
        np.testing.assert_array_equal(getattr(found, name), getattr(expected, name))
    assert os.listdir(out.parent) == [out.name]
    if suffix == "safetensors":
        save(expected, "expected.safetensors")
        assert out.read_bytes() == Path("expected.safetensors").read_bytes()


def test_a_seed_that_is_not_given_is_fresh_printed_and_recorded(folder, capfd):
    few = {"--env": "Pendulum-v1", "--episodes": 1, "--workers": 1}
    seeds = []
    for name in ("a.safetensors", "b.safetensors"):
        code, out, said = run(capfd, "collect", "policy.py:act", *options({**few, "--out": name}))
        assert (code, said) == (0, [])
        seeds.append(load(name).subject["seed"])
        assert f"(seed {seeds[-1]})" in out
    assert seeds[0] != seeds[1]
    again = options({**few, "--out": "c.safetensors", "--seed": seeds[0]})
    run(capfd, "collect", "policy.py:act", *again)
    assert Path("c.safetensors").read_bytes() == Path("a.safetensors").read_bytes()


def test_an_sb3_zip_is_collected_with_samples_and_statistics(folder, sb3_file):
    path = sb3_file("SAC", "Pendulum-v1")
    np.savez("statistics.npz", mean=np.zeros(3), var=np.full(3, 4.0))
    few = ("--sample", "--normalize", "statistics.npz", "--episodes", 1, "--workers", 1)
    answer = tightrope("collect", path, "--env", "Pendulum-v1", "--out", "a.safetensors", *few)
    assert answer.returncode == 0, answer.stderr
    subject = load("a.safetensors").subject
    assert subject["policy"]["actions"] == "sampled"
    assert subject["environment"]["id"] == "Pendulum-v1"


def test_a_folder_that_training_wrote_needs_no_environment(folder, trained, capfd):
    trained("run")
    few = ("--episodes", 1, "--workers", 1, "--out", "a.safetensors")
    code, out, said = run(capfd, "collect", "run", *few)
    assert (code, said) == (0, [])
    assert "Pendulum-v1" in out
    subject = load("a.safetensors").subject
    assert subject["environment"]["id"] == "Pendulum-v1"
    assert subject["policy"]["digest"] == sha256(Path("run", "policy.safetensors"))


def test_an_environment_of_a_module_is_found_in_the_working_directory(folder):
    """By the installed command, whose import path does not begin with the working directory."""
    Path("robots.py").write_text(
        "import gymnasium as gym\n"
        "from gymnasium.envs.classic_control import PendulumEnv\n"
        "gym.register('Robot-v0', PendulumEnv, max_episode_steps=4)\n"
    )
    script = Path(sys.executable).with_name("tightrope")
    if not script.exists():
        pytest.skip("the command is not installed beside this Python")
    few = ["--env", "robots:Robot-v0", "--episodes", "2", "--workers", "1", "--out", "a.npz"]
    answer = subprocess.run(
        [script, "collect", "policy:act", *few], capture_output=True, text=True, timeout=300
    )
    assert answer.returncode == 0, answer.stderr
    assert load_episodes("a.npz").lengths.tolist() == [4, 4]


GOOD = {"--env": "Pendulum-v1", "--out": "new.safetensors", "--episodes": 2, "--workers": 1}


def arguments(**changes):
    return list(options({**GOOD, **changes}))


# --- what fails on the way --------------------------------------------------------------------


FAILING = {
    "Raises-v0": "the motor burnt out",
    "NaN-v0": "NaN",
    "Hangs-v0": "hangs",
    "Exits-v0": "exit code 7",
}


def failing(name, environ, *more):
    return tightrope(
        "collect",
        "custom_environments:leaning",
        *arguments(**{"--env": f"custom_environments:{name}", "--episodes": "4"}),
        *("--timeout", "5", "--seed", "0"),
        *more,
        env=environ,
    )


@pytest.mark.parametrize(("name", "words"), FAILING.items(), ids=FAILING)
def test_a_failing_environment_is_one_line_with_the_seed_and_leaves_no_file(
    name, words, folder, environ
):
    answer = failing(name, environ)
    assert answer.returncode == 2
    assert answer.stdout == ""
    (said,) = lines(answer.stderr)
    (bad,) = [seed for seed in episode_seeds(0, 4) if seed % 4 == 3]
    assert words in said
    assert str(bad) in said
    assert sorted(os.listdir()) == ["log.npz", "policy.py"]


@pytest.mark.parametrize(
    ("name", "kept"),
    [
        ("Raises-v0", "kept 1 finished episodes in new.safetensors"),
        ("HangsInReset-v0", "nothing had finished, so nothing was written"),
    ],
)
def test_keep_partial_writes_and_marks_what_finished(name, kept, folder, environ):
    answer = failing(name, environ, "--keep-partial")
    assert answer.returncode == 2
    (said,) = lines(answer.stderr)
    assert said.endswith(kept)
    if name == "Raises-v0":
        found = load("new.safetensors")
        assert len(found) == 1
        assert "1 of 4 episodes" in found.subject["partial"]
        os.remove("new.safetensors")
    assert sorted(os.listdir()) == ["log.npz", "policy.py"]


# --- Ctrl-C -----------------------------------------------------------------------------------


def processes(**wanted):
    """Ids of running processes by parent or group, from /proc."""
    found = []
    for status in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            state, parent, group = status.read_text().rpartition(")")[2].split()[:3]
            named = {"parent": int(parent), "group": int(group)}
            if state != "Z" and all(named[key] == value for key, value in wanted.items()):
                found.append(int(status.parent.name))
    return found


@contextlib.contextmanager
def running(environ, *more, flags=()):
    """A collection of many episodes in a session of its own, ended at the latest here."""
    names = {"--env": "custom_environments:Hangs-v0", "--episodes": "40", "--workers": "2"}
    names |= dict(zip(more[::2], more[1::2], strict=True))
    process = subprocess.Popen(
        words("collect", "custom_environments:still", *arguments(**names), *flags),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, **environ},
        start_new_session=True,
    )
    try:
        yield process
    finally:
        for identity in processes(group=process.pid):
            with contextlib.suppress(ProcessLookupError):
                os.kill(identity, signal.SIGKILL)
        process.communicate()


@pytest.mark.parametrize("everyone", [True, False], ids=["to the terminal's group", "to us alone"])
def test_ctrl_c_ends_the_command_its_workers_and_leaves_no_file(
    everyone, folder, environ, interruptible
):
    marker = folder / "hanging"
    with running({**environ, "HANGING_MARKER": str(marker)}) as process:
        wait_until(marker.exists)
        os.killpg(process.pid, signal.SIGINT) if everyone else process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=120)
        assert process.returncode == 130
        assert out == ""
        (said,) = lines(err)
        assert "interrupted" in said
        assert processes(group=process.pid) == []
    assert sorted(os.listdir()) == ["hanging", "log.npz", "policy.py"]


def test_ctrl_c_with_keep_partial_keeps_what_finished(folder, environ, interruptible):
    marker = folder / "hanging"
    hanging = {**environ, "HANGING_MARKER": str(marker)}
    with running(hanging, flags=["--keep-partial"]) as process:
        wait_until(marker.exists)
        wait_until_idle(process)  # it has heard of the finished ones
        os.killpg(process.pid, signal.SIGINT)
        process.communicate(timeout=120)
        assert process.returncode == 130
    assert len(load("new.safetensors")) >= 1


def test_ctrl_c_while_the_workers_start_is_one_line_too(folder, environ, helpers, interruptible):
    """The workers are made slow to start, so that the signal surely meets them there."""
    slow = folder / "slow"
    slow.mkdir()
    (slow / "sitecustomize.py").write_text(
        "import sys, time\nif '-c' in sys.orig_argv: time.sleep(60)\n"
    )
    path = os.pathsep.join([str(slow), str(helpers)])
    with running({**environ, "PYTHONPATH": path}) as process:
        wait_until(lambda: len(processes(parent=process.pid)) == 2)
        wait_until_idle(process)
        os.killpg(process.pid, signal.SIGINT)
        _, err = process.communicate(timeout=120)
        assert process.returncode == 130
        assert len(lines(err)) == 1, err
        assert processes(group=process.pid) == []


def test_sigterm_ends_the_command_and_its_workers_and_leaves_no_file(folder, environ):
    """As a scheduler stops a job; the workers notice when they hand over an episode."""
    with running(environ, "--env", "Pendulum-v1", "--episodes", "100000") as process:
        wait_until(lambda: len(processes(parent=process.pid)) == 2)
        workers = processes(parent=process.pid)
        wait_until_idle(process)
        process.terminate()
        out, _ = process.communicate(timeout=120)
        assert (process.returncode, out) == (-signal.SIGTERM, "")
        wait_until(lambda: not any(Path("/proc", str(each)).exists() for each in workers))
    assert sorted(os.listdir()) == ["log.npz", "policy.py"]
