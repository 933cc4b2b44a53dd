"""How often certificates and comparisons fail, measured against the truth; docs/audit.md."""
