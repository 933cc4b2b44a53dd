"""Engines: what runs jobs, on this machine or on a cluster."""

from tightrope.studies.engines.base import Engine, Outcome
from tightrope.studies.engines.local import LocalEngine

__all__ = ["Engine", "LocalEngine", "Outcome"]
