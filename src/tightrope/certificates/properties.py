"""Properties of one's own: a number per episode, of which new episodes are certified."""

import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, Literal

import numpy as np

from tightrope.errors import InputError, one_line
from tightrope.records import checked
from tightrope.rollouts import Episode, Episodes

__all__ = ["Property", "measure_properties", "properties_of"]


@checked
class Property:
    """A number per episode and the side on which it is certified.

    Attributes:
        function: from an episode to a number; None if the numbers are recorded already.
        direction: ``at-most`` certifies an upper limit, ``at-least`` a lower one.
        limit: what an episode should keep to; its failure probability is certified, too.
        name: given by :func:`properties_of`.
    """

    function: Callable[[Episode], float] | None = None
    direction: Literal["at-most", "at-least"] = "at-most"
    limit: float | None = None
    name: str = ""

    @property
    def at_most(self) -> bool:
        """Whether small numbers are good."""
        return self.direction == "at-most"


def properties_of(given: Mapping[str, Any] | None) -> tuple[Property, ...]:
    """Properties by name: a function, or a :class:`Property`.

    Raises:
        InputError: a name is empty or not printable, or a value is neither.
    """
    found = []
    for name, value in (given or {}).items():
        if not isinstance(name, str) or not name.strip() or not name.isprintable():
            raise InputError(f"expected a printable name of a property, found {name!r}")
        if not isinstance(value, Property):
            if not callable(value):
                raise InputError(
                    f"expected a function of an episode as property {name!r}, found {value!r}"
                )
            value = Property(value)
        found.append(replace(value, name=name))
    return tuple(found)


def measure_properties(episodes: Episodes, properties: tuple[Property, ...]) -> Episodes:
    """The episodes with every property of each; recorded ones stay where no function is given.

    Every function is called in recorded order and again in reverse: a number that depends on what
    was called before is not one of the episode.

    Raises:
        InputError: a function raises, or gives NaN or two different numbers; the episode is named.
    """
    if not properties:
        return episodes
    measured = dict(episodes.properties)
    for one in properties:
        if one.function is None:
            if one.name not in measured:
                raise InputError(
                    f"expected a function for property {one.name!r}, found none; recorded are "
                    f"{', '.join(measured) or 'none'}"
                )
            continue
        forward = [_number(one, episodes, index) for index in range(len(episodes))]
        for index in reversed(range(len(episodes))):
            again = _number(one, episodes, index)
            if again != forward[index]:
                raise InputError(
                    f"expected property {one.name!r} to be a number of the episode alone, found "
                    f"{forward[index]!r} and then {again!r} for {_place(episodes, index)}: it "
                    "depends on what was called before"
                )
        measured[one.name] = np.array(forward, dtype=np.float64)
    return replace(episodes, properties=measured)


def _number(one: Property, episodes: Episodes, index: int) -> float:
    assert one.function is not None
    place = f"property {one.name!r} of {_place(episodes, index)}"
    try:
        value = np.asarray(one.function(episodes[index]))
        number = float(value) if value.ndim == 0 and value.dtype.kind in "biuf" else math.nan
    except Exception as error:  # whatever the user's own code raises
        raise InputError(f"{place} failed: {type(error).__name__}: {one_line(error)}") from error
    if not math.isfinite(number):
        raise InputError(f"expected a finite number as {place}, found {value.tolist()!r}")
    return number


def _place(episodes: Episodes, index: int) -> str:
    seed = int(episodes.seeds[index])
    return f"episode {index}" + (f" (seed {seed})" if seed >= 0 else "")
