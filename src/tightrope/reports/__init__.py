"""One self-contained HTML page per certificate: no network, no scripts."""

from tightrope.reports.page import certificate_page, write_page

__all__ = ["certificate_page", "write_page"]
