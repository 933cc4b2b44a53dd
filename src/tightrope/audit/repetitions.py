"""The job of an audit: some repetitions, each compared with the truth."""

import json
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from tightrope.audit.experiment import PAIR, TRUTH_EPISODES, Audit
from tightrope.audit.generators import SYNTHETIC, TASKS, SyntheticTask
from tightrope.files import write_text
from tightrope.studies.job_plan import child

if TYPE_CHECKING:
    from tightrope.certificates import Certificate, Settings
    from tightrope.rollouts import Episodes, PolicySource

__all__ = ["CHECKS", "repeat_job"]

CHECKS = "checks.json"
_LOOK = 50  # pairs of episodes, after which a comparison is looked at once more
_PAIRS = 500  # at the most, by default

Check = dict[str, Any]  # a statement of one repetition against the truth


def repeat_job(spec: Mapping[str, Any], needs: Sequence[Path], out: Path) -> None:
    """Repetitions `first` to `last`: fresh episodes, what is stated of them, and what is true."""
    import torch

    torch.set_num_threads(1)
    audit, names = Audit(**spec["audit"]), spec["task"].split(PAIR)
    if len(names) > 1:
        repeat = _compared([TASKS[name] for name in names], audit)
    elif spec["task"]:
        repeat = _certified(_synthetic(TASKS[spec["task"]], audit), audit)
    else:
        policy = needs[0] / spec["file"]
        repeat = _certified(_policy(policy, spec["environment"] or None, needs[1]), audit)
    checks = [
        {"repetition": number, **check}
        for number in range(spec["first"], spec["last"])
        for check in repeat(number)
    ]
    write_text(out / CHECKS, json.dumps(checks, indent=1) + "\n")


@dataclass(frozen=True)
class _Subject:
    """What is certified.

    Attributes:
        source: what defaults are settled for.
        options: of its certificates.
        known: targets whose expectation or probability is known in closed form.
        stream: fresh episodes: from the settings and their largest number to a function from a
            number of episodes, and the first of them, to the episodes.
        new: the episodes that tell the truth.
        task: the synthetic one, if it is.
    """

    source: "PolicySource"
    options: Mapping[str, Any]
    known: Mapping[Any, float]
    stream: "Callable[[Settings, int], Callable[[int, int], Episodes]]"
    new: "Callable[[], Episodes]"
    task: SyntheticTask | None = None


def _certified(subject: _Subject, audit: Audit) -> Callable[[int], Iterator[Check]]:
    """A repetition: of the certificates of each scheme the best one, against the truth."""
    from tightrope.audit.coverage import checks_of
    from tightrope.audit.ground_truth import NewEpisodes, truths

    @cache
    def new(gamma: float, thin: int) -> NewEpisodes:
        return NewEpisodes(subject.new(), gamma, thin, subject.known)

    def repeat(number: int) -> Iterator[Check]:
        for candidates in zip(*_candidates(subject, audit, number), strict=True):
            best = min(candidates, key=lambda c: c.statements[c.headline].limit)
            yield from checks_of(best, truths(best, new(best.settings.gamma, best.thin)))

    return repeat


def _candidates(subject: _Subject, audit: Audit, number: int) -> "Iterator[list[Certificate]]":
    """As many lists as there are candidates, each with a certificate of each scheme."""
    if audit.via == "callback":
        from tightrope.audit.in_training import certificates_in_training

        assert subject.task is not None  # run_audit refuses policies
        options = vars(audit.requests(subject.options)[0])
        seed = child(audit.seed, "repetition", number)
        for each in certificates_in_training(subject.task, audit, options, seed):
            yield [each]
        return
    for candidate in range(audit.candidates):
        yield _issued(subject, audit, _seed(audit, number, candidate))


