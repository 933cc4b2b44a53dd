"""Many certificates: a specification, its jobs, the engines that run them, and what comes of them.

Names are loaded on first use: a specification should be refused without the import of torch.
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tightrope.studies.run import Finished, describe, run_study
    from tightrope.studies.spec import Study, load_study

_HOMES = {
    "Finished": "run",
    "Study": "spec",
    "describe": "run",
    "load_study": "spec",
    "run_study": "run",
}
__all__ = ["Finished", "Study", "describe", "load_study", "run_study"]


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(importlib.import_module(f"tightrope.studies.{_HOMES[name]}"), name)
    raise AttributeError(f"module 'tightrope.studies' has no attribute {name!r}")
