"""Flags of a command: its own arguments, and the fields of the records that it takes."""

import dataclasses
import functools
import inspect
import re
import types
from collections.abc import Callable, Iterator, Sequence
from dataclasses import MISSING, dataclass
from pathlib import Path
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

import docstring_parser
from cyclopts import Parameter

from tightrope.errors import InputError

__all__ = ["Flag", "command"]


@dataclass(frozen=True)
class Flag:
    """One argument of a command."""

    name: str
    """The library's name of it."""
    hint: Any
    default: Any
    """MISSING if there is none."""
    help: str
    common: bool
    """Whether `--help` shows it."""
    positional: bool = False

    @property
    def metavar(self) -> str | None:
        """What a value looks like, if the annotation says so; such a flag takes one at a time."""
        notes = get_args(self.hint)[1:] if get_origin(self.hint) is Annotated else ()
        return next((note for note in notes if isinstance(note, str)), None)

    @property
    def required(self) -> bool:
        """Whether the command cannot do without it."""
        return self.default is MISSING

    @property
    def flag(self) -> str:
        """As it is typed, without its value."""
        return self.name.upper() if self.positional else f"--{self.name.replace('_', '-')}"

    @property
    def label(self) -> str:
        """As it is typed, with what its value looks like."""
        if self.default is True:
            return f"--no-{self.name.replace('_', '-')}"
        value = "" if self.positional else _values(self)
        return f"{self.flag} {value}".rstrip()

    @property
    def shown_default(self) -> str:
        """The default as it would be typed; empty if there is nothing to say."""
        if self.required or isinstance(self.default, bool) or self.default in ("", ()):
            return ""
        several = isinstance(self.default, tuple)
        return " ".join(map(str, self.default)) if several else str(self.default)

    def parameter(self) -> inspect.Parameter:
        """As cyclopts reads it: we convert values, in one place and with one kind of message."""
        several = [part for part in _parts(self.hint) if get_origin(part) is tuple]
        kind = inspect.Parameter
        given: dict[str, Any] = {"required": self.required, "negative": ()}
        hint: Any = Any
        if self.hint is bool:
            hint = bool
            given["negative"] = (f"--no-{self.name.replace('_', '-')}",) if self.default else ()
        else:
            given["converter"] = functools.partial(_convert, self)
        if several:
            items = get_args(several[0])
            if items[-1] is Ellipsis:
                hint = tuple[Any, ...]
                given["consume_multiple"] = (1, None) if self.metavar is None else None
            else:
                given["n_tokens"] = len(items)
        return kind(
            self.name,
            kind.POSITIONAL_ONLY if self.positional else kind.KEYWORD_ONLY,
            default=kind.empty if self.required else self.default,
            annotation=Annotated[hint, Parameter(**given)],
        )


def command(common: str = "") -> Callable[[Callable[..., int]], Callable[..., int]]:
    """Make a function a command: fields of the records that it takes become flags.

    The help of a flag is what the function's docstring says of the argument, or the record's of
    the field; the record is built from what was typed, and checks it.

    Args:
        common: names that `--help` shows, in this order; `--help-all` shows the others, too.
    """

    def decorate(function: Callable[..., int]) -> Callable[..., int]:
        flags: list[Flag] = []
        records: dict[str, Any] = {}
        said = _described(docstring_parser.parse(function.__doc__ or ""))
        shown = common.split()
        for given in inspect.signature(function, eval_str=True).parameters.values():
            if dataclasses.is_dataclass(given.annotation):
                records[given.name] = given.annotation
                flags += _fields(given.annotation, shown)
                continue
            default = MISSING if given.default is given.empty else given.default
            positional = given.kind is given.POSITIONAL_ONLY
            listed = not shown or given.name in shown
            about = said.get(given.name, "")
            flags.append(
                Flag(given.name, given.annotation, default, about, listed or positional, positional)
            )
        flags.sort(key=lambda flag: not flag.positional)

        @functools.wraps(function)
        def run(*words: Any, **values: Any) -> int:
            for name, record in records.items():
                own = [entry.name for entry in dataclasses.fields(record) if entry.name in values]
                values[name] = record(**{field: values.pop(field) for field in own})
            return function(*words, **values)

        run.flags = sorted(flags, key=lambda flag: _place(flag, shown))  # type: ignore[attr-defined]
        run.__annotations__ = {}
        run.__signature__ = inspect.Signature([flag.parameter() for flag in flags])  # type: ignore[attr-defined]
        return run

    return decorate


def _place(flag: Flag, shown: Sequence[str]) -> int:
    if flag.positional:
        return -1
    return shown.index(flag.name) if flag.name in shown else len(shown)


def _fields(record: Any, shown: Sequence[str]) -> Iterator[Flag]:
    hints = get_type_hints(record, include_extras=True)
    said: dict[str, str] = {}
    for each in reversed(record.__mro__):  # fields that are inherited are described there
        if dataclasses.is_dataclass(each):
            said |= _described(docstring_parser.parse_from_object(each))
    for entry in dataclasses.fields(record):
        yield Flag(
            entry.name,
            hints[entry.name],
            entry.default,
            said[entry.name],
            not shown or entry.name in shown,
        )


def _described(parsed: docstring_parser.Docstring) -> dict[str, str]:
    return {
        each.arg_name: " ".join(each.description.split())
        for each in parsed.params
        if each.description
    }


def _parts(hint: Any) -> tuple[Any, ...]:
    """The kinds of value that an option takes."""
    if get_origin(hint) is Annotated:
        return _parts(get_args(hint)[0])
    if get_origin(hint) in (Union, types.UnionType):
        return tuple(part for each in get_args(hint) for part in _parts(each))
    return (hint,)


def _values(flag: Flag) -> str:
    """What a value looks like; a word that is the default need not be typed."""
    if flag.metavar is not None:
        return flag.metavar
    kinds = {int: "N", float: "NUMBER", Path: "PATH", str: flag.name.upper(), bool: ""}
    found: list[str] = []
    for part in _parts(flag.hint):
        if get_origin(part) is Literal:
            words = [str(word) for word in get_args(part)]
            alone = len(_parts(flag.hint)) == 1
            found += [word for word in words if alone or word != flag.default]
        elif get_origin(part) is tuple:
            items = [kinds.get(_parts(item)[0], "") for item in get_args(part) if item is not ...]
            found.append(f"{items[0]} ..." if ... in get_args(part) else " ".join(items))
        else:
            found.append(kinds[part])
    return "|".join(found)


def _convert(flag: Flag, hint: Any, tokens: Sequence[Any]) -> Any:
    """The value of a flag from its words; 1e3 is a whole number, too."""
    from pydantic import TypeAdapter, ValidationError

    from tightrope.records import one_problem

    parts = _parts(flag.hint)
    words: Any = [token.value for token in tokens]
    if not any(part in (str, Path) for part in parts):
        words = [_whole(word) for word in words]
    several = any(get_origin(part) is tuple for part in parts)
    try:
        return TypeAdapter(flag.hint).validate_python(tuple(words) if several else words[0])
    except ValidationError as error:
        raise InputError(one_problem(error, flag.name)) from None


def _whole(word: str) -> str:
    if re.fullmatch(r"\d+(\.\d+)?[eE]\+?\d+", word):
        number = float(word)
        if number.is_integer() and number < 2**53:
            return str(int(number))
    return word
