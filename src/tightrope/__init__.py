"""tightrope: tight, honest risk certificates for reinforcement-learning policies.

>>> import tightrope as tr
>>> # episodes = tr.collect(policy, "Hopper-v4", episodes=110, seed=0)
>>> # certificate = tr.certify(episodes, scheme="rec-6", unit="step")
>>> # print(certificate)
"""

import importlib
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tightrope.certificates import (
        Certificate,
        CertifyCallback,
        Conditions,
        Rollout,
        certify,
        check,
        load_certificate,
    )
    from tightrope.certificates.verify import verify
    from tightrope.monitors import Comparison, Monitor, MonitorWrapper
    from tightrope.monitors.compare import compare
    from tightrope.rollouts import Episodes, collect, load_episodes

__all__ = [
    "Certificate",
    "CertifyCallback",
    "Comparison",
    "Conditions",
    "Episodes",
    "Monitor",
    "MonitorWrapper",
    "Rollout",
    "__version__",
    "certify",
    "check",
    "collect",
    "compare",
    "load_certificate",
    "load_episodes",
    "verify",
]

__version__ = version("tightrope")

# Loaded on first use, so that `import tightrope` and the command start at once.
_HOMES = {
    "Certificate": "tightrope.certificates",
    "CertifyCallback": "tightrope.certificates",
    "Conditions": "tightrope.certificates",
    "Rollout": "tightrope.certificates",
    "certify": "tightrope.certificates",
    "check": "tightrope.certificates",
    "load_certificate": "tightrope.certificates",
    "verify": "tightrope.certificates.verify",
    "Comparison": "tightrope.monitors",
    "compare": "tightrope.monitors.compare",
    "Monitor": "tightrope.monitors",
    "MonitorWrapper": "tightrope.monitors",
    "Episodes": "tightrope.rollouts",
    "collect": "tightrope.rollouts",
    "load_episodes": "tightrope.rollouts",
}


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(importlib.import_module(_HOMES[name]), name)
    raise AttributeError(f"module 'tightrope' has no attribute {name!r}")
