"""Pickles read as data: the opcodes are followed, and nothing is imported or called.

What a pickle would construct becomes a `Call`, a record of the name, the arguments and the state.
NumPy's own constructors are recognised among these records and turned into arrays of numbers.
"""

import math
import pickletools
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["Call", "Global", "array", "read_pickle"]

_LARGEST = 10_000_000  # bytes; statistics of a vector take a few thousand
_LONGEST = 100_000  # opcodes; a VecNormalize takes a few hundred
_NUMPY: tuple[str, ...] = ("numpy", "numpy.core.multiarray", "numpy._core.multiarray")
_NUMPY += ("numpy.core.numeric", "numpy._core.numeric")
_PLAIN = (str, bytes, int, float, bool, type(None))
_MARK = object()


@dataclass(frozen=True)
class Global:
    """A name that unpickling would import."""

    module: str
    name: str


@dataclass(eq=False, repr=False)
class Call:
    """What unpickling would make by calling `function`, with the state it would be given."""

    function: Any
    arguments: Any
    state: Any = field(default=None)


def read_pickle(content: bytes) -> Any:
    """The value that a pickle describes, with a `Call` for every object.

    Raises:
        ValueError: it is damaged, too long, or uses opcodes that no file of SB3 has.
    """
    if len(content) > _LARGEST:
        raise ValueError(f"a pickle of {len(content):,} bytes, at most {_LARGEST:,} are read")
    stack: list[Any] = []
    memo: dict[int, Any] = {}
    try:
        for count, (opcode, argument, _) in enumerate(pickletools.genops(content)):
            if count > _LONGEST:
                raise ValueError(f"a pickle of more than {_LONGEST:,} operations")
            if opcode.name == "STOP":
                return stack[-1]
            _step(opcode, argument, stack, memo)
    except (IndexError, KeyError, TypeError, AttributeError, OverflowError) as error:
        raise ValueError(f"no whole pickle ({type(error).__name__})") from None
    raise ValueError("no whole pickle (it does not end)")


def _step(opcode: Any, argument: Any, stack: list[Any], memo: dict[int, Any]) -> None:
    name = opcode.name
    if name in ("PROTO", "FRAME"):
        return
    if name == "MARK":
        stack.append(_MARK)
    elif name == "DUP":
        stack.append(stack[-1])
    elif name == "POP":
        stack.pop()
    elif name == "POP_MARK":
        _pop_mark(stack)
    elif name in ("PUT", "BINPUT", "LONG_BINPUT"):
        memo[argument] = stack[-1]
    elif name == "MEMOIZE":
        memo[len(memo)] = stack[-1]
    elif name in ("GET", "BINGET", "LONG_BINGET"):
        stack.append(memo[argument])
    elif name in _BUILD:
        stack.append(_BUILD[name](stack))
    elif name in _CHANGE:
        _CHANGE[name](stack)
    elif name == "GLOBAL":
        stack.append(Global(*argument.split(" ", 1)))
    elif name == "INST":
        stack.append(Call(Global(*argument.split(" ", 1)), tuple(_pop_mark(stack))))
    elif argument is not None and not name.startswith(("EXT", "PERSID")):  # a number or text
        stack.append(argument)
    else:
        raise ValueError(f"expected a pickle of plain objects, found the operation {name}")


def _pop_mark(stack: list[Any]) -> list[Any]:
    items: list[Any] = []
    while (item := stack.pop()) is not _MARK:
        items.append(item)
    return items[::-1]


def _tuple(count: int) -> Any:
    return lambda stack: tuple([stack.pop() for _ in range(count)][::-1])


def _call(with_keywords: bool = False) -> Any:
    def build(stack: list[Any]) -> Any:
        if with_keywords:
            stack.pop()
        arguments, function = stack.pop(), stack.pop()
        is_dictionary = _is(function, ("collections",), "OrderedDict") and not arguments
        return {} if is_dictionary else Call(function, arguments)

    return build


def _dictionary(items: list[Any]) -> dict[Any, Any]:
    """Pairs with plain keys: hashing others could take for ever."""
    pairs = zip(items[::2], items[1::2], strict=True)
    return {key: value for key, value in pairs if isinstance(key, _PLAIN)}


def _object(stack: list[Any]) -> Call:
    function, *arguments = _pop_mark(stack)
    return Call(function, tuple(arguments))


