"""What a user can get wrong is said in one line."""

import contextlib

import pytest

from tightrope.errors import InputError

__all__ = ["refused"]


@contextlib.contextmanager
def refused(words=None):
    """Expect an InputError of one line that matches these words."""
    with pytest.raises(InputError, match=words) as refusal:
        yield refusal
    assert "\n" not in str(refusal.value)
