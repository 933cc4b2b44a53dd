"""From a study to its jobs, before anything runs."""

import hashlib
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tightrope.agents.hyperparameters import settings
from tightrope.certificates.schemes import scheme
from tightrope.certificates.settings import PILOT_EPISODES
from tightrope.environments import EnvInfo
from tightrope.errors import InputError
from tightrope.files import sha256
from tightrope.studies.costs import certify_cost, collect_cost, train_cost
from tightrope.studies.jobs import Job
from tightrope.studies.spec import AXES, Certification, Policies, Study, Training

__all__ = ["Graph", "Subject", "build_graph", "child", "policy_job"]

_WORK = "tightrope.studies.work"
_LEVELS = ("starter", "intermediate", "expert")


@dataclass(frozen=True)
class Subject:
    """A policy of the study.

    Attributes:
        agent: what trained it, or what its table calls it.
        environment: id.
        instance: training seed, or name of the policy.
        level: at which it was frozen.
        origin: the job that its folder comes from.
        file: of the policy in that folder.
        named: the environment if the study names it, or nothing: the training record does.
    """

    agent: str
    environment: str
    instance: str
    level: str
    origin: Job
    file: str
    named: str

    @property
    def labels(self) -> dict[str, str]:
        """What the table calls it."""
        names = ("agent", "environment", "instance", "level")
        return {name: getattr(self, name) for name in names}

    def __str__(self) -> str:
        return " ".join(self.labels.values())


@dataclass(frozen=True)
class Graph:
    """The jobs of a study in an order in which they can run, and where own policies are.

    Attributes:
        jobs: each after those that it needs.
        sources: of jobs that only copy a policy of one's own: its path.
    """

    jobs: tuple[Job, ...]
    sources: dict[str, Path]

    def of(self, stage: str) -> list[Job]:
        """The jobs of a stage."""
        return [job for job in self.jobs if job.stage == stage]

    @property
    def certificates(self) -> int:
        """How many the jobs will issue."""
        requests = (each for job in self.of("certify") for each in job.spec["requests"])
        return sum(len(each["seeds"]) for each in requests)


def build_graph(study: Study, beside: Path) -> Graph:
    """All jobs; what can be refused beforehand is refused here.

    Args:
        study: as it was asked.
        beside: folder of the specification, that its paths are relative to.

    Raises:
        InputError: an environment is unknown, a folder holds no policy, two tables ask for the
            same policy, or a [[certify]] is for none.
    """
    jobs: dict[str, Job] = {}
    sources: dict[str, Path] = {}
    subjects: list[Subject] = []
    for block in study.train:
        subjects += _trained(block)
    for own in study.policies:
        for subject, path in _own(own, beside):
            sources[subject.origin.id] = path
            subjects.append(subject)
    _require_distinct(subjects)
    _require_used(study.certify, subjects)
    later: list[Job] = []
    for subject in subjects:
        blocks = [block for block in study.certify if _is_for(block, subject)]
        if not blocks:
            continue
        jobs[subject.origin.id] = subject.origin
        collect = _collect(study, subject, blocks)
        later += [collect, _certify(study, subject, blocks, collect)]
    return Graph((*jobs.values(), *later), sources)


def _trained(block: Training) -> Iterator[Subject]:
    chosen = settings(block.agent, block.settings).to_json()
    if chosen.get("precision") == "auto":  # a job is the same on whatever machine it runs
        chosen["precision"] = "float32"
    for environment in block.environments:
        built = EnvInfo.of(environment)
        for seed in block.instances:
            spec = {
                "agent": block.agent,
                "environment": environment,
                "levels": list(block.steps),
                "seed": seed,
                "settings": chosen,
            }
            seconds, size = train_cost(spec)
            job = Job(
                "train",
                f"{_WORK}:train_job",
                spec,
                label=f"{block.agent} {environment} {seed}",
                resumes=True,
                seconds=seconds,
                size=size,
            )
            for level in _LEVELS:
                yield Subject(
                    block.agent, built.id, str(seed), level, job, level, _named(environment)
                )


def _named(environment: str) -> str:
    """An environment of the user's own module is imported only where the study names it."""
    return environment if ":" in environment else ""


