"""Pickles and YAML read as data: nothing that a file names is imported or called."""

import base64
import io
import itertools
import math
import pickle
import pickletools
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tightrope.imports import needed

__all__ = ["Inert", "array", "pickled", "read_pickle", "read_yaml"]

# --- pickles --------------------------------------------------------------------------------------

_LARGEST = 10_000_000  # bytes; statistics of a vector take a few thousand
_LONGEST = 100_000  # opcodes; a VecNormalize takes a few hundred
_PLAIN = (str, bytes, int, float, bool, type(None))
_NUMPY = {
    *("numpy", "numpy.core.multiarray", "numpy._core.multiarray"),
    *("numpy.core.numeric", "numpy._core.numeric"),
}
_Python: Any = pickle._Unpickler  # unlike C's, it allocates no memo of the size that a file states


@dataclass(eq=False, repr=False)
class Inert:
    """A name that unpickling would import, or the object that a call of it would make.

    Attributes:
        module: where the name is.
        name: of a class or function.
        arguments: of the call; None for the name itself.
        state: that the object would be given.
    """

    module: str
    name: str
    arguments: Any = None
    state: Any = None

    def __call__(self, *arguments: Any) -> Any:
        """What stands for the result of a call."""
        if (self.module, self.name, arguments) == ("collections", "OrderedDict", ()):
            return _Dictionary()
        return Inert(self.module, self.name, arguments)

    def __setstate__(self, state: Any) -> None:
        self.state = state

    def ignore(self, *items: Any) -> None:
        """Keep nothing: the items of objects do not matter."""

    append = extend = add = __setitem__ = ignore


class _Dictionary(dict[Any, Any]):
    """Pairs with plain keys: hashing others could take for ever."""

    __slots__ = ()

    def __setitem__(self, key: Any, value: Any) -> None:
        if isinstance(key, _PLAIN):
            super().__setitem__(key, value)

    def __setstate__(self, state: Any) -> None:
        """Keep nothing of an OrderedDict but its items."""


class _Unpickler(_Python):  # type: ignore[misc]
    """Python's own, with an `Inert` for every name."""

    def find_class(self, module: str, name: str) -> Any:
        return Inert(module, name)

    def load_newobj_ex(self) -> None:
        self.stack.pop()  # keywords
        self.load_reduce()

    def load_dict(self) -> None:
        items, found = self.pop_mark(), _Dictionary()
        for key, value in zip(items[::2], items[1::2], strict=True):
            found[key] = value
        self.append(found)

    def load_frozenset(self) -> None:
        items = self.pop_mark()
        self.append(Inert("builtins", "frozenset", items))

    dispatch = _Python.dispatch | {
        pickle.NEWOBJ[0]: _Python.load_reduce,
        pickle.NEWOBJ_EX[0]: load_newobj_ex,
        pickle.DICT[0]: load_dict,
        pickle.EMPTY_DICT[0]: lambda self: self.append(_Dictionary()),
        pickle.EMPTY_SET[0]: lambda self: self.append(Inert("builtins", "set")),
        pickle.FROZENSET[0]: load_frozenset,
    }


def read_pickle(content: bytes) -> Any:
    """The value that a pickle describes, with an `Inert` for every object.

    Raises:
        ValueError: it is damaged, too long, or uses opcodes that no file of SB3 has.
    """
    if len(content) > _LARGEST:
        raise ValueError(f"a pickle of {len(content):,} bytes, at most {_LARGEST:,} are read")
    operations = itertools.islice(pickletools.genops(content), _LONGEST + 1)
    try:
        if sum(1 for _ in operations) > _LONGEST:
            raise ValueError(f"it has more than {_LONGEST:,} operations")
        return _Unpickler(io.BytesIO(content), encoding="latin-1").load()
    except Exception as error:  # a damaged pickle can fail in any operation
        raise ValueError(f"no whole pickle of plain objects ({type(error).__name__})") from None


def pickled(value: Any) -> Any:
    """The value that SB3's JSON holds as a pickle; None if it cannot be read as data."""
    try:
        return read_pickle(base64.b64decode(value[":serialized:"]))
    except (TypeError, KeyError, ValueError):
        return None


