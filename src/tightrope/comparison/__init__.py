"""Which of two policies is better: roll-outs, recordings or certificates compared.

Names are loaded on first use. (`compare` is a module here; the function of this name is in it.)
"""

from typing import TYPE_CHECKING

from tightrope.imports import on_first_use

if TYPE_CHECKING:
    from tightrope.comparison.compare_options import CompareOptions
    from tightrope.comparison.questions import Interval, Question
    from tightrope.comparison.result import Comparison
    from tightrope.comparison.samples import Sample

_HOMES = {
    "CompareOptions": "compare_options",
    "Comparison": "result",
    "Interval": "questions",
    "Question": "questions",
    "Sample": "samples",
}
__all__ = ["CompareOptions", "Comparison", "Interval", "Question", "Sample"]

__getattr__ = on_first_use(__name__, _HOMES)
