"""What one does with a certificate: check, plan, monitor, replay, certify while training.

Names are loaded on first use: a monitor needs numpy alone. (`check`, `replay` and `watch` are
modules here; the functions of these names are in them.)
"""

from typing import TYPE_CHECKING

from tightrope.imports import on_first_use

if TYPE_CHECKING:
    from tightrope.deploy.callback import CertifyCallback
    from tightrope.deploy.check import CheckReport, Condition, Conditions
    from tightrope.deploy.monitor import Monitor, Status
    from tightrope.deploy.plan import episodes_for, forecast
    from tightrope.deploy.watch import MonitoredEpisode
    from tightrope.deploy.wrapper import MonitorWrapper

_HOMES = {
    "CertifyCallback": "callback",
    "CheckReport": "check",
    "Condition": "check",
    "Conditions": "check",
    "Monitor": "monitor",
    "MonitorWrapper": "wrapper",
    "MonitoredEpisode": "watch",
    "Status": "monitor",
    "episodes_for": "plan",
    "forecast": "plan",
}
__all__ = [
    "CertifyCallback",
    "CheckReport",
    "Condition",
    "Conditions",
    "Monitor",
    "MonitorWrapper",
    "MonitoredEpisode",
    "Status",
    "episodes_for",
    "forecast",
]

__getattr__ = on_first_use(__name__, _HOMES)
