"""Waiting for other processes, without guessing how long they take."""

import re
import time
from pathlib import Path


def wait_until(condition, seconds=300.0):
    """Return as soon as `condition()` holds; the limit is for a test that would never end."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.02)


def wait_until_idle(process, rounds=4):
    """Return when a process that polls has gone to sleep a few more times.

    It has then read what was sent to it before. Where the system does not count, two seconds must
    do.
    """
    before = _sleeps(process.pid)
    if before is None:
        time.sleep(2.0)
    else:
        wait_until(lambda: _sleeps(process.pid) >= before + rounds)


def _sleeps(pid):
    status = Path(f"/proc/{pid}/status").read_text()
    found = re.search(r"^voluntary_ctxt_switches:\s*(\d+)", status, re.MULTILINE)
    return None if found is None else int(found[1])


def children_of(pid):
    """Process ids of the children that still run."""
    found = set()
    for status in Path("/proc").glob("[0-9]*/stat"):
        try:
            state, parent = status.read_text().rpartition(")")[2].split()[:2]
        except OSError:  # gone meanwhile
            continue
        if int(parent) == pid and state != "Z":
            found.add(int(status.parent.name))
    return found


def ended(pid):
    """Whether a process has ended, waited for or not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except OSError:
        return True
