"""Step ii: episodes of a frozen policy, from roll-outs or logs, and their returns.

Names are loaded on first use: a command that reads counts should not import them all.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
