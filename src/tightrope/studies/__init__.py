"""Many certificates: a specification, its jobs, the engines that run them, and what comes of them.

Names are loaded on first use: a specification should be refused without the import of torch.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
