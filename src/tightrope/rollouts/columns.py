"""Which column of a table is what: the one rule for files, folders, frames and arrays."""

import math
from collections.abc import Collection, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Any

from tightrope.errors import InputError

__all__ = [
    "ENDS",
    "ROLES",
    "SEVERAL",
    "Chosen",
    "Columns",
    "all_names",
    "as_number",
    "choose",
    "listed",
    "matching",
    "parse",
]

Columns = str | Mapping[str, str | Sequence[str] | None] | None
Chosen = dict[str, tuple[str, ...]]  # columns by role; none where a table has no such column

# Names that are taken where the user gives none, the first that is there. Actions are not needed
# for a certificate: they are taken along where they are asked for.
_USUAL: dict[str, tuple[str, ...]] = {
    "obs": ("all that start with obs",),
    "reward": ("reward", "rewards", "next.reward"),
    "episode": ("episode", "episode_index"),
    "step": ("step", "frame", "frame_index"),
    "terminated": ("terminated", "terminals", "next.terminated"),
    "truncated": ("truncated", "timeouts", "next.truncated"),
    "done": ("done", "next.done"),
    "success": ("success", "is_success", "next.success"),
    "action": (),
    "next_obs": (),
}
ROLES = tuple(_USUAL)
SEVERAL = ("obs", "action", "next_obs")
ENDS = ("terminated", "truncated", "done")
_NEEDED = ("obs", "reward", "episode")


def parse(given: Columns, roles: Sequence[str] = ROLES) -> Chosen:
    """The names that a user gives for each role.

    A text is ``obs=joint_*,torque,reward=r,step=``: names after a comma without a role of their own
    belong to the role before them, and nothing after ``=`` means that there is no such column. A
    mapping has a name, several, or None for each role.

    >>> parse("obs=joint_*,torque,reward=r,step=")
    {'obs': ('joint_*', 'torque'), 'reward': ('r',), 'step': ()}

    Raises:
        InputError: it has another form, or names an unknown role.
    """
    found: dict[Any, tuple[Any, ...]] = {}
    if isinstance(given, Mapping):
        for role, names in given.items():
            several = names if isinstance(names, list | tuple) else (names,)
            found[role] = () if names is None else tuple(several)
    elif isinstance(given, str | None):
        role = None
        for entry in given.split(",") if given else ():
            first, equals, rest = (part.strip() for part in entry.partition("="))
            role, name = (first, rest) if equals else (role, first)
            if role is None or not (name or equals):
                raise InputError(
                    "expected `columns` as ROLE=NAME,... such as obs=joint_*,reward=r,episode=run, "
                    f"found {given!r}"
                )
            found[role] = (*found.get(role, ()), *filter(None, [name]))
    else:
        raise InputError(f"expected `columns` as a text or a dictionary, found {given!r}"[:200])
    for role, names in found.items():
        if role not in roles:
            known = ", ".join(roles)
            raise InputError(f"expected roles among {known} in `columns`, found {role!r}")
        if not all(isinstance(name, str) and name for name in names):
            raise InputError(f"expected names of columns for {role} in `columns`, found {names}")
    return found


def choose(
    names: Sequence[str],
    given: Columns,
    *,
    images: Collection[str] = (),
    optional: Collection[str] = (),
) -> tuple[Chosen, tuple[str, ...]]:
    """The columns for each role among the names of a table, and the images that are left out.

    Args:
        names: of the columns, in their order, images included.
        given: by the user; roles that are not in it go by their usual names.
        images: those of `names` that hold images or videos.
        optional: ``episode`` if an episode ends where a column says so; ``done`` if it ends with
            its last row although no column says so.

    Raises:
        InputError: there is no such column, several, or one that is an image.
    """
    if len(set(names)) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise InputError(f"expected one column of each name, found {twice} twice")
    asked = parse(given)
    own_ends = any(role in asked for role in ENDS)
    if own_ends:  # who says how episodes end says all of it
        optional = (*optional, "done") if asked.get("done") == () else optional
        asked = {**dict.fromkeys(ENDS, ()), **asked}
    single = {
        role: matching(role, asked[role], names)
        if role in asked
        else tuple(name for name in usual if name in names)[:1]
        for role, usual in _USUAL.items()
        if role not in SEVERAL
    }
    taken = {name for found in single.values() for name in found}
    several = {r: matching(r, asked.get(r, ()), names, taken) for r in SEVERAL}
    left_out: tuple[str, ...] = ()
    if "obs" not in asked:
        usual = tuple(name for name in names if name.startswith("obs") and name not in taken)
        left_out = tuple(name for name in usual if name in images)
        several["obs"] = tuple(name for name in usual if name not in images) or left_out
    chosen = {role: (single | several)[role] for role in ROLES}
    for role, found in chosen.items():
        needed = role in _NEEDED and role not in optional
        if (needed and not found) or (len(found) > 1 and role in single):
            kind = "one column" if role in single else "columns"
            serves = role == "reward" and "next.success" in names
            also = ", or reward=next.success if success is all that counts" if serves else ""
            raise InputError(
                f"expected {kind} for {role} ({' or '.join(_USUAL[role])}), found "
                f"{listed(found or names)}: name it with `columns` {role}=NAME{also}"
            )
        if shown := [name for name in found if name in images]:
            raise InputError(
                f"expected numbers for {role}, found images ({listed(shown)}): name columns of "
                f"numbers with `columns` {role}=NAME, such as the robot's state or features"
            )
    if chosen["terminated"] and chosen["truncated"]:
        chosen["done"] = ()  # it says nothing more
    elif not (chosen["done"] or "done" in optional or any(chosen[r] for r in ENDS if own_ends)):
        raise InputError(
            "expected columns for the end of an episode (terminated and truncated, or done), found "
            f"{listed(names)}: name them with `columns` terminated=NAME,truncated=NAME or "
            "done=NAME; with done= each episode is truncated after its last row"
        )
    return chosen, left_out


def matching(
    role: str, patterns: Sequence[str], names: Sequence[str], taken: Collection[str] = ()
) -> tuple[str, ...]:
    """Columns by name or, in the order of the table, by pattern; each once.

    A pattern passes over columns that are `taken` for another role; a name says what is meant.

    Raises:
        InputError: there is no such column.
    """
    found: dict[str, None] = {}
    for pattern in patterns:
        matched = [name for name in names if fnmatchcase(name, pattern) and name not in taken]
        matched = [pattern] if pattern in names else matched
        if not matched:
            raise InputError(f"expected a column {pattern} for {role}, found {listed(names)}")
        found |= dict.fromkeys(matched)
    return tuple(found)


def all_names(chosen: Chosen) -> list[str]:
    """Every column that has a role, once."""
    return list(dict.fromkeys(name for names in chosen.values() for name in names))


def listed(names: Sequence[str]) -> str:
    """The first of some names, in a message."""
    return ", ".join(names[:20])[:300] + (", ..." if len(names) > 20 else "")


def as_number(cell: Any) -> float:
    """A cell of a table as a number; NaN where it is none."""
    try:
        return math.nan if isinstance(cell, bool) else float(cell)
    except (TypeError, ValueError, OverflowError):
        return math.nan
