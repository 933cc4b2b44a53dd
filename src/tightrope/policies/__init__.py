"""Any policy as `act(observations) -> actions`: SB3 zips, torch, ONNX, Python objects.

Names are loaded on first use: a command that reads a record should not import them all.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
