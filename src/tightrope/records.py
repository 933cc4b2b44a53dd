"""Records that are checked: frozen dataclasses validated by pydantic, mistakes told in one line."""

import functools
import re
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, TypeVar, dataclass_transform

import numpy as np
from pydantic import ConfigDict, ValidationError
from pydantic.dataclasses import dataclass as _validated

from tightrope.errors import InputError

__all__ = ["STRICT", "Strict", "checked", "one_problem", "plain"]

T = TypeVar("T")

STRICT = ConfigDict(extra="forbid", strict=True, allow_inf_nan=False)


class Strict:
    """Base of every dataclass in a record: no other keys, no conversion, no NaN or infinity."""

    __pydantic_config__: ClassVar[ConfigDict] = STRICT


_WORDS = {
    "a valid integer": "a whole number",
    "a valid number": "a number",
    "a valid tuple": "a list",
    "a valid string": "a text",
    "a valid boolean": "true or false",
}
_LIMITS = {
    "greater than or equal to": "at least",
    "less than or equal to": "at most",
    "greater than": "above",
    "less than": "below",
}


@dataclass_transform(frozen_default=True)
def checked(cls: type[T]) -> type[T]:
    """Make a class a frozen dataclass whose constructor raises InputError in one line."""
    made: Any = _validated(cls, frozen=True, config=STRICT)
    build = made.__init__

    @functools.wraps(build)
    def __init__(self: Any, /, *args: Any, **values: Any) -> None:  # noqa: N807
        for name in values:
            if name not in made.__dataclass_fields__:
                known = ", ".join(made.__dataclass_fields__)
                raise InputError(f"expected options among {known}, found {name!r}")
        try:
            build(self, *map(_plain, args), **plain(values))
        except ValidationError as error:
            raise InputError(one_problem(error)) from None

    made.__init__ = __init__
    return made  # type: ignore[no-any-return]


def one_problem(error: ValidationError, argument: str | None = None) -> str:
    """The first mistake of a record, or of an argument: what was expected, what was found."""
    problems = error.errors(include_url=False)
    first = problems[0]
    kind, place = first["type"], first["loc"]
    if kind == "value_error":  # a check of the record's own, in its own words
        return str(first["ctx"]["error"])
    name = argument or (str(place[0]) if place else "the record")
    name = f"`{name}`" + "".join(f"[{part}]" for part in place[1:] if isinstance(part, int))
    if kind == "unexpected_property":
        return f"expected no {name}, found one: check its spelling"
    if kind in ("missing", "missing_argument"):
        return f"expected {name}, found none"
    same = [each for each in problems if argument or each["loc"][:1] == place[:1]]
    wanted = " or ".join(dict.fromkeys(_wanted(problem) for problem in same))
    return f"{name} must be {wanted}, found {repr(first['input'])[:80]}"


def _wanted(problem: Mapping[str, Any]) -> str:
    """What one branch of a type would have taken."""
    if problem["type"] == "too_long":
        return f"{problem['ctx']['max_length']} values"
    words = problem["msg"].removeprefix("Input should be ").partition(", unable to parse")[0]
    return _WORDS.get(words) or re.sub("|".join(_LIMITS), lambda m: _LIMITS[m[0]], words)


def plain(values: Mapping[str, Any]) -> dict[str, Any]:
    """Values as JSON or TOML would have them: numpy's numbers as Python's, lists as tuples."""
    return {name: _plain(value) for name, value in values.items()}


def _plain(value: Any) -> Any:
    if isinstance(value, np.generic | np.ndarray):
        return _plain(value.tolist())
    if isinstance(value, Sequence) and not isinstance(value, str):
        return tuple(_plain(each) for each in value)
    return value
