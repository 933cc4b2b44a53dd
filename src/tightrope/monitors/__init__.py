"""A certificate's policy in use: the monitor and what it watches.

Names are loaded on first use: a monitor itself needs numpy alone.
"""

from typing import TYPE_CHECKING

from tightrope.imports import on_first_use

if TYPE_CHECKING:
    from tightrope.monitors.monitor import Monitor, Status
    from tightrope.monitors.watching import Watched, watch
    from tightrope.monitors.wrapper import MonitorWrapper

_HOMES = {
    "Monitor": "monitor",
    "MonitorWrapper": "wrapper",
    "Status": "monitor",
    "Watched": "watching",
    "watch": "watching",
}
__all__ = ["Monitor", "MonitorWrapper", "Status", "Watched", "watch"]

__getattr__ = on_first_use(__name__, _HOMES)
