"""What a study asks: a TOML file, read strictly.

The tables of the file are the records below: their fields are the keys, and a key that is none of
them is an error.
"""

import dataclasses
import itertools
import math
import re
import tomllib
import types
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from tightrope.agents.hyperparameters import LEVELS, settings
from tightrope.certificates.options import Options, Unit
from tightrope.certificates.schemes import scheme
from tightrope.errors import InputError, one_line

__all__ = [
    "AXES",
    "Certification",
    "Policies",
    "Study",
    "Training",
    "load_study",
    "options_of",
    "study_from",
]

# Options of a certificate that are axes of a study, or that it decides itself.
AXES = ("scheme", "preset", "unit", "sampling", "episodes")
_OWN = ("test_episodes", "candidates", "seed", "device", "paper", "until", "max_episodes")
_FIXED = {"fit_episodes": True, "pilot_episodes": False}  # whether it is for a fixed predictor


@dataclass(frozen=True)
class Training:
    """``[[train]]``: an agent, trained in every environment once for each seed."""

    agent: Literal["redq", "sac", "ppo"]
    """What is trained."""
    environments: tuple[str, ...]
    """Ids."""
    instances: tuple[int, ...]
    """Training seeds: one policy instance each."""
    levels: tuple[int, int, int] | None = None
    """Steps at which starter, intermediate and expert are frozen; by default the paper's."""
    settings: dict[str, Any] = field(default_factory=dict)
    """Hyperparameters that differ from the agent's defaults."""

    def __post_init__(self) -> None:
        settings(self.agent, self.settings)
        for name in ("environments", "instances"):
            _require_distinct(name, getattr(self, name))
        if any(seed < 0 for seed in self.instances):
            raise InputError(f"expected `instances` of at least 0, found {min(self.instances)}")
        steps = self.steps
        if not 0 < steps[0] < steps[1] < steps[2]:
            raise InputError(f"expected three rising `levels` of steps, found {steps}")

    @property
    def steps(self) -> tuple[int, int, int]:
        """At which the levels are frozen."""
        if self.levels is not None:
            return self.levels
        return tuple(LEVELS[self.agent].values())  # type: ignore[return-value]


@dataclass(frozen=True)
class Policies:
    """``[[policies]]``: policies of one's own, instead of training."""

    folder: str
    """Beside the specification: a policy of any kind that certify takes in each file, or folders
    that train wrote; each is an instance of its name."""
    environment: str = ""
    """Id; by default the one that each policy was trained in, if train wrote it."""
    agent: str = "own"
    """What tables and figures call them."""
    level: str = "own"
    """The same, of their level."""


@dataclass(frozen=True)
class Certification:
    """``[[certify]]``: every combination of these, for each of the chosen policies."""

    schemes: tuple[str, ...]
    """As for certify."""
    repetitions: int = 5
    """Certificates of the same episodes with other random numbers."""
    presets: tuple[str, ...] = ("tight",)
    """paper, tight or both."""
    units: tuple[Unit, ...] = ("step",)
    """step, episode or both."""
    samplings: tuple[str, ...] = ("local",)
    """local, weights or both."""
    episodes: tuple[int, ...] = (100,)
    """Validation episodes, to fit and to calibrate: the first so many of what was rolled out."""
    agents: tuple[str, ...] = ()
    """Only policies of these; by default of all."""
    environments: tuple[str, ...] = ()
    """Only policies in these; by default in all."""
    levels: tuple[str, ...] = ()
    """Only policies of these levels; by default of all."""
    options: dict[str, Any] = field(default_factory=dict)
    """Other options of certify, such as mc_passes; `pilot_episodes` are for PAC-Bayes schemes, and
    `fit_episodes` for auto and holdout."""

    def __post_init__(self) -> None:
        for name in ("schemes", "presets", "units", "samplings", "episodes"):
            _require_distinct(name, getattr(self, name))
        if self.repetitions < 1:
            raise InputError(f"`repetitions` must be at least 1, found {self.repetitions}")
        for name in self.options:
            if name in (*AXES, *_OWN):
                where = f"`{name}s` beside it" if name in AXES else "nothing: a study decides it"
                raise InputError(f"expected {where}, found `{name}` among the options")
        self.requests()

    def requests(self) -> list[Options]:
        """The options of each combination, checked.

        Raises:
            InputError: a value is outside its set.
        """
        axes = itertools.product(
            self.presets, self.samplings, self.episodes, self.schemes, self.units
        )
        return [
            options_of(
                name,
                self.schemes,
                {
                    **self.options,
                    "preset": preset,
                    "unit": unit,
                    "sampling": sampling,
                    "episodes": count,
                },
            )
            for preset, sampling, count, name, unit in axes
        ]


def options_of(name: str, schemes: Sequence[str], values: Mapping[str, Any]) -> Options:
    """The options of one of several schemes, without those that only the other ones take.

    Raises:
        InputError: a value is outside its set, or an option is for none of the schemes.
    """
    kinds = {scheme(each).fixed for each in schemes}
    own = {
        key: value
        for key, value in values.items()
        if _FIXED.get(key, scheme(name).fixed) == scheme(name).fixed or len(kinds) == 1
    }
    return Options.of({**own, "scheme": name})


