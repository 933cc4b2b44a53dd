"""Step iv: certificates. So far: the ledger of failure probabilities."""

from tightrope.certificates.ledger import Entry, Ledger, recursive_ledger

__all__ = ["Entry", "Ledger", "recursive_ledger"]
