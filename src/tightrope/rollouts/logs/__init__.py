"""Logs of others as episodes, and back, one module per format.

Rules in docs/formats.md. Nothing here needs the environment the log was recorded in.
"""

from tightrope.rollouts.logs.arrays import NAMES, export_arrays, import_arrays, require_hdf5
from tightrope.rollouts.logs.arrow import TABLES, import_table
from tightrope.rollouts.logs.columns import Given
from tightrope.rollouts.logs.frames import import_frame, is_frame
from tightrope.rollouts.logs.lerobot import import_lerobot, is_lerobot
from tightrope.rollouts.logs.minari import export_minari, import_minari, is_minari_id

__all__ = [
    "NAMES",
    "TABLES",
    "Given",
    "export_arrays",
    "export_minari",
    "import_arrays",
    "import_frame",
    "import_lerobot",
    "import_minari",
    "import_table",
    "is_frame",
    "is_lerobot",
    "is_minari_id",
    "require_hdf5",
]
