"""What a study asks: a TOML file, read strictly.

The tables of the file are the records below: their fields are the keys, and a key that is none of
them is an error.
"""

import itertools
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import asdict, field, fields, replace
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field

from tightrope.agents.hyperparameters import LEVELS, settings
from tightrope.certificates.options import Options, Unit
from tightrope.certificates.schemes import scheme
from tightrope.errors import InputError, one_line
from tightrope.posteriors.presets import PresetName, Sampling
from tightrope.records import checked

__all__ = [
    "AXES",
    "CertifyBlock",
    "PolicyBlock",
    "Study",
    "TrainBlock",
    "load_study",
    "options_of",
    "study_from",
]

# Options of a certificate that are axes of a study, or that it decides itself.
AXES = ("scheme", "preset", "unit", "sampling", "episodes")
_OWN = ("test_episodes", "candidates", "seed", "device", "paper", "until", "max_episodes")
_FIXED = {"fit_episodes": True, "pilot_episodes": False}  # whether it is for a fixed predictor

Whole = Annotated[int, Field(ge=0)]
Positive = Annotated[int, Field(ge=1)]
Names = tuple[str, ...]


@checked
class TrainBlock:
    """``[[train]]``: an agent, trained in every environment once for each seed."""

    agent: Literal["redq", "sac", "ppo"]
    """What is trained."""
    environments: Annotated[Names, Field(min_length=1)]
    """Ids."""
    instances: Annotated[tuple[Whole, ...], Field(min_length=1)]
    """Training seeds: one policy instance each."""
    levels: tuple[Positive, Positive, Positive] | None = None
    """Steps at which starter, intermediate and expert are frozen; by default the paper's."""
    settings: dict[str, Any] = field(default_factory=dict)
    """Hyperparameters that differ from the agent's defaults."""

    def __post_init__(self) -> None:
        settings(self.agent, self.settings)
        _require_distinct(environments=self.environments, instances=self.instances)
        first, second, third = self.steps
        if not first < second < third:
            raise InputError(f"expected three rising `levels` of steps, found {self.steps}")

    @property
    def steps(self) -> tuple[int, int, int]:
        """At which the levels are frozen."""
        return self.levels or tuple(LEVELS[self.agent].values())  # type: ignore[return-value]


@checked
class PolicyBlock:
    """``[[policies]]``: policies of one's own, or trainings that were run before."""

    folder: str
    """Relative to the file. Folders that train wrote in it give all their levels, and say agent,
    environment and seed themselves; any other file or folder that certify takes is a policy."""
    names: Annotated[Names, Field(min_length=1)] = ("*",)
    """What to take of the folder, by name or pattern; a name that is not there is skipped."""
    environment: str = ""
    """Id; by default the one that each policy was trained in, if train wrote it."""
    agent: str = "own"
    """Name in tables and figures, where no training says it."""
    level: str = "own"
    """The same, of the level."""


