"""Step iv: schemes, bounds, statements, the certificate, and its verification.

Names are loaded on first use: the options of the command should not cost the import of torch.
(`certify` and `verify` are modules here; the functions of these names are in them.)
"""

from typing import TYPE_CHECKING

from tightrope.imports import on_first_use

if TYPE_CHECKING:
    from tightrope.certificates.certificate import Certificate
    from tightrope.certificates.document import as_text, schema, to_document
    from tightrope.certificates.evidence import Evidence
    from tightrope.certificates.folder import load_certificate, write
    from tightrope.certificates.ledger import Ledger
    from tightrope.certificates.options import Options
    from tightrope.certificates.properties import Property
    from tightrope.certificates.settings import Settings, settle
    from tightrope.certificates.statements.base import Family, Statement

_HOMES = {
    "Certificate": "certificate",
    "Evidence": "evidence",
    "Family": "statements.base",
    "Ledger": "ledger",
    "Options": "options",
    "Property": "properties",
    "Settings": "settings",
    "Statement": "statements.base",
    "as_text": "document",
    "load_certificate": "folder",
    "schema": "document",
    "settle": "settings",
    "to_document": "document",
    "write": "folder",
}
__all__ = [
    "Certificate",
    "Evidence",
    "Family",
    "Ledger",
    "Options",
    "Property",
    "Settings",
    "Statement",
    "as_text",
    "load_certificate",
    "schema",
    "settle",
    "to_document",
    "write",
]

__getattr__ = on_first_use(__name__, _HOMES)
