"""How numbers and names read in tables and figures."""

import math

__all__ = ["MINUS", "NONE", "one_line", "rounded"]

MINUS = "\u2212"
NONE = "\u2013"  # where there is no number


def rounded(value: float, form: str) -> str:
    """A number in that format with a true minus sign; a dash if it is missing.

    >>> rounded(0.0123456, ".3g"), rounded(float("nan"), ".3g") == NONE
    ('0.0123', True)
    """
    return NONE if math.isnan(value) else format(value, form).replace("-", MINUS)


def one_line(name: str) -> str:
    """A name without what would break a line."""
    return "".join(letter if letter.isprintable() else " " for letter in name)
