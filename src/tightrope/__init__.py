"""tightrope: tight, honest risk certificates for reinforcement-learning policies.

>>> import tightrope as tr
>>> # episodes = tr.collect(policy, "Hopper-v4", episodes=110, seed=0)
>>> # certificate = tr.certify(episodes, scheme="rec-6", unit="step")
>>> # print(certificate)
"""

from importlib.metadata import version

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)

__version__ = version("tightrope")
