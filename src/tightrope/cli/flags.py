"""Flags of a command: its own arguments, and the fields of the records that it takes."""

import dataclasses
import functools
import inspect
import re
import types
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal, Union, get_args, get_origin

import docstring_parser
from cyclopts import Parameter

from tightrope.errors import InputError

__all__ = ["Flag", "command"]

_VALUES = {int: "N", float: "NUMBER", Path: "PATH", bool: ""}


@dataclass(frozen=True)
class Flag:
    """An argument of a command, as help shows it."""

    typed: str
    """Such as --fail-below, or SOURCE of a positional one."""
    value: str
    """What its value looks like."""
    default: str
    """As it would be typed; empty if there is nothing to say."""
    help: str
    required: bool
    common: bool
    """Whether `--help` shows it."""

    @property
    def positional(self) -> bool:
        """Whether its place tells it from others."""
        return not self.typed.startswith("--")

    @property
    def label(self) -> str:
        """It and its value, as they are typed."""
        return f"{self.typed} {self.value}".rstrip()


def command(common: str = "") -> Callable[[Callable[..., int]], Callable[..., int]]:
    """Make a function a command: fields of the records that it takes become flags.

    The help of a flag is what the function's docstring says of the argument, or the record's of
    the field; the record is built from what was typed, and checks it.

    Args:
        common: names that `--help` shows, in this order; `--help-all` shows the others, too.
    """
    shown = {name: place for place, name in enumerate(common.split())}

    def decorate(function: Callable[..., int]) -> Callable[..., int]:
        parameters: list[inspect.Parameter] = []
        records: dict[str, Any] = {}
        about = _descriptions(function)
        for given in inspect.signature(function, eval_str=True).parameters.values():
            if dataclasses.is_dataclass(given.annotation):
                record: Any = given.annotation
                records[given.name] = record
                own = inspect.signature(record).parameters.values()
                parameters += [each.replace(kind=given.KEYWORD_ONLY) for each in own]
                for documented in reversed(record.__mro__[:-1]):
                    about |= _descriptions(documented)
            else:
                parameters.append(given)
        parameters.sort(key=lambda each: (each.kind, shown.get(each.name, len(shown))))

        @functools.wraps(function)
        def run(*words: Any, **values: Any) -> int:
            for name, record in records.items():
                own = [entry.name for entry in dataclasses.fields(record) if entry.name in values]
                values[name] = record(**{field: values.pop(field) for field in own})
            return function(*words, **values)

        run.flags = {  # type: ignore[attr-defined]
            each.name: _flag(each, about.get(each.name, ""), not shown or each.name in shown)
            for each in parameters
        }
        run.__annotations__ = {}
        run.__signature__ = inspect.Signature(  # type: ignore[attr-defined]
            [each.replace(annotation=_annotation(each)) for each in parameters]
        )
        return run

    return decorate


def _descriptions(documented: Any) -> dict[str, str]:
    """What the docstrings of a function or a record say of each argument or field."""
    parsed = docstring_parser.parse_from_object(documented)
    return {each.arg_name: " ".join(str(each.description).split()) for each in parsed.params}


def _flag(given: inspect.Parameter, about: str, common: bool) -> Flag:
    typed = f"--{given.name.replace('_', '-')}"
    if positional := given.kind is given.POSITIONAL_ONLY:
        typed = given.name.upper()
    elif given.default is True:
        typed = f"--no-{typed[2:]}"
    required = given.default is given.empty
    quiet = required or isinstance(given.default, bool)
    several = given.default if isinstance(given.default, tuple) else (given.default,)
    default = "" if quiet else " ".join(map(str, several))
    value = "" if positional else _value(given.annotation, given)
    return Flag(typed, value, default, about, required, common or positional)


def _value(hint: Any, given: inspect.Parameter) -> str:
    """What a value looks like; a word that is the default need not be typed."""
    kind, inner = get_origin(hint), get_args(hint)
    if kind is Annotated:
        return next(iter(_notes(hint)), _value(inner[0], given))
    if kind is Literal:
        return "|".join(map(str, inner))
    if kind is tuple:
        return " ".join("..." if item is ... else _value(item, given) for item in inner)
    if kind in (Union, types.UnionType):
        parts = [part for part in inner if get_args(part) != (given.default,)]
        return "|".join(_value(part, given) for part in parts)
    return _VALUES.get(hint, given.name.upper())


def _notes(hint: Any) -> list[str]:
    """What an annotation says that a value looks like."""
    return [note for note in getattr(hint, "__metadata__", ()) if isinstance(note, str)]


def _parts(hint: Any) -> list[Any]:
    """The kinds of value that an option takes."""
    if get_origin(hint) is Annotated:
        return _parts(get_args(hint)[0])
    if get_origin(hint) in (Union, types.UnionType):
        return [part for each in get_args(hint) for part in _parts(each)]
    return [hint]


def _annotation(given: inspect.Parameter) -> Any:
    """As cyclopts reads it: how many words there are to a value, and what makes it of them."""
    hint: Any = given.annotation
    if hint is bool:
        return Annotated[bool, Parameter(negative=None if given.default else ())]
    kind: Any = Any
    options: dict[str, Any] = {}
    lists = [part for part in _parts(hint) if get_origin(part) is tuple]
    if lists and ... in get_args(lists[0]):
        kind = tuple[Any, ...]
        options["consume_multiple"] = not _notes(hint)  # with a note: one at a time
    elif lists:
        options["n_tokens"] = len(get_args(lists[0]))
    convert = functools.partial(_convert, given.name, hint, bool(lists))
    return Annotated[kind, Parameter(converter=convert, negative=(), **options)]


def _convert(name: str, hint: Any, several: bool, _: Any, tokens: Sequence[Any]) -> Any:
    """The value of a flag from its words; 1e3 is a whole number, too."""
    from pydantic import TypeAdapter, ValidationError

    from tightrope.records import one_problem

    words = [token.value for token in tokens]
    if not {str, Path} & {*_parts(hint)}:
        words = [_whole(word) for word in words]
    try:
        return TypeAdapter(hint).validate_python(tuple(words) if several else words[0])
    except ValidationError as error:
        raise InputError(one_problem(error, name)) from None


def _whole(word: str) -> str:
    number = float(word) if re.fullmatch(r"\d+(\.\d+)?[eE]\+?\d+", word) else 0.5
    return str(int(number)) if number.is_integer() and number < 2**53 else word
