"""Logs of others as episodes, and back, one module per format.

Rules in docs/formats.md. Nothing here needs the environment the log was recorded in.
"""

from tightrope.rollouts.logs.arrays import export_arrays, import_arrays, require_hdf5
from tightrope.rollouts.logs.frames import import_frame, is_frame
from tightrope.rollouts.logs.minari import export_minari, import_minari, is_minari_id

__all__ = [
    "export_arrays",
    "export_minari",
    "import_arrays",
    "import_frame",
    "import_minari",
    "is_frame",
    "is_minari_id",
    "require_hdf5",
]
