"""Which of two policies is better: roll-outs, recordings or certificates compared.

Names are loaded on first use. (`compare` is a module here; the function of this name is in it.)
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