def _own(block: Policies, beside: Path) -> Iterator[tuple[Subject, Path]]:
    from tightrope.rollouts import policy_source

    folder = beside / block.folder
    if not folder.is_dir():
        raise InputError(f"expected a folder of policies at {str(folder)!r}, found none")
    paths = sorted(path for path in folder.iterdir() if not path.name.startswith("."))
    if not paths:
        raise InputError(f"expected policies in {str(folder)!r}, found none")
    for path in paths:
        source = policy_source(path, block.environment or None)
        name = path.name if path.is_dir() else path.stem
        job = policy_job(path, f"{block.agent} {name}")
        yield (
            Subject(
                *(block.agent, source.environment.id, name, block.level),
                *(job, path.name, block.environment),
            ),
            path,
        )


def policy_job(path: Path, label: str) -> Job:
    """The job that copies a policy of one's own; `Folder.copy` does it."""
    files = sorted(each for each in path.rglob("*") if each.is_file()) if path.is_dir() else []
    return Job(
        "policy",
        f"{_WORK}:policy_job",
        {"digest": sha256(*(files or [path])), "file": path.name},
        label=label,
        seconds=0.1,
        size=sum(each.stat().st_size for each in files or [path]),
    )


def _is_for(block: Certification, subject: Subject) -> bool:
    wanted = {
        "agent": block.agents,
        "environment": block.environments,
        "level": block.levels,
    }
    return all(not some or getattr(subject, name) in some for name, some in wanted.items())


def _collect(study: Study, subject: Subject, blocks: Sequence[Certification]) -> Job:
    layout = _layout(study, blocks)
    spec = {
        "file": subject.file,
        "environment": subject.named,
        "episodes": sum(layout),
        "seed": child(study.seed, "episodes", str(subject)),
    }
    seconds, size = collect_cost(subject.environment, sum(layout))
    return Job(
        "collect",
        f"{_WORK}:collect_job",
        spec,
        (subject.origin.id,),
        label=str(subject),
        seconds=seconds,
        size=size,
    )


def _certify(study: Study, subject: Subject, blocks: Sequence[Certification], collect: Job) -> Job:
    requests: list[dict[str, Any]] = []
    asked: set[tuple[Any, ...]] = set()
    for block in blocks:
        seeds = [child(study.seed, "repetition", str(subject), n) for n in range(block.repetitions)]
        for options in block.requests():
            changed = {
                name: value
                for name, value in vars(options).items()
                if value != type(options).__dataclass_fields__[name].default
            }
            request = {"options": {**changed, "episodes": options.episodes}, "seeds": seeds}
            axes = tuple(getattr(options, name) for name in AXES)
            if axes in asked:
                named = ", ".join(f"{name} {value}" for name, value in zip(AXES, axes, strict=True))
                raise InputError(
                    f"expected each certificate once, found {named} of {subject} twice"
                )
            asked.add(axes)
            requests.append(request)
    spec = {
        "policy": subject.labels,
        "file": subject.file,
        "environment": subject.named,
        "layout": list(_layout(study, blocks)),
        "requests": requests,
    }
    spec = json.loads(json.dumps(spec))  # tuples are lists in JSON
    seconds, size = certify_cost(subject.environment, spec)
    return Job(
        "certify",
        f"{_WORK}:certify_job",
        spec,
        (subject.origin.id, collect.id),
        label=str(subject),
        seconds=seconds,
        size=size,
    )


def _layout(study: Study, blocks: Sequence[Certification]) -> tuple[int, int, int]:
    """Pilot, validation and test episodes that are rolled out, in this order."""
    requests = [options for block in blocks for options in block.requests()]
    pilots = [each.pilot_episodes for each in requests if not scheme(each.scheme).fixed]
    pilot = max((PILOT_EPISODES if each == "auto" else each for each in pilots), default=0)
    return pilot, max(max(block.episodes) for block in blocks), study.test_episodes


def child(root: int, *path: object) -> int:
    """A seed of its own for each use: by the name of the policy, so that others do not matter."""
    text = json.dumps([root, *path]).encode()
    return int.from_bytes(hashlib.sha256(text).digest()[:4], "big") >> 1


def _require_distinct(subjects: Sequence[Subject]) -> None:
    seen: set[str] = set()
    for subject in subjects:
        if str(subject) in seen:
            raise InputError(f"expected each policy once, found {subject} twice")
        seen.add(str(subject))


def _require_used(blocks: Sequence[Certification], subjects: Sequence[Subject]) -> None:
    for number, block in enumerate(blocks, start=1):
        if not any(_is_for(block, subject) for subject in subjects):
            raise InputError(
                f"expected [[certify]] {number} to be for some policy of the study, found none "
                f"with its agents, environments and levels among {len(subjects)} policies"
            )
