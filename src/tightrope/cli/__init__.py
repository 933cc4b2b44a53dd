"""The command: a module per verb, thin, no logic of its own; only the named verb is imported."""

from tightrope.cli.app import main

__all__ = ["main"]