def array(value: Any) -> NDArray[Any]:
    """The numbers of a pickled array, NumPy scalar or Python number.

    Raises:
        ValueError: it is no array of numbers, or not as long as it says.
    """
    try:
        if isinstance(value, int | float) and not isinstance(value, bool):
            return np.array(float(value))
        by_column: Any = False
        match _numpy(value):
            case "_reconstruct":
                _, shape, dtype, by_column, content = value.state
            case "_frombuffer":
                content, dtype, shape, order = value.arguments
                by_column = order == "F"
            case "scalar":
                (dtype, content), shape = value.arguments, ()
            case _:
                raise ValueError("another object is in its place")
        if isinstance(content, Inert):  # before protocol 3, text in Latin 1; none if there is none
            content = "".join(content.arguments[:1]).encode("latin-1")
        numbers = np.frombuffer(content, _dtype(dtype))
        whole = len(shape) < 10 and all(type(size) is int and size >= 0 for size in shape)
        if not whole or math.prod(shape) != len(numbers):
            raise ValueError(f"expected {len(numbers)} numbers, found the shape {shape}")
        return numbers.reshape(shape, order="F" if by_column else "C")
    except (AttributeError, TypeError, ValueError, LookupError, OverflowError) as error:
        raise ValueError(f"expected an array of numbers: {str(error)[:100]}") from None


def _numpy(value: Any) -> str | None:
    """Which of NumPy's own makes an object."""
    return value.name if isinstance(value, Inert) and value.module in _NUMPY else None


def _dtype(value: Any) -> np.dtype[Any]:
    """Floats and integers only, in either order of bytes."""
    kind = str(value.arguments[0])[:20] if _numpy(value) == "dtype" else "another object"
    if kind.lstrip("<>|=") not in ("f4", "f8", "i4", "i8", "u1"):
        raise ValueError(f"expected a dtype of numbers, found {kind}")
    order = value.state[1] if isinstance(value.state, tuple) else "="
    return np.dtype(f"{order if order in ('<', '>') else '='}{kind.lstrip('<>|=')}")


# --- YAML -----------------------------------------------------------------------------------------

_LONGEST_TEXT = 20_000  # characters
_MOST = 10_000  # values, those that aliases repeat counted each time
_DEEPEST = 50
_HIGHEST = 2**63  # Python cannot write out whole numbers of any length


def read_yaml(text: str) -> Any:
    """The value that a document describes.

    An OrderedDict becomes a dictionary, a tuple a list, any other object its first argument.

    Raises:
        ValueError: it is damaged, too long or too deep, or its aliases repeat too much.
    """
    if len(text) > _LONGEST_TEXT:
        raise ValueError(f"a document of {len(text):,} characters, more than {_LONGEST_TEXT:,}")
    yaml = needed("yaml", "a run folder of rl-baselines3-zoo")

    class Loader(yaml.SafeLoader):  # type: ignore[misc, name-defined]
        """PyYAML's, which imports nothing and calls nothing."""

        def flatten_mapping(self, node: Any) -> None:
            """Leave merge keys as they are: merges of merges would double without end."""

    Loader.add_multi_constructor("", _constructed)
    try:
        value = yaml.load(text, Loader)
    except (yaml.YAMLError, RecursionError, LookupError, TypeError, AttributeError) as error:
        raise ValueError(f"no whole YAML document ({type(error).__name__})") from None
    _count(value, 0, _DEEPEST)
    return value


def _constructed(loader: Any, tag: str, node: Any) -> Any:
    """The value of a node whose tag is not YAML's own."""
    kind = type(node).__name__
    if kind == "ScalarNode":
        return loader.construct_scalar(node)
    if kind == "MappingNode":
        value = loader.construct_mapping(node, deep=True)
        arguments = value.get("args") or [None]
        return arguments[0] if "args" in value and isinstance(arguments, list) else value
    items = loader.construct_sequence(node, deep=True)
    if not tag.endswith("OrderedDict"):
        return items
    # Aliases could make the text of another key as long as they like.
    return {key: value for key, value in (items[0] if items else []) if isinstance(key, str)}


def _count(value: Any, before: int, deeper: int) -> int:
    """How many values there are, `before` included."""
    if before > _MOST or not deeper:
        raise ValueError(f"a YAML document of more than {_MOST:,} values, or too deep")
    if isinstance(value, int) and abs(value) > _HIGHEST:
        raise ValueError("a whole number of too many digits")
    several = isinstance(value, list | tuple | set)
    inner = value.values() if isinstance(value, dict) else value if several else ()
    for each in inner:
        before = _count(each, before, deeper - 1)
    return before + 1
