"""Kills at the changes of a disk, by the hook of files.py."""

import os
import sys

import pytest

from tightrope import files

NEEDS_FORK = [
    pytest.mark.skipif(not hasattr(os, "fork") or sys.platform == "darwin", reason="needs fork"),
    pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning"),
]


def killed_at(step, action):
    """Whether `action`, in a process of its own, was killed before that change of the disk."""
    child = os.fork()
    if child == 0:
        left = step

        def before(change, path):
            nonlocal left
            left -= 1
            if left < 0:
                os._exit(9)

        try:
            files._before = before
            action()
        finally:
            os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 9