@dataclass(frozen=True)
class Study:
    """A study: which policies, and which certificates of each."""

    name: str
    """In titles; lower-case letters, digits and hyphens."""
    certify: tuple[Certification, ...]
    """``[[certify]]`` tables."""
    about: str = ""
    """A sentence for its pages."""
    seed: int = 0
    """Root of all randomness but that of trainings."""
    test_episodes: int = 100
    """Episodes of each policy that are only compared with."""
    train: tuple[Training, ...] = ()
    """``[[train]]`` tables."""
    policies: tuple[Policies, ...] = ()
    """``[[policies]]`` tables."""
    trained: str = ""
    """A folder beside the specification with trainings that were run before; what is there is not
    trained again."""

    def __post_init__(self) -> None:
        if not re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", self.name):
            raise InputError(
                f"expected a `name` of lower-case letters, digits and hyphens, found {self.name!r}"
            )
        if self.seed < 0 or self.test_episodes < 1:
            raise InputError(
                "expected a `seed` of at least 0 and at least 1 of `test_episodes`, found "
                f"{self.seed} and {self.test_episodes}"
            )
        if not self.train and not self.policies:
            raise InputError(
                "expected [[train]] or [[policies]], found neither: nothing to certify"
            )
        if not self.certify:
            raise InputError("expected [[certify]], found none: nothing is asked")


def load_study(path: Path) -> Study:
    """The study in a file.

    Raises:
        InputError: there is none, it is no TOML, or a key or value is wrong.
    """
    if not path.is_file():
        raise InputError(f"expected a study at {str(path)!r}, found no file: check the path")
    try:
        content = tomllib.loads(path.read_text())
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"expected a study at {str(path)!r}: {one_line(error)}") from None
    except (ValueError, RecursionError) as error:  # numbers that are too long, tables too deep
        raise InputError(f"expected TOML in {str(path)!r}: {one_line(error)}") from None
    return study_from(content, str(path))


def study_from(content: dict[str, Any], where: str = "the study") -> Study:
    """The study that a dictionary describes.

    Raises:
        InputError: a key or value is wrong; the message says in which table.
    """
    found: Study = _record(Study, content, where)
    return found


def _record(kind: Any, content: Any, where: str) -> Any:
    """A record from a table of the file, with every key known and every value of its type."""
    if not isinstance(content, dict):
        raise InputError(f"expected a table in {where}, found {content!r}")
    hints, fields = get_type_hints(kind), dataclasses.fields(kind)
    names = [entry.name for entry in fields]
    for key in content:
        if key not in names:
            raise InputError(f"expected keys among {', '.join(names)} in {where}, found {key!r}")
    for entry in fields:
        required = (
            entry.default is dataclasses.MISSING and entry.default_factory is dataclasses.MISSING
        )
        if required and entry.name not in content:
            raise InputError(f"expected the key {entry.name!r} in {where}, found none")
    values = {key: _value(hints[key], value, f"{where}, {key}") for key, value in content.items()}
    try:
        return kind(**values)
    except InputError as error:
        raise InputError(f"{where}: {error}") from None


def _value(hint: Any, value: Any, where: str) -> Any:
    if get_origin(hint) in (Union, types.UnionType):  # X | None: TOML has no null
        hint = next(part for part in get_args(hint) if part is not type(None))
    if get_origin(hint) is Literal:
        if value not in get_args(hint):
            among = ", ".join(get_args(hint))
            raise InputError(f"expected one of {among} in {where}, found {value!r}")
        return value
    if get_origin(hint) is tuple:
        inner, *rest = get_args(hint)
        if not isinstance(value, list) or (rest != [...] and len(value) != 1 + len(rest)):
            count = "a list" if rest == [...] else f"a list of {1 + len(rest)}"
            raise InputError(f"expected {count} in {where}, found {value!r}")
        if dataclasses.is_dataclass(inner):
            return tuple(
                _record(inner, each, f"{where} {number}")
                for number, each in enumerate(value, start=1)
            )
        return tuple(_value(inner, each, where) for each in value)
    if get_origin(hint) is dict:
        if not isinstance(value, dict):
            raise InputError(f"expected a table in {where}, found {value!r}")
        return dict(value)
    words = {str: "a text", int: "a whole number", float: "a number"}
    fits = isinstance(value, hint) and not isinstance(value, bool)
    if not fits or (isinstance(value, float) and not math.isfinite(value)):
        raise InputError(f"expected {words[hint]} in {where}, found {value!r}")
    return value


def _require_distinct(name: str, values: tuple[Any, ...]) -> None:
    if not values:
        raise InputError(f"expected at least one of `{name}`, found none")
    if len(set(values)) < len(values):
        twice = next(value for value in values if values.count(value) > 1)
        raise InputError(f"expected distinct `{name}`, found {twice!r} twice")
