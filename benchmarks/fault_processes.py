"""Commands in processes of their own that are killed, and what is left of them.

All libraries are loaded once and a command is a fork of that: what is killed is the command at
work, not Python at importing, and a hundred kills take minutes. Its workers are fresh processes.
"""

import contextlib
import json
import os
import shutil
import signal
import sys
import time
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).parent
_WRITES = {"os.mkdir", "os.rename", "os.link", "os.remove", "os.rmdir", "os.chmod", "os.truncate"}
_PATIENCE = 120.0  # seconds until a process that should have left counts as stray


@dataclass(frozen=True)
class Kill:
    """SIGKILL before the `event`-th change of a file, or after so many seconds.

    Attributes:
        whom: "all" the command and its workers, "parent" the command alone.
        event: counted over all processes, from 1.
        seconds: from the start.
    """

    whom: str = "all"
    event: int | None = None
    seconds: float | None = None


@dataclass(frozen=True)
class Ended:
    """What became of a command.

    Attributes:
        code: exit code; -9 if it was killed.
        lines: what it said on standard error.
        events: changes of files that it began.
        seconds: until it ended.
        lingered: seconds from then until the last of its workers had left.
        stray: workers that had not left after two minutes.
    """

    code: int
    lines: tuple[str, ...]
    events: int
    seconds: float
    lingered: float
    stray: int


def arm():
    """Count changes of files under the folder that FAULTS names, and do there what it says."""
    told = json.loads(os.environ["FAULTS"])
    folder, event = told["folder"], told.get("event")
    counter = os.open(told["counter"], os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    busy = []

    def hook(name, arguments):
        if busy or not (name == "open" or name in _WRITES):
            return
        path = arguments[0]
        if name == "open" and not arguments[2] & (os.O_WRONLY | os.O_RDWR | os.O_CREAT):
            return
        if not isinstance(path, str | bytes | os.PathLike):
            return
        named = os.fsdecode(path)
        below = not os.path.isabs(named) and any(type(a) is int and a > 2 for a in arguments[1:])
        if not named.startswith(folder) and not below:  # rmtree names files by their folder
            return
        if "tensorboard" in named:  # hundreds of lines that nothing depends on
            return
        busy.append(name)
        os.write(counter, b".")
        if os.lseek(counter, 0, os.SEEK_CUR) == event:
            _act(told)
        busy.clear()

    sys.addaudithook(hook)


def _act(told):
    if told["whom"] == "vanish":
        shutil.rmtree(told["vanishes"], ignore_errors=True)
        return
    leader = os.getsid(0)
    if told["whom"] == "all":
        for pid in members(leader) - {os.getpid(), leader}:
            _kill(pid)
    os.kill(leader, signal.SIGKILL)
    if told["whom"] == "all":
        os.kill(os.getpid(), signal.SIGKILL)


def _kill(pid):
    with contextlib.suppress(ProcessLookupError):  # it has just ended
        os.kill(pid, signal.SIGKILL)


def shorten_fits():
    """Fits of a few updates, for this process; what is certified is certified all the same."""
    from tightrope.posteriors.presets import PRESETS, shortened

    PRESETS.update({name: shortened(each, updates=4, width=8) for name, each in PRESETS.items()})


def members(session):
    """Processes of a session that are not dead."""
    found = set()
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            state, _, _, own = path.read_text().rpartition(")")[2].split()[:4]
        except OSError:  # it has just ended
            continue
        if int(own) == session and state not in "ZX":
            found.add(int(path.parent.name))
    return found


def attempt(words, folder, work, kill=None, *, vanishes=None, environment=None):
    """Run the command until it ends or is killed, and wait for its workers to leave."""
    counter, said = work / "counter", work / "said"
    counter.unlink(missing_ok=True)
    counter.touch()
    told = {"folder": str(folder), "counter": str(counter)}
    if kill is not None:
        told |= {"event": kill.event, "whom": kill.whom, "vanishes": str(vanishes)}
    begun = time.monotonic()
    pid = os.fork()
    if pid == 0:
        _become(words, told, said, environment or {})
    code = _wait(pid, begun, kill)
    ended = time.monotonic()
    while (left := members(pid)) and time.monotonic() < ended + _PATIENCE:
        time.sleep(0.01)
    for stray in left:
        _kill(stray)
    return Ended(
        code=code,
        lines=tuple(line for line in said.read_text().splitlines() if line.strip()),
        events=counter.stat().st_size,
        seconds=ended - begun,
        lingered=time.monotonic() - ended,
        stray=len(left),
    )


def _wait(pid, begun, kill):
    limit = None if kill is None or kill.seconds is None else begun + kill.seconds
    while True:
        done, status = os.waitpid(pid, os.WNOHANG if limit else 0)
        if done:
            return os.waitstatus_to_exitcode(status)
        if limit and time.monotonic() >= limit:
            for each in members(pid) - {pid} if kill.whom == "all" else ():
                _kill(each)
            os.kill(pid, signal.SIGKILL)  # not reaped yet, so it is still there
            limit = None
        else:
            time.sleep(0.002)


def _become(words, told, said, environment):
    """The command, in a session of its own; never returns."""
    code = 70
    try:
        os.setsid()
        for number, path, flags in (
            (0, os.devnull, os.O_RDONLY),
            (1, environment.pop("STDOUT", os.devnull), os.O_WRONLY | os.O_CREAT),
            (2, str(said), os.O_WRONLY | os.O_CREAT | os.O_TRUNC),
        ):
            os.dup2(os.open(path, flags), number)
        os.environ |= {"FAULTS": json.dumps(told), **environment}
        sys.path.insert(0, str(HERE / "faulty"))  # workers inherit the path
        arm()
        from tightrope.cli import main

        code = main([str(word) for word in words])
        sys.stdout.flush()
    except BaseException as error:
        os.write(2, f"escaped: {type(error).__name__}: {error}\n".encode())
    finally:
        os._exit(code)
