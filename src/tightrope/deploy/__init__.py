"""What one does with a certificate: check, plan, monitor, replay, certify while training.

Names are loaded on first use: a monitor needs numpy alone. (`check`, `replay` and `watch` are
modules here; the functions of these names are in them.)
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
