"""Step iv: schemes, bounds, statements, the certificate, and its verification.

Names are loaded on first use: the options of the command should not cost the import of torch.
(`verify` and `request` are modules here; the functions of these names are in them.)
"""

from typing import TYPE_CHECKING

from tightrope.imports import on_first_use

if TYPE_CHECKING:
    from tightrope.certificates.callback import CertifyCallback
    from tightrope.certificates.certificate import Certificate
    from tightrope.certificates.document import as_text, schema, to_document
    from tightrope.certificates.folder import load_certificate, write
    from tightrope.certificates.gate import Conditions, check
    from tightrope.certificates.issue import certify_many
    from tightrope.certificates.ledger import Ledger
    from tightrope.certificates.options import Options
    from tightrope.certificates.request import Request, Rollout, certify
    from tightrope.certificates.statements import Statement

_HOMES = {
    "Certificate": "certificate",
    "CertifyCallback": "callback",
    "Conditions": "gate",
    "Ledger": "ledger",
    "Options": "options",
    "Request": "request",
    "Rollout": "request",
    "Statement": "statements",
    "as_text": "document",
    "certify": "request",
    "certify_many": "issue",
    "check": "gate",
    "load_certificate": "folder",
    "schema": "document",
    "to_document": "document",
    "write": "folder",
}
__all__ = [
    "Certificate",
    "CertifyCallback",
    "Conditions",
    "Ledger",
    "Options",
    "Request",
    "Rollout",
    "Statement",
    "as_text",
    "certify",
    "certify_many",
    "check",
    "load_certificate",
    "schema",
    "to_document",
    "write",
]

__getattr__ = on_first_use(__name__, _HOMES)
