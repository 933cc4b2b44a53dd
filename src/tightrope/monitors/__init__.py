"""A certificate's policy in use: the monitor and what it watches, and comparing two policies.

Names are loaded on first use: a monitor itself needs numpy alone. (`compare` is a module here; the
function of this name is in it.)
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tightrope.monitors.answers import Answer
    from tightrope.monitors.compare import Comparison
    from tightrope.monitors.monitor import Monitor, Status
    from tightrope.monitors.watching import Watched, watch
    from tightrope.monitors.wrapper import MonitorWrapper

_HOMES = {
    "Answer": "answers",
    "Comparison": "compare",
    "Monitor": "monitor",
    "MonitorWrapper": "wrapper",
    "Status": "monitor",
    "Watched": "watching",
    "watch": "watching",
}
__all__ = ["Answer", "Comparison", "Monitor", "MonitorWrapper", "Status", "Watched", "watch"]


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        module = importlib.import_module(f"tightrope.monitors.{_HOMES[name]}")
        return getattr(module, name)
    raise AttributeError(f"module 'tightrope.monitors' has no attribute {name!r}")