def _issued(subject: _Subject, audit: Audit, seed: int) -> "list[Certificate]":
    """A certificate of each scheme, all of them of the last ones of the same episodes."""
    from tightrope.certificates import settle
    from tightrope.certificates.certify import issue
    from tightrope.certificates.sequential import issue_until
    from tightrope.certificates.settings import training_scaling
    from tightrope.studies.fits import shared_fits

    asked = [options.seeded(seed) for options in audit.requests(subject.options)]
    trained = [training_scaling(options, subject.source) for options in asked]
    decided = [
        settle(options, subject.source, preset=audit.preset_values, training=training)
        for options, training in zip(asked, trained, strict=True)
    ]
    most = max(settings.pilot + settings.most for settings in decided)
    collect = subject.stream(decided[0], most)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", ".*will hardly be reached")
        if audit.until != "off":
            return [issue_until(collect, decided[0], options=asked[0])]
        episodes, fit = collect(most, 0), shared_fits()
        return [
            issue(
                episodes.span(most - settings.episodes, most),
                settings,
                options=options,
                training=training,
                fit=fit,
            )
            for options, settings, training in zip(asked, decided, trained, strict=True)
        ]


def _synthetic(task: SyntheticTask, audit: Audit) -> _Subject:
    def stream(settings: "Settings", most: int) -> "Callable[[int, int], Episodes]":
        recorded = task.record(most, np.random.default_rng(settings.seed))
        return lambda size, first: recorded.span(first, first + size)

    new = partial(_new, task, audit, "truth")
    return _Subject(SYNTHETIC, task.options, task.known, stream, new, task)


def _policy(path: Path, environment: str | None, truth: Path) -> _Subject:
    from tightrope.certificates.certify import roll_out
    from tightrope.rollouts import Rollout, load, policy_source

    source = policy_source(path, environment)

    def stream(settings: "Settings", most: int) -> "Callable[[int, int], Episodes]":
        return lambda size, first: roll_out(source, settings, Rollout(workers=1), size, first=first)

    return _Subject(source, {}, {}, stream, lambda: load(truth / "rollouts.safetensors"))


def _compared(tasks: Sequence[SyntheticTask], audit: Audit) -> Callable[[int], Iterator[Check]]:
    """A repetition: of comparisons, each looked at until it is decided, the best for A."""
    from tightrope.audit.coverage import checks_of_comparison
    from tightrope.audit.ground_truth import interval_verdict
    from tightrope.comparison.compare import compare

    most = _PAIRS if audit.episodes == "auto" else audit.episodes
    shared = {"gamma": 1.0, "delta": audit.delta, "delta_prime": audit.delta_prime}
    options = {**shared, "return_range": _return_range(tasks), "candidates": audit.candidates}
    truth = [_new(task, audit, f"truth {side}") for task, side in zip(tasks, "AB", strict=True)]
    true: Any = compare(*truth, **options)

    def looked_at(seed: int) -> Any:
        one, other = (
            task.record(most, np.random.default_rng(child(seed, side)))
            for task, side in zip(tasks, "AB", strict=True)
        )
        for count in range(min(_LOOK, most), most + 1, _LOOK):
            found: Any = compare(one.span(0, count), other.span(0, count), **options)
            if found.interval("return").is_decided:
                break
        return found

    def repeat(number: int) -> Iterator[Check]:
        found = [looked_at(_seed(audit, number, each)) for each in range(audit.candidates)]
        best = max(found, key=lambda each: each.interval("return").low)
        verdicts = [interval_verdict(each, true.interval(each.name)) for each in best.intervals]
        yield from checks_of_comparison(best, verdicts)

    return repeat


def _new(task: SyntheticTask, audit: Audit, name: str) -> "Episodes":
    asked = audit.truth_episodes
    count = TRUTH_EPISODES["task"] if asked == "auto" else asked
    return task.new(count, np.random.default_rng(child(audit.seed, name)))


def _return_range(tasks: Sequence[SyntheticTask]) -> Any:
    """Where no return of either can be outside; off if there is no such range."""
    floors = [task.options.get("return_floor", 0.0) for task in tasks]
    return (min(floors), -min(floors)) if all(floors) else "off"


def _seed(audit: Audit, number: int, candidate: int) -> int:
    return child(audit.seed, "repetition", number, *([candidate] if candidate else []))
