"""tightrope: tight, honest risk certificates for reinforcement-learning policies."""

from importlib.metadata import version

__all__ = ["__version__"]

__version__ = version("tightrope")
