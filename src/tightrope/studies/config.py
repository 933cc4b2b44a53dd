"""What a study asks: a TOML file, read strictly.

The tables of the file are the records below: their fields are the keys, and a key that is none of
them is an error.
"""

import itertools
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import asdict, field, replace
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field

from tightrope.agents.hyperparameters import LEVELS, settings
from tightrope.certificates.options import Options, Unit, scheme
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
SomeNames = Annotated[Names, Field(min_length=1)]


@checked
class TrainBlock:
    """``[[train]]``: an agent, trained in every environment once for each seed.

    Attributes:
        agent: what is trained.
        environments: ids.
        instances: training seeds: one policy instance each.
        levels: steps at which starter, intermediate and expert are frozen; by default the paper's.
        settings: hyperparameters that differ from the agent's defaults.
    """

    agent: Literal["redq", "sac", "ppo"]
    environments: SomeNames
    instances: Annotated[tuple[Whole, ...], Field(min_length=1)]
    levels: tuple[Positive, Positive, Positive] | None = None
    settings: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        settings(self.agent, self.settings)
        _require_distinct(self, "environments", "instances")
        first, second, third = self.steps
        if not first < second < third:
            raise InputError(f"expected three rising `levels` of steps, found {self.steps}")

    @property
    def steps(self) -> tuple[int, int, int]:
        """At which the levels are frozen."""
        return self.levels or tuple(LEVELS[self.agent].values())  # type: ignore[return-value]


@checked
class PolicyBlock:
    """``[[policies]]``: policies of one's own, or trainings that were run before.

    Attributes:
        folder: relative to the file. Folders that train wrote in it give all their levels, and say
            agent, environment and seed themselves; any other file or folder that certify takes is
            a policy.
        names: what to take of the folder, by name or pattern; a name that is not there is skipped.
        environment: id; by default the one that each policy was trained in, if train wrote it.
        agent: name in tables and figures, where no training says it.
        level: the same, of the level.
    """

    folder: str
    names: SomeNames = ("*",)
    environment: str = ""
    agent: str = "own"
    level: str = "own"


@checked
class CertifyBlock:
    """``[[certify]]``: every combination of these, for each of the chosen policies.

    Attributes:
        schemes: as for certify.
        repetitions: certificates with episodes, fits and draws of their own each.
        presets: paper, tight or both.
        layer_norm: whether the predictor's hidden layers are normalised, or both.
        units: step, episode or both.
        samplings: local, weights or both.
        episodes: validation episodes, to fit and to calibrate: the first of what was rolled out.
        agents: only policies of these; by default of all.
        environments: only policies in these; by default in all.
        instances: only these training seeds or names; by default all.
        levels: only policies of these levels; by default of all.
        options: other options of certify, such as mc_passes; `pilot_episodes` are for PAC-Bayes
            schemes, and `fit_episodes` for auto and holdout.
    """

    schemes: SomeNames
    repetitions: Positive = 5
    presets: Annotated[tuple[PresetName, ...], Field(min_length=1)] = ("tight",)
    layer_norm: Annotated[tuple[bool, ...], Field(min_length=1)] = (True,)
    units: Annotated[tuple[Unit, ...], Field(min_length=1)] = ("step",)
    samplings: Annotated[tuple[Sampling, ...], Field(min_length=1)] = ("local",)
    episodes: Annotated[tuple[Positive, ...], Field(min_length=1)] = (100,)
    agents: Names = ()
    environments: Names = ()
    instances: Names = ()
    levels: Names = ()
    options: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        _require_distinct(
            self, "schemes", "presets", "layer_norm", "units", "samplings", "episodes"
        )
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
            scheme(name).sizes(count, fit=1)  # refuses too few episodes
            own = {"preset": preset, "unit": unit, "sampling": sampling, "episodes": count}
            made.append((norm, options_of(name, self.schemes, {**self.options, **own})))
        return made


def options_of(name: str, schemes: Sequence[str], values: Mapping[str, Any]) -> Options:
    """The options of one of several schemes, without those that only the other ones take.

    Raises:
        InputError: a value is outside its set, or an option is for none of the schemes.
    """
    fixed = scheme(name).fixed
    mixed = any(scheme(each).fixed != fixed for each in schemes)
    own = {
        key: value for key, value in values.items() if not mixed or _FIXED.get(key, fixed) == fixed
    }
    return Options(**{**own, "scheme": name})


@checked
class Study:
    """A study: which policies, and which certificates of each.

    Attributes:
        name: in titles; lower-case letters, digits and hyphens.
        certify: ``[[certify]]`` tables.
        about: a sentence for its pages.
        seed: root of all randomness but that of trainings.
        test_episodes: episodes of each policy that are only compared with.
        updates: at most that many updates in each fit, for rehearsals; by default those of the
            preset.
        width: width of the predictor's hidden layers; by default that of the preset.
        train: ``[[train]]`` tables.
        policies: ``[[policies]]`` tables.
        root: folder of the file, which paths are relative to; not a key of it.
    """

    name: Annotated[str, Field(pattern=r"^[a-z0-9]+(-[a-z0-9]+)*$")]
    certify: tuple[CertifyBlock, ...]
    about: str = ""
    seed: Whole = 0
    test_episodes: Positive = 100
    updates: Positive | None = None
    width: Positive | None = None
    train: tuple[TrainBlock, ...] = ()
    policies: tuple[PolicyBlock, ...] = ()
    root: Path = field(default=Path(), compare=False)

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
    if not path.is_file():  # a pipe would never end
        raise InputError(f"expected a study at {str(path)!r}, found no file")
    try:
        content = tomllib.loads(path.read_text())
    except OSError as error:
        raise InputError(f"expected a study at {str(path)!r}: {one_line(error)}") from None
    except (ValueError, RecursionError) as error:  # no text, long numbers, tables too deep
        raise InputError(f"expected TOML in {str(path)!r}: {one_line(error)}") from None
    return replace(study_from(content, str(path)), root=path.parent)


def study_from(content: Mapping[str, Any], where: str = "the study") -> Study:
    """The study that a dictionary describes.

    Raises:
        InputError: a key or value is wrong; the message says in which table.
    """
    values = dict(content)
    for name, kind in (("train", TrainBlock), ("policies", PolicyBlock), ("certify", CertifyBlock)):
        if isinstance(tables := values.get(name), list):
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
    try:
        return kind(**content)
    except InputError as error:
        raise InputError(f"{where}: {error}") from None


def _require_distinct(block: Any, *names: str) -> None:
    for name in names:
        values = getattr(block, name)
        if len(set(values)) < len(values):
            raise InputError(f"expected distinct `{name}`, found {', '.join(map(str, values))}")
