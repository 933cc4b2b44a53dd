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
    from tightrope.certificates import Certificate, Property, load_certificate
    from tightrope.certificates.certify import certify
    from tightrope.certificates.verify import verify
    from tightrope.comparison import Comparison
    from tightrope.comparison.compare import compare
    from tightrope.deploy import CertifyCallback, Conditions, Monitor, MonitorWrapper
    from tightrope.deploy.check import check
    from tightrope.rollouts import Episodes, Rollout, collect, load_episodes

__all__ = [
    "Certificate",
    "CertifyCallback",
    "Comparison",
    "Conditions",
    "Episodes",
    "Monitor",
    "MonitorWrapper",
    "Property",
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
    "Property": "certificates",
    "load_certificate": "certificates",
    "certify": "certificates.certify",
    "verify": "certificates.verify",
    "Comparison": "comparison",
    "compare": "comparison.compare",
    "CertifyCallback": "deploy",
    "Conditions": "deploy",
    "Monitor": "deploy",
    "MonitorWrapper": "deploy",
    "check": "deploy.check",
    "Episodes": "rollouts",
    "Rollout": "rollouts",
    "collect": "rollouts",
    "load_episodes": "rollouts",
}

__getattr__ = on_first_use(__name__, _HOMES)
