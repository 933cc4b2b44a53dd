"""From a study to its policies and jobs, before anything runs."""

import hashlib
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tightrope.agents.hyperparameters import settings
from tightrope.certificates.options import Options, scheme
from tightrope.certificates.settings import PILOT_EPISODES
from tightrope.environments import EnvInfo
from tightrope.errors import InputError
from tightrope.files import sha256
from tightrope.studies.config import AXES, CertifyBlock, PolicyBlock, Study, TrainBlock
from tightrope.studies.jobs import Job

__all__ = ["LEVEL_NAMES", "Plan", "PolicyInstance", "child", "plan_jobs", "policy_job"]

LEVEL_NAMES = ("starter", "intermediate", "expert")
_LABELS = ("agent", "environment", "instance", "level")
_TASKS = "tightrope.studies.tasks"


@dataclass(frozen=True)
class PolicyInstance:
    """A policy of the study.

    Attributes:
        labels: what the table calls its agent, environment, instance (training seed, or name of
            the policy) and level (at which it was frozen).
        produced_by: the job that its folder comes from.
        file: of the policy in that folder.
        module: the environment where its id names a module to import; else the record says it.
    """

    labels: tuple[str, str, str, str]
    produced_by: Job
    file: str
    module: str = ""

    def __post_init__(self) -> None:
        for name in self.labels:
            if not name.isprintable() or name.startswith(("=", "+", "-", "@")):
                raise InputError(
                    f"expected a name for tables, found {name[:80]!r}, which a spreadsheet or a "
                    "terminal may take for a command: rename it"
                )

    def __str__(self) -> str:
        return " ".join(self.labels)


@dataclass(frozen=True)
class Plan:
    """The jobs of a study.

    Attributes:
        jobs: each after those that it needs.
        sources: jobs that only copy policies, and the paths of these.
        skipped: why a policy that the study names has no jobs.
    """

    jobs: tuple[Job, ...]
    sources: tuple[tuple[Job, Path], ...]
    skipped: tuple[str, ...] = ()

    def of(self, stage: str) -> list[Job]:
        """The jobs of a stage."""
        return [job for job in self.jobs if job.stage == stage]

    @property
    def certificates(self) -> int:
        """How many the jobs will issue."""
        return sum(len(job.spec["requests"]) for job in self.of("certify"))


def plan_jobs(study: Study) -> Plan:
    """All jobs; what can be refused beforehand is refused here.

    Raises:
        InputError: an environment is unknown, a folder holds no policy, two tables ask for the
            same policy, or a [[certify]] is for none.
    """
    policies = [policy for block in study.train for policy in _trained(block)]
    sources: dict[str, Path] = {}
    skipped: list[str] = []
    for own in study.policies:
        for path in _paths(own, study.root, skipped):
            for policy in _own(own, path, skipped):
                sources[policy.produced_by.id] = path
                policies.append(policy)
    if len(names := {str(policy): policy for policy in policies}) < len(policies):
        twice = next(each for each in policies if names[str(each)] is not each)
        raise InputError(f"expected each policy once, found {twice} twice")
    if not policies:
        raise InputError(f"expected policies to certify, found none: {'; '.join(skipped)}")
    for number, block in enumerate(study.certify, start=1):
        # Where some are missing, it may be for those.
        if not skipped and not any(_is_for(block, policy) for policy in policies):
            raise InputError(
                f"expected [[certify]] {number} to be for some policy of the study, found none "
                f"that it names among {len(policies)} policies"
            )
    first: dict[str, Job] = {}
    later: list[Job] = []
    for policy in policies:
        blocks = [block for block in study.certify if _is_for(block, policy)]
        for repetition in range(max((block.repetitions for block in blocks), default=0)):
            asked = [block for block in blocks if block.repetitions > repetition]
            first[policy.produced_by.id] = policy.produced_by
            later += _repetition(study, policy, asked, repetition)
    copies = tuple((first[key], path) for key, path in sources.items() if key in first)
    return Plan((*first.values(), *later), copies, tuple(skipped))


def _trained(block: TrainBlock) -> Iterator[PolicyInstance]:
    chosen = settings(block.agent, block.settings).to_json()
    if chosen.get("precision") == "auto":  # a job is the same on whatever machine it runs
        chosen["precision"] = "float32"
    for environment in block.environments:
        known, module = EnvInfo.of(environment).id, environment if ":" in environment else ""
        for seed in block.instances:
            asked = {"agent": block.agent, "environment": environment, "seed": seed}
            spec = {**asked, "levels": list(block.steps), "settings": chosen}
            label = f"{block.agent} {environment} {seed}"
            job = Job("train", f"{_TASKS}:train", spec, label=label, resumable=True)
            for level in LEVEL_NAMES:
                labels = (block.agent, known, str(seed), level)
                yield PolicyInstance(labels, job, level, module)


