"""Records that are checked: frozen dataclasses validated by pydantic, mistakes told in one line."""

import functools
from collections.abc import Mapping, Sequence
from dataclasses import fields
from typing import Any, ClassVar, TypeVar, dataclass_transform

import numpy as np
from pydantic import ConfigDict, ValidationError
from pydantic.dataclasses import dataclass as _validated

from tightrope.errors import InputError

__all__ = ["STRICT", "Strict", "checked", "named", "one_problem", "plain"]

T = TypeVar("T")

STRICT = ConfigDict(extra="forbid", strict=True, allow_inf_nan=False)


class Strict:
    """Base of every dataclass in a record: no other keys, no conversion, no NaN or infinity."""

    __pydantic_config__: ClassVar[ConfigDict] = STRICT


@dataclass_transform(frozen_default=True)
def checked(cls: type[T]) -> type[T]:
    """Make a class a frozen dataclass whose constructor raises InputError in one line."""
    made: Any = _validated(cls, frozen=True, config=STRICT)
    build = made.__init__

    @functools.wraps(build)
    def __init__(self: Any, *args: Any, **values: Any) -> None:  # noqa: N807
        try:
            build(self, *map(_plain, args), **plain(values))
        except ValidationError as error:
            raise InputError(one_problem(error)) from None

    made.__init__ = __init__
    return made  # type: ignore[no-any-return]


def named(cls: type[T], values: Mapping[str, Any]) -> T:
    """A record of options by name, as JSON or TOML have them.

    Raises:
        InputError: a name is not an option, or a value is outside its set.
    """
    known = [entry.name for entry in fields(cls)]  # type: ignore[arg-type]
    for name in values:
        if name not in known:
            raise InputError(f"expected options among {', '.join(known)}, found {name!r}")
    return cls(**values)


def one_problem(error: ValidationError, argument: str | None = None) -> str:
    """The first mistake of a record, or of an argument: what was expected, what was found."""
    problems = error.errors(include_url=False)
    first = problems[0]
    if first["type"] == "value_error":  # a check of the record's own, in its own words
        return str(first["ctx"]["error"])
    name = argument or (str(first["loc"][0]) if first["loc"] else "the record")
    if first["type"] in ("unexpected_keyword_argument", "unexpected_property"):
        return f"expected no `{name}`, found one: check its spelling"
    place = first["loc"][:1]
    same = [each for each in problems if argument or each["loc"][:1] == place]
    wanted = " or ".join(dict.fromkeys(_wanted(problem) for problem in same))
    index = "".join(f"[{part}]" for part in first["loc"][1:] if isinstance(part, int))
    found = repr(first["input"])[:80]
    if first["type"] in ("missing", "missing_argument"):
        return f"expected `{name}`{index}, found none"
    return f"`{name}`{index} must be {wanted}, found {found}"


def _wanted(problem: Mapping[str, Any]) -> str:
    """What one branch of a type would have taken."""
    if problem["type"] == "too_long":
        return f"{problem['ctx']['max_length']} values"
    words: str = problem["msg"]
    for before, after in (
        (", unable to parse string as an integer", ""),
        (", unable to parse string as a number", ""),
        ("Input should be a valid integer", "a whole number"),
        ("Input should be a valid number", "a number"),
        ("Input should be a finite number", "a finite number"),
        ("Input should be a valid tuple", "a list"),
        ("Input should be a valid string", "a text"),
        ("Input should be a valid boolean", "true or false"),
        ("Input should be greater than or equal to", "at least"),
        ("Input should be less than or equal to", "at most"),
        ("Input should be greater than", "above"),
        ("Input should be less than", "below"),
        ("Input should be ", ""),
    ):
        words = words.replace(before, after)
    return words


def plain(values: Mapping[str, Any]) -> dict[str, Any]:
    """Values as JSON or TOML would have them: numpy's numbers as Python's, lists as tuples."""
    return {name: _plain(value) for name, value in values.items()}


def _plain(value: Any) -> Any:
    if isinstance(value, np.generic | np.ndarray):
        return _plain(value.tolist())
    if isinstance(value, Sequence) and not isinstance(value, str):
        return tuple(_plain(each) for each in value)
    return value
