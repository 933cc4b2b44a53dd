"""Many certificates: a specification, its jobs, the engines that run them, and what comes of them.

Names are loaded on first use: a specification should be refused without the import of torch.
"""

from typing import TYPE_CHECKING

from tightrope.imports import on_first_use

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

__getattr__ = on_first_use(__name__, _HOMES)