def _global(stack: list[Any]) -> Global:
    name, module = stack.pop(), stack.pop()
    if not (isinstance(name, str) and isinstance(module, str)):
        raise TypeError
    return Global(module, name)


_BUILD: dict[str, Any] = {
    "NONE": lambda stack: None,
    "NEWTRUE": lambda stack: True,
    "NEWFALSE": lambda stack: False,
    "EMPTY_TUPLE": _tuple(0),
    "TUPLE1": _tuple(1),
    "TUPLE2": _tuple(2),
    "TUPLE3": _tuple(3),
    "TUPLE": lambda stack: tuple(_pop_mark(stack)),
    "EMPTY_LIST": lambda stack: [],
    "LIST": _pop_mark,
    "EMPTY_DICT": lambda stack: {},
    "DICT": lambda stack: _dictionary(_pop_mark(stack)),
    "EMPTY_SET": lambda stack: [],
    "FROZENSET": _pop_mark,
    "STACK_GLOBAL": _global,
    "REDUCE": _call(),
    "NEWOBJ": _call(),
    "NEWOBJ_EX": _call(with_keywords=True),
    "OBJ": _object,
}


def _append(items: list[Any], stack: list[Any]) -> None:
    if isinstance(stack[-1], list):  # an object of the pickle's own keeps nothing
        stack[-1].extend(items)


def _set(items: list[Any], stack: list[Any]) -> None:
    if isinstance(stack[-1], dict):
        stack[-1].update(_dictionary(items))


def _state(stack: list[Any]) -> None:
    state = stack.pop()
    if isinstance(stack[-1], Call):
        stack[-1].state = state


_CHANGE: dict[str, Any] = {
    "APPEND": lambda stack: _append([stack.pop()], stack),
    "APPENDS": lambda stack: _append(_pop_mark(stack), stack),
    "ADDITEMS": lambda stack: _append(_pop_mark(stack), stack),
    "SETITEM": lambda stack: _set([stack.pop(), stack.pop()][::-1], stack),
    "SETITEMS": lambda stack: _set(_pop_mark(stack), stack),
    "BUILD": _state,
}


def _is(function: Any, modules: tuple[str, ...], name: str) -> bool:
    return isinstance(function, Global) and function.module in modules and function.name == name


def array(value: Any) -> NDArray[Any]:
    """The numbers of a pickled array, NumPy scalar or Python number.

    Raises:
        ValueError: it is no array of numbers, or not as long as it says.
    """
    try:
        if isinstance(value, int | float) and not isinstance(value, bool):
            return np.array(float(value))
        if _is(value.function, _NUMPY, "_reconstruct"):  # its state has the numbers
            _, shape, dtype, by_column, content = value.state
        elif _is(value.function, _NUMPY, "_frombuffer"):
            content, dtype, shape, order = value.arguments
            by_column = order == "F"
        elif _is(value.function, _NUMPY, "scalar"):
            (dtype, content), shape, by_column = value.arguments, (), False
        else:
            raise ValueError("another object is in its place")
        numbers = np.frombuffer(_bytes(content), _dtype(dtype))
        whole = len(shape) < 10 and all(type(size) is int and size >= 0 for size in shape)
        if not whole or math.prod(shape) != len(numbers):
            raise ValueError(f"expected {len(numbers)} numbers, found the shape {shape}")
        return numbers.reshape(shape, order="F" if by_column else "C")
    except (AttributeError, TypeError, ValueError, OverflowError) as error:
        raise ValueError(f"expected an array of numbers: {str(error)[:100]}") from None


def _dtype(value: Any) -> np.dtype[Any]:
    """Floats and integers only, in either order of bytes."""
    kind = value.arguments[0] if _is(value.function, _NUMPY, "dtype") else None
    if not isinstance(kind, str) or kind.lstrip("<>|=") not in ("f4", "f8", "i4", "i8", "u1"):
        raise ValueError(f"expected a dtype of numbers, found {str(kind)[:20]}")
    order = value.state[1] if isinstance(value.state, tuple) else "="
    return np.dtype(kind).newbyteorder("<" if order == "<" else ">" if order == ">" else "=")


def _bytes(value: Any) -> Any:
    """Bytes as each protocol has them."""
    if isinstance(value, Call):  # before protocol 3, text in Latin 1; none if there are none
        text = value.arguments[0] if value.arguments else ""
        return text.encode("latin-1") if isinstance(text, str) else text
    return value
