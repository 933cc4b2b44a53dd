"""Which column of a table is what: the one rule for files, folders and frames."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase

from tightrope.errors import InputError

__all__ = ["ROLES", "Chosen", "Columns", "choose", "parse"]

Columns = str | Mapping[str, str | Sequence[str] | None] | None

# Names that are taken where the user gives none, the first that is there. Actions are not needed
# for a certificate: they are taken along where they are asked for.
_USUAL: dict[str, tuple[str, ...]] = {
    "obs": (),  # all that start with obs
    "reward": ("reward", "rewards", "next.reward"),
    "episode": ("episode", "episode_index"),
    "step": ("step", "frame", "frame_index"),
    "terminated": ("terminated", "terminals", "next.terminated"),
    "truncated": ("truncated", "timeouts", "next.truncated"),
    "done": ("done", "next.done"),
    "success": ("success", "is_success", "next.success"),
    "action": (),
}
ROLES = tuple(_USUAL)
_SEVERAL = ("obs", "action")
_ENDS = ("terminated", "truncated", "done")
_NEEDED = ("reward", "episode")


@dataclass(frozen=True)
class Chosen:
    """Columns by role; None or nothing where a table has no such column.

    Attributes:
        left_out: images that the usual rule for observations passed over.
    """

    obs: tuple[str, ...]
    reward: str
    episode: str
    step: str | None = None
    terminated: str | None = None
    truncated: str | None = None
    done: str | None = None
    success: str | None = None
    action: tuple[str, ...] = ()
    left_out: tuple[str, ...] = ()

    @property
    def names(self) -> tuple[str, ...]:
        """Every column that is read, once."""
        single = (getattr(self, role) for role in ROLES if role not in _SEVERAL)
        return tuple(dict.fromkeys([*self.obs, *self.action, *filter(None, single)]))

    def to_json(self) -> dict[str, str | list[str]]:
        """By role, as the option is written."""
        found = {role: getattr(self, role) for role in ROLES if getattr(self, role)}
        return {role: list(v) if role in _SEVERAL else v for role, v in found.items()}


def parse(given: Columns, roles: Sequence[str] = ROLES) -> dict[str, tuple[str, ...]]:
    """The names that a user gives for each role.

    A text is ``obs=joint_*,torque,reward=r,step=``: names after a comma without a role of their own
    belong to the role before them, and nothing after ``=`` means that there is no such column. A
    mapping has a name, several, or None for each role.

    >>> parse("obs=joint_*,torque,reward=r,step=")
    {'obs': ('joint_*', 'torque'), 'reward': ('r',), 'step': ()}

    Raises:
        InputError: it has another form, or names an unknown role.
    """
    found: dict[str, tuple[str, ...]] = {}
    if isinstance(given, Mapping):
        for role, names in given.items():
            _require_role(role, roles)
            found[role] = (names,) if isinstance(names, str) else tuple(names or ())
            if not all(isinstance(name, str) and name for name in found[role]):
                raise InputError(
                    f"expected names of columns for {role} in `columns`, found {names!r}"
                )
        return found
    if given is not None and not isinstance(given, str):
        raise InputError(
            f"expected `columns` as ROLE=NAME,... or a dictionary, found {type(given).__name__}"
        )
    current: str | None = None
    for entry in given.split(",") if given else ():
        first, equals, rest = (part.strip() for part in entry.partition("="))
        if equals:
            _require_role(first, roles)
            current = first
            found.setdefault(current, ())
        name = rest if equals else first
        if current is None or not (name or equals):
            raise InputError(
                "expected `columns` as ROLE=NAME,... such as obs=joint_*,reward=r,episode=run, "
                f"found {given!r}"
            )
        found[current] += (name,) if name else ()
    return found


def _require_role(role: object, roles: Sequence[str]) -> None:
    if role not in roles:
        raise InputError(f"expected roles among {', '.join(roles)} in `columns`, found {role!r}")


def choose(
    names: Sequence[str],
    given: Columns,
    *,
    where: str,
    images: Collection[str] = (),
    ends_with_rows: bool = False,
) -> Chosen:
    """The column for each role among the names of a table.

    Args:
        names: of the columns, in their order, images included.
        given: by the user; roles that are not in it go by their usual names.
        where: the table, for messages.
        images: those of `names` that hold images or videos.
        ends_with_rows: an episode ends with its last row although no column says so.

    Raises:
        InputError: there is no such column, several, or one that is an image.
    """
    if len(set(names)) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise InputError(f"expected one column of each name, found {twice} twice in {where}")
    asked = parse(given)
    if any(role in asked for role in _ENDS):  # who says how episodes end says all of it
        ends_with_rows = ends_with_rows or asked.get("done") == ()
        asked = {**dict.fromkeys(_ENDS, ()), **asked}
    single = {r: _single(r, names, asked.get(r), where) for r in ROLES if r not in _SEVERAL}
    _require_ends(single, asked, names, where, optional=ends_with_rows)
    taken = {name for name in single.values() if name is not None}
    for name in taken & set(images):
        raise InputError(f"expected numbers in the column {name}, found images in {where}")
    action = _matching("action", asked.get("action", ()), names, taken, where)
    left_out: tuple[str, ...] = ()
    if "obs" in asked:
        obs = _matching("obs", asked["obs"], names, taken, where)
        if not obs:
            raise InputError("expected names of columns for obs in `columns`, found none")
    else:
        obs = tuple(name for name in names if name.startswith("obs") and name not in taken)
        left_out = tuple(name for name in obs if name in images)
        obs = tuple(name for name in obs if name not in images) or obs
        left_out = () if obs == left_out else left_out  # only images: refused
    for role, found in (("obs", obs), ("action", action)):
        if shown := [name for name in found if name in images]:
            raise InputError(
                f"expected numbers for {role}, found images ({_listed(shown)}) in {where}: name "
                f"numeric columns with `columns` {role}=NAME, such as the robot's state or "
                "features computed from the images"
            )
    if not obs:
        raise InputError(
            f"expected columns for the observation in {where} (names that start with obs, such as "
            f"obs_0), found {_listed(names)}: name them with `columns` obs=NAME,NAME or obs=joint_*"
        )
    return Chosen(obs=obs, action=action, left_out=left_out, **single)  # type: ignore[arg-type]


def _single(
    role: str, names: Sequence[str], asked: tuple[str, ...] | None, where: str
) -> str | None:
    """The one column of a role: what is asked for, or the first usual name."""
    if asked is not None:
        found = _matching(role, asked, names, (), where)
        if len(found) > 1 or (role in _NEEDED and not found):
            raise InputError(
                f"expected one column for {role} in `columns`, found {_listed(found)} in {where}"
            )
        return found[0] if found else None
    usual = next((name for name in _USUAL[role] if name in names), None)
    if usual is None and role in _NEEDED:
        can_serve = role == "reward" and "next.success" in names
        hint = ", or reward=next.success if success is all that counts" if can_serve else ""
        raise InputError(
            f"expected a column for the {role} in {where} ({' or '.join(_USUAL[role])}), found "
            f"{_listed(names)}: name it with `columns` {role}=NAME{hint}"
        )
    return usual


def _require_ends(
    single: dict[str, str | None],
    asked: Mapping[str, tuple[str, ...]],
    names: Sequence[str],
    where: str,
    *,
    optional: bool,
) -> None:
    """Both ends, or one with `done`, or what the user gives; `done` goes if both others are there.

    Raises:
        InputError: no column says how an episode ends, or all three do.
    """
    if None not in (single["terminated"], single["truncated"]):
        if asked.get("done"):
            raise InputError(
                "expected at most two of terminated, truncated and done in `columns`, found all"
            )
        single["done"] = None
    elif not (
        single["done"] or optional or ("done" in asked and any(single[role] for role in _ENDS))
    ):
        raise InputError(
            f"expected columns for the end of an episode in {where} (terminated and truncated, or "
            f"terminals and timeouts, or done), found {_listed(names)}: name them with `columns` "
            "terminated=NAME,truncated=NAME or done=NAME; with done= each episode is truncated "
            "after its last row"
        )


def _matching(
    role: str, patterns: Sequence[str], names: Sequence[str], taken: Collection[str], where: str
) -> tuple[str, ...]:
    """Columns by name or, in the order of the table, by pattern; each once.

    A pattern passes over columns that have another role; a name says what is meant.
    """
    found: dict[str, None] = {}
    for pattern in patterns:
        if pattern in names:
            matched = [pattern]
        else:
            matched = [name for name in names if fnmatchcase(name, pattern) and name not in taken]
        if not matched:
            raise InputError(
                f"expected a column {pattern} for {role} in {where}, found {_listed(names)}"
            )
        found |= dict.fromkeys(matched)
    return tuple(found)


def _listed(names: Sequence[str]) -> str:
    return (", ".join(names[:20]) or "no columns") + (", ..." if len(names) > 20 else "")
