"""Self-contained HTML pages, one file each: a certificate, a study, and an index of many.

Names are loaded on first use, so that importing one page's module does not cost the others'.
"""

from typing import TYPE_CHECKING

from tightrope.imports import on_first_use

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

__getattr__ = on_first_use(__name__, _HOMES)