@checked
class CertifyBlock:
    """``[[certify]]``: every combination of these, for each of the chosen policies."""

    schemes: Annotated[Names, Field(min_length=1)]
    """As for certify."""
    repetitions: Positive = 5
    """Certificates with episodes, fits and draws of their own each."""
    presets: Annotated[tuple[PresetName, ...], Field(min_length=1)] = ("tight",)
    """paper, tight or both."""
    layer_norm: Annotated[tuple[bool, ...], Field(min_length=1)] = (True,)
    """Whether the predictor's hidden layers are normalised, or both."""
    units: Annotated[tuple[Unit, ...], Field(min_length=1)] = ("step",)
    """step, episode or both."""
    samplings: Annotated[tuple[Sampling, ...], Field(min_length=1)] = ("local",)
    """local, weights or both."""
    episodes: Annotated[tuple[Positive, ...], Field(min_length=1)] = (100,)
    """Validation episodes, to fit and to calibrate: the first of what was rolled out."""
    agents: Names = ()
    """Only policies of these; by default of all."""
    environments: Names = ()
    """Only policies in these; by default in all."""
    instances: Names = ()
    """Only these training seeds or names; by default all."""
    levels: Names = ()
    """Only policies of these levels; by default of all."""
    options: dict[str, Any] = field(default_factory=dict)
    """Other options of certify, such as mc_passes; `pilot_episodes` are for PAC-Bayes schemes, and
    `fit_episodes` for auto and holdout."""

    def __post_init__(self) -> None:
        axes = ("schemes", "presets", "layer_norm", "units", "samplings", "episodes")
        _require_distinct(**{name: getattr(self, name) for name in axes})
        for name in self.options:
            if name in (*AXES, *_OWN):
                where = f"`{name}s` beside it" if name in AXES else "nothing: a study decides it"
                raise InputError(f"expected {where}, found `{name}` among the options")
        self.requests()

    def requests(self) -> list[tuple[bool, Options]]:
        """The options of each combination, checked, and whether there is layer norm.

        Raises:
            InputError: a value is outside its set.
        """
        axes = itertools.product(
            self.presets, self.layer_norm, self.samplings, self.episodes, self.schemes, self.units
        )
        made = []
        for preset, norm, sampling, count, name, unit in axes:
            own = {"preset": preset, "unit": unit, "sampling": sampling, "episodes": count}
            made.append((norm, options_of(name, self.schemes, {**self.options, **own})))
        return made


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
    return Options(**{**own, "scheme": name})


@checked
class Study:
    """A study: which policies, and which certificates of each."""

    name: Annotated[str, Field(pattern=r"^[a-z0-9]+(-[a-z0-9]+)*$")]
    """In titles; lower-case letters, digits and hyphens."""
    certify: tuple[CertifyBlock, ...]
    """``[[certify]]`` tables."""
    about: str = ""
    """A sentence for its pages."""
    seed: Whole = 0
    """Root of all randomness but that of trainings."""
    test_episodes: Positive = 100
    """Episodes of each policy that are only compared with."""
    updates: Positive | None = None
    """At most that many updates in each fit, for rehearsals; by default those of the preset."""
    width: Positive | None = None
    """Width of the predictor's hidden layers; by default that of the preset."""
    train: tuple[TrainBlock, ...] = ()
    """``[[train]]`` tables."""
    policies: tuple[PolicyBlock, ...] = ()
    """``[[policies]]`` tables."""
    root: Path = field(default=Path(), compare=False)
    """Folder of the file, which paths are relative to; not a key of it."""

    def __post_init__(self) -> None:
        if not self.train and not self.policies:
            raise InputError(
                "expected [[train]] or [[policies]], found neither: nothing to certify"
            )
        if not self.certify:
            raise InputError("expected [[certify]], found none: nothing is asked")

    def content(self) -> dict[str, Any]:
        """All that the file says."""
        return {name: value for name, value in asdict(self).items() if name != "root"}


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
    return replace(study_from(content, str(path)), root=path.parent)


def study_from(content: Mapping[str, Any], where: str = "the study") -> Study:
    """The study that a dictionary describes.

    Raises:
        InputError: a key or value is wrong; the message says in which table.
    """
    values = dict(content)
    for name, kind in (("train", TrainBlock), ("policies", PolicyBlock), ("certify", CertifyBlock)):
        if isinstance(tables := values.get(name, []), list):
            values[name] = [
                _record(kind, table, f"{where}, {name} {number}")
                for number, table in enumerate(tables, start=1)
            ]
    study: Study = _record(Study, values, where)
    return study


def _record(kind: Any, content: Any, where: str) -> Any:
    """A record from a table of the file, with every key known and every value of its type."""
    if not isinstance(content, dict):
        raise InputError(f"expected a table in {where}, found {content!r}")
    names = [entry.name for entry in fields(kind) if entry.name != "root"]
    for key in content:
        if key not in names:
            raise InputError(f"expected keys among {', '.join(names)} in {where}, found {key!r}")
    try:
        return kind(**content)
    except InputError as error:
        raise InputError(f"{where}: {error}") from None


def _require_distinct(**axes: Sequence[Any]) -> None:
    for name, values in axes.items():
        if len(set(values)) < len(values):
            twice = next(value for value in values if values.count(value) > 1)
            raise InputError(f"expected distinct `{name}`, found {twice!r} twice")
