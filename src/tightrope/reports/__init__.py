"""Self-contained HTML pages, one file each: a certificate, a study, and an index of many.

Names are loaded on first use, so that importing one page's module does not cost the others'.
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tightrope.reports.index import write_index
    from tightrope.reports.page import certificate_page, write_page
    from tightrope.reports.study import study_page, write_study_page

_HOMES = {
    "certificate_page": "page",
    "study_page": "study",
    "write_index": "index",
    "write_page": "page",
    "write_study_page": "study",
}
__all__ = ["certificate_page", "study_page", "write_index", "write_page", "write_study_page"]


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(importlib.import_module(f"tightrope.reports.{_HOMES[name]}"), name)
    raise AttributeError(f"module 'tightrope.reports' has no attribute {name!r}")
