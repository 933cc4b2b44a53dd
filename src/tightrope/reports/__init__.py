"""Self-contained HTML pages, one file each: a certificate, a study, and an index of many.

Names are loaded on first use, so that importing one page's module does not cost the others'.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
