"""Step iv: schemes, bounds, statements, the certificate, and its verification.

Names are loaded on first use: the options of the command should not cost the import of torch.
(`certify` and `verify` are modules here; the functions of these names are in them.)
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
