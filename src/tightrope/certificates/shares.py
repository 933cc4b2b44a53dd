"""How recorded episodes are shared out: pilot, validation, test, in recorded order."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from tightrope.errors import InputError

if TYPE_CHECKING:
    from tightrope.rollouts import Episodes

__all__ = ["PILOT_EPISODES", "Shares", "share_out"]

PILOT_EPISODES = 10


@dataclass(frozen=True)
class Shares:
    """Episodes by what they may be used for.

    Attributes:
        pilot: fixes the return range and the observation scaling; never part of a bound.
        validation: fits the predictor and enters the bound.
        test: only ever compared with.
        all_episodes: these three, in recorded order.
    """

    pilot: "Episodes | None"
    validation: "Episodes"
    test: "Episodes | None"
    all_episodes: "Episodes"


def share_out(
    episodes: "Episodes",
    *,
    pilot: int = PILOT_EPISODES,
    validation: int | None = None,
    test: int = 0,
) -> Shares:
    """Share recorded episodes out in recorded order: pilot, validation, test.

    Args:
        episodes: the recording.
        pilot: how many come first; may be 0.
        validation: how many come next; by default all that `test` leaves.
        test: how many come last; may be 0.

    Raises:
        InputError: there are not enough episodes, or a number is negative.
    """
    least = {"pilot": 0, "validation": 1, "test": 0}
    for name, value in (("pilot", pilot), ("validation", validation), ("test", test)):
        if value is not None and (value < least[name] or value != int(value)):
            raise InputError(
                f"{name} episodes must be a whole number of at least {least[name]}, found {value!r}"
            )
    left = len(episodes) - pilot - test
    wanted = max(left, 1) if validation is None else validation
    if wanted > left:
        raise InputError(
            f"expected at least {pilot + wanted + test} episodes ({pilot} pilot + {wanted} "
            f"validation + {test} test), found {len(episodes)}: record more, or lower `episodes`, "
            "`test_episodes` or `pilot_episodes`"
        )
    middle = pilot + wanted
    return Shares(
        pilot=episodes.span(0, pilot) if pilot else None,
        validation=episodes.span(pilot, middle),
        test=episodes.span(middle, middle + test) if test else None,
        all_episodes=episodes.span(0, middle + test),
    )
