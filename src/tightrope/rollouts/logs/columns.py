"""Which column of a table is what: the one rule for files, folders and frames."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase

from tightrope.errors import InputError

__all__ = ["ROLES", "Chosen", "Given", "choose", "parse"]

Given = str | Mapping[str, str | Sequence[str] | None] | None

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
_WORDS = {"obs": "the observation", "reward": "the reward", "episode": "the episode"}


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
        named = [*self.obs, *self.action, *(name for name in single if name is not None)]
        return tuple(dict.fromkeys(named))

    def to_json(self) -> dict[str, str | list[str]]:
        """By role, as the option is written."""
        found: dict[str, str | list[str]] = {}
        for role in ROLES:
            value = getattr(self, role)
            if value:
                found[role] = list(value) if role in _SEVERAL else value
        return found


def parse(given: Given) -> dict[str, tuple[str, ...]]:
    """The names that a user gives for each role.

    A text is ``obs=joint_*,torque,reward=r,step=``: names after a comma without a role of their own
    belong to the role before them, and nothing after ``=`` means that there is no such column. A
    mapping has a name, several, or None for each role.

    >>> parse("obs=joint_*,torque,reward=r,step=")
    {'obs': ('joint_*', 'torque'), 'reward': ('r',), 'step': ()}

    Raises:
        InputError: it has another form, or names an unknown role.
    """
    if given is None or given == "":
        return {}
    if isinstance(given, str):
        return _from_text(given)
    if not isinstance(given, Mapping):
        raise InputError(
            f"expected `columns` as ROLE=NAME,... or a dictionary, found {type(given).__name__}"
        )
    found = {}
    for role, names in given.items():
        _require_role(role)
        listed = (names,) if isinstance(names, str) else tuple(names or ())
        if not all(isinstance(name, str) and name for name in listed):
            raise InputError(f"expected names of columns for {role} in `columns`, found {names!r}")
        found[role] = listed
    return found


def _from_text(given: str) -> dict[str, tuple[str, ...]]:
    found: dict[str, list[str]] = {}
    role = None
    for entry in given.split(","):
        first, equals, rest = (part.strip() for part in entry.partition("="))
        if equals:
            role, name = first, rest
            _require_role(role)
            found.setdefault(role, [])
            if not name:
                continue
        else:
            name = first
        if role is None or not name:
            raise InputError(
                "expected `columns` as ROLE=NAME,... such as obs=joint_*,reward=r,episode=run, "
                f"found {given!r}"
            )
        found[role].append(name)
    return {role: tuple(names) for role, names in found.items()}


def _require_role(role: object) -> None:
    if role not in ROLES:
        raise InputError(f"expected roles among {', '.join(ROLES)} in `columns`, found {role!r}")


def choose(
    names: Sequence[str],
    given: Given,
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
    single = {
        role: _single(role, names, asked, where)
        for role in ROLES
        if role not in (*_SEVERAL, *_ENDS)
    }
    single |= _ends(names, asked, where, ends_with_rows or asked.get("done") == ())
    taken = {name for name in single.values() if name is not None}
    for name in taken & set(images):
        raise InputError(f"expected numbers in the column {name}, found images in {where}")
    obs, left_out = _observed(names, asked.get("obs"), taken, images, where)
    action = _matching("action", asked.get("action", ()), names, taken, where)
    _refuse_images("action", action, images, where)
    reward, episode = single.pop("reward"), single.pop("episode")
    assert reward is not None  # _single asks
    assert episode is not None
    return Chosen(
        obs=obs, reward=reward, episode=episode, action=action, left_out=left_out, **single
    )


def _single(
    role: str, names: Sequence[str], asked: Mapping[str, tuple[str, ...]], where: str
) -> str | None:
    needed = role in _WORDS
    if role not in asked:
        usual = _USUAL[role]
        found = next((name for name in usual if name in names), None)
        if found is None and needed:
            hint = ", or reward=next.success if success is all that counts"
            hint = hint if role == "reward" and "next.success" in names else ""
            raise InputError(
                f"expected a column for {_WORDS[role]} in {where} ({_either(usual)}), found "
                f"{_listed(names)}: name it with `columns` {role}=NAME{hint}"
            )
        return found
    found_all = _matching(role, asked[role], names, (), where)
    if len(found_all) > 1 or (needed and not found_all):
        raise InputError(
            f"expected one column for {role} in `columns`, found {_listed(found_all)} in {where}"
        )
    return found_all[0] if found_all else None


def _ends(
    names: Sequence[str], asked: Mapping[str, tuple[str, ...]], where: str, optional: bool
) -> dict[str, str | None]:
    """Columns that say how an episode ends: both, or one with `done`, or what the user gives."""
    if any(role in asked for role in _ENDS):
        found = {role: _single(role, names, {role: asked.get(role, ())}, where) for role in _ENDS}
        if None not in found.values():
            raise InputError(
                "expected at most two of terminated, truncated and done in `columns`, found all"
            )
        if any(found.values()) or optional:
            return found
    else:
        found = {role: _single(role, names, asked, where) for role in _ENDS}
        if found["terminated"] and found["truncated"]:
            return {**found, "done": None}
        if found["done"] or optional:
            return found
    raise InputError(
        f"expected columns for the end of an episode in {where} (terminated and truncated, or "
        f"terminals and timeouts, or done), found {_listed(names)}: name them with `columns` "
        "terminated=NAME,truncated=NAME or done=NAME; with done= each episode is truncated after "
        "its last row"
    )


def _observed(
    names: Sequence[str],
    asked: tuple[str, ...] | None,
    taken: Collection[str],
    images: Collection[str],
    where: str,
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The observation, and the images that were passed over because nobody named any column."""
    if asked is not None:
        found = _matching("obs", asked, names, taken, where)
        _refuse_images("obs", found, images, where)
        if not found:
            raise InputError("expected names of columns for obs in `columns`, found none")
        return found, ()
    usual = [name for name in names if name.startswith("obs") and name not in taken]
    found = tuple(name for name in usual if name not in images)
    left_out = tuple(name for name in usual if name in images)
    if not found and left_out:
        _refuse_images("obs", left_out, images, where)
    if not found:
        raise InputError(
            f"expected columns for the observation in {where} (names that start with obs, such as "
            f"obs_0), found {_listed(names)}: name them with `columns` obs=NAME,NAME or obs=joint_*"
        )
    return found, left_out


