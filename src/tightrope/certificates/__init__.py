"""Step iv: schemes, bounds from posteriors, the certificate, and its verification."""

from tightrope.certificates.certificate import (
    Certificate,
    as_text,
    load_certificate,
    read,
    schema,
    write,
)
from tightrope.certificates.issue import certify, certify_many
from tightrope.certificates.ledger import (
    DELTA,
    DELTA_PRIME,
    Entry,
    Ledger,
    holdout_ledger,
    recursive_ledger,
)
from tightrope.certificates.options import MC_PASSES, Options
from tightrope.certificates.schemes import Scheme, portion_sizes, scheme
from tightrope.certificates.verify import verify

__all__ = [
    "DELTA",
    "DELTA_PRIME",
    "MC_PASSES",
    "Certificate",
    "Entry",
    "Ledger",
    "Options",
    "Scheme",
    "as_text",
    "certify",
    "certify_many",
    "holdout_ledger",
    "load_certificate",
    "portion_sizes",
    "read",
    "recursive_ledger",
    "schema",
    "scheme",
    "verify",
    "write",
]
