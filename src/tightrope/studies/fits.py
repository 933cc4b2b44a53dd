"""Fits that the certificates of one policy share, known by the content of their arguments."""

import dataclasses
from collections.abc import Callable
from functools import partial
from hashlib import blake2b
from typing import Any

import numpy as np

from tightrope.certificates.fitting import FittedPredictor, fit_predictor
from tightrope.posteriors import fit_posterior, regress

__all__ = ["FitCache", "content_digest", "shared_fits"]


class FitCache:
    """Results of pure functions; callables among the options, such as progress, do not count."""

    def __init__(self) -> None:
        self._known: dict[bytes, Any] = {}

    def __call__(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """The same function, which computes nothing twice."""

        def remembered(*arguments: Any, **options: Any) -> Any:
            named = [(name, options[name]) for name in sorted(options)]
            content = [(name, value) for name, value in named if not callable(value)]
            key = content_digest((function.__qualname__, arguments, content))
            if key not in self._known:
                self._known[key] = function(*arguments, **options)
            return self._known[key]

        return remembered


def shared_fits() -> Callable[..., FittedPredictor]:
    """What `issue` fits with, for several certificates of one policy."""
    cache = FitCache()
    return partial(fit_predictor, regress=cache(regress), fit_posterior=cache(fit_posterior))


def content_digest(value: Any) -> bytes:
    """Digest of a number, text or array, or of a dataclass, list or tuple of them."""
    if isinstance(value, np.ndarray):
        parts = [f"{value.dtype}{value.shape}".encode(), value.tobytes()]
    elif dataclasses.is_dataclass(value):
        names = [field.name for field in dataclasses.fields(value)]
        parts = [content_digest((name, getattr(value, name))) for name in names]
    elif isinstance(value, list | tuple):
        parts = [content_digest(each) for each in value]
    elif value is None or isinstance(value, bool | int | float | str):
        parts = [repr(value).encode()]
    else:
        raise TypeError(f"expected a number, text, array, dataclass or list, found {value!r}")
    return blake2b(b"".join([type(value).__qualname__.encode(), *parts])).digest()
