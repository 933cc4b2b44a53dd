"""Comparing two policies. (`compare` is a module here; the function of this name is in it.)"""

from typing import TYPE_CHECKING

from tightrope.imports import on_first_use

if TYPE_CHECKING:
    from tightrope.monitors.answers import Answer
    from tightrope.monitors.compare import Comparison

_HOMES = {"Answer": "answers", "Comparison": "compare"}
__all__ = ["Answer", "Comparison"]

__getattr__ = on_first_use(__name__, _HOMES)
