"""Step iii: regression, Gaussian networks fitted to a bound, and predicting returns.

What fits with torch is loaded on first use: predicting needs numpy only.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
