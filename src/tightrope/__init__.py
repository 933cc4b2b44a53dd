"""tightrope: tight, honest risk certificates for reinforcement-learning policies.

>>> import tightrope as tr
>>> # episodes = tr.collect(policy, "Hopper-v4", episodes=110, seed=0)
>>> # certificate = tr.certify(episodes, scheme="rec-6", unit="step")
>>> # print(certificate)
"""

from importlib.metadata import version
from typing import TYPE_CHECKING

from tightrope.imports import on_first_use

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
    from tightrope.comparison import Comparison
    from tightrope.comparison.compare import compare
    from tightrope.monitors import Monitor, MonitorWrapper
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
    "Certificate": "certificates",
    "CertifyCallback": "certificates",
    "Conditions": "certificates",
    "Rollout": "certificates",
    "certify": "certificates",
    "check": "certificates",
    "load_certificate": "certificates",
    "verify": "certificates.verify",
    "Comparison": "comparison",
    "compare": "comparison.compare",
    "Monitor": "monitors",
    "MonitorWrapper": "monitors",
    "Episodes": "rollouts",
    "collect": "rollouts",
    "load_episodes": "rollouts",
}

__getattr__ = on_first_use(__name__, _HOMES)