def _matching(
    role: str,
    patterns: Sequence[str],
    names: Sequence[str],
    taken: Collection[str],
    where: str,
) -> tuple[str, ...]:
    """Columns by name or, in the order of the table, by pattern; each once.

    A pattern passes over columns that have another role; a name says what is meant.
    """
    found: dict[str, None] = {}
    for pattern in patterns:
        if pattern in names:
            found[pattern] = None
            continue
        matched = [name for name in names if fnmatchcase(name, pattern) and name not in taken]
        if not matched:
            raise InputError(
                f"expected a column {pattern} for {role} in {where}, found {_listed(names)}"
            )
        found |= dict.fromkeys(matched)
    return tuple(found)


def _refuse_images(role: str, found: Sequence[str], images: Collection[str], where: str) -> None:
    shown = [name for name in found if name in images]
    if shown:
        raise InputError(
            f"expected numbers for {role}, found images ({_listed(shown)}) in {where}: name "
            f"numeric columns with `columns` {role}=NAME, such as the robot's state or features "
            "computed from the images"
        )


def _either(names: Sequence[str]) -> str:
    *most, last = names
    return f"{', '.join(most)} or {last}" if most else last


def _listed(names: Sequence[str]) -> str:
    return (", ".join(names[:20]) or "no columns") + (", ..." if len(names) > 20 else "")