def _paths(block: PolicyBlock, root: Path, skipped: list[str]) -> Iterator[Path]:
    """What the names of a block stand for."""
    folder = root / block.folder
    if not folder.is_dir():
        raise InputError(f"expected a folder of policies at {str(folder)!r}, found none")
    missing = []
    for name in block.names:
        try:
            paths = sorted(path for path in folder.glob(name) if not path.name.startswith("."))
        except (ValueError, NotImplementedError) as error:
            raise InputError(
                f"expected `names` in {block.folder!r}, found {name!r}: {error}"
            ) from None
        missing += [] if paths else [name]
        yield from paths
    if missing:
        skipped.append(f"not in {block.folder}: {', '.join(missing)}")


def _own(block: PolicyBlock, path: Path, skipped: list[str]) -> Iterator[PolicyInstance]:
    """The levels of what train wrote, or one policy of any kind."""
    if not (path / "run.json").is_file():
        from tightrope.rollouts import policy_source

        known = policy_source(path, block.environment or None).environment.id
        name = path.name if path.is_dir() else path.stem
        job = policy_job(path, f"{block.agent} {name}")
        labels = (block.agent, known, name, block.level)
        yield PolicyInstance(labels, job, path.name, block.environment)
        return
    try:
        run = json.loads((path / "run.json").read_text())
        about = (str(run["agent"]), str(run["environment"]["id"]), str(int(run["seed"])))
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        raise InputError(f"expected a training's run.json in {str(path)!r}") from None
    if lacking := [name for name in LEVEL_NAMES if not (path / name / "policy.json").is_file()]:
        skipped.append(f"{path.name} has no {' and no '.join(lacking)}")
        return
    job = policy_job(path, " ".join(about), LEVEL_NAMES)
    for level in LEVEL_NAMES:
        yield PolicyInstance((*about, level), job, level)


def policy_job(path: Path, label: str, levels: Sequence[str] = ()) -> Job:
    """The job that copies a policy, or those levels of a training; `StudyFolder.place` does it."""
    roots = [path / level for level in levels] or [path]
    files = [file for root in roots for file in (root, *root.rglob("*")) if file.is_file()]
    spec = {"digest": sha256(*sorted(files)), "file": path.name, "levels": list(levels)}
    return Job("policy", f"{_TASKS}:copied", spec, label=label)


def _is_for(block: CertifyBlock, policy: PolicyInstance) -> bool:
    wanted = (block.agents, block.environments, block.instances, block.levels)
    pairs = zip(policy.labels, wanted, strict=True)
    return all(not names or label in names for label, names in pairs)


def _repetition(
    study: Study, policy: PolicyInstance, blocks: Sequence[CertifyBlock], repetition: int
) -> Iterator[Job]:
    """The roll-out of a repetition, and a job for all certificates that can share fits."""
    requests = [request for block in blocks for request in block.requests()]
    pilots = [each.pilot_episodes for _, each in requests if not scheme(each.scheme).fixed]
    layout = [
        max((PILOT_EPISODES if each == "auto" else each for each in pilots), default=0),
        max(count for block in blocks for count in block.episodes),
        study.test_episodes,
    ]
    shared = {"file": policy.file, "environment": policy.module}
    label = f"{policy}, repetition {repetition}"
    seed = child(study.seed, "episodes", str(policy), repetition)
    spec = {**shared, "episodes": sum(layout), "seed": seed}
    origin = policy.produced_by.id
    collect = Job("collect", f"{_TASKS}:collect_rollouts", spec, (origin,), label)
    yield collect
    spec = {
        **shared,
        "policy": dict(zip(_LABELS, policy.labels, strict=True)),
        "repetition": repetition,
        "seed": child(study.seed, "repetition", str(policy), repetition),
        "layout": layout,
        "updates": study.updates,
        "width": study.width,
    }
    groups: dict[tuple[Any, ...], list[Options]] = {}
    asked = set()
    for norm, options in requests:
        axes = {name: getattr(options, name) for name in AXES}
        if (norm, *axes.values()) in asked:
            named = ", ".join(f"{name} {value}" for name, value in axes.items())
            raise InputError(f"expected each certificate once, found {named} of {policy} twice")
        asked.add((norm, *axes.values()))
        key = (options.preset, norm, options.sampling, options.episodes)
        groups.setdefault(key, []).append(options)
    for (preset, norm, sampling, count), same in groups.items():
        yield Job(
            "certify",
            f"{_TASKS}:certify",
            {**spec, "layer_norm": norm, "requests": [_changed(options) for options in same]},
            (origin, collect.id),
            f"{label}, {preset}{'' if norm else ' without layer norm'}, {sampling}, {count}",
        )


def _changed(options: Options) -> dict[str, Any]:
    """The options that are not at their defaults."""
    fields = type(options).__dataclass_fields__
    changed = {k: v for k, v in vars(options).items() if k in fields and v != fields[k].default}
    return {**changed, "episodes": options.episodes}


def child(root: int, *path: str | int) -> int:
    """A seed that follows from another one and a path of names."""
    text = json.dumps([root, *path]).encode()
    return int.from_bytes(hashlib.sha256(text).digest()[:4], "big") >> 1
