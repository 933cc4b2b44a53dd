"""Compare two policies in one environment, or two recordings: which is better, how surely."""

import itertools
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from tightrope.comparison.compare_options import CompareOptions
from tightrope.comparison.counts import CountComparison, are_counts, compare_counts
from tightrope.comparison.questions import Question, intersect, questions
from tightrope.comparison.result import Comparison
from tightrope.comparison.samples import (
    Sample,
    are_recorded,
    load_samples,
    pair,
    require_unsorted,
)
from tightrope.errors import InputError
from tightrope.rollouts import PolicySource, Rollout, collect, episode_seeds, policy_source
from tightrope.rollouts.results_table import Evaluation, Reading
from tightrope.seeds import resolve_seed

__all__ = ["compare"]


def compare(
    first: Any,
    second: Any,
    /,
    env: Any = None,
    *,
    columns: Any = "",
    frozen: bool = False,
    evaluation: Evaluation = "last",
    rollout: Rollout | None = None,
    other_rollout: Rollout | None = None,
    progress: bool = False,
    **options: Any,
) -> Comparison | CountComparison:
    """Compare the returns, failures and predictability of two policies.

    Args:
        first: A: a policy to roll out, recorded episodes, a table of results, counts such as
            ``74/80``, or the folder of a certificate.
        second: B, of the same kind.
        env: id, `file.py:function`, object or function that returns the environment.
        columns: which column of a table is what, as for :func:`tightrope.certify`.
        frozen: the rows of a `monitor.csv` are evaluation episodes of one policy.
        evaluation: which row of an `evaluations.npz`: its number, from 1; last; or best.
        rollout: how policies are rolled out.
        other_rollout: how B is, if not as A.
        progress: show bars on standard error.
        options: fields of :class:`CompareOptions`, such as ``max_episodes=1000``.

    Raises:
        InputError: an option is wrong, or the two cannot be compared.
    """
    chosen = CompareOptions(**options)
    rollouts = rollout or Rollout(), other_rollout or rollout or Rollout()
    reading = Reading(columns, frozen, evaluation)
    if are_counts(first, second):
        _refuse_rollout(env, rollouts)
        return compare_counts(first, second, chosen, reading)
    if are_recorded(first, second, reading.columns):
        _refuse_rollout(env, rollouts)
        return _compare_recordings(first, second, chosen, reading)
    return _compare_policies(_policies(first, second, env, rollouts), rollouts, chosen, progress)


def _compare_recordings(
    first: Any, second: Any, options: CompareOptions, reading: Reading
) -> Comparison:
    one, other, gamma = load_samples(first, second, options.gamma, reading)
    seed = resolve_seed(options.seed) if options.order == "random" else None
    options = replace(options, candidates=options.candidates * one.candidates * other.candidates)
    parts, others = one.by_task(), other.by_task()
    pairings = {task: pair(parts[task].seeds, others[task].seeds, seed) for task in parts}
    paired = {}
    for task, pairing in pairings.items():
        if seed is None:
            require_unsorted(parts[task], others[task], pairing)
        paired[task] = parts[task].rows(pairing.first), others[task].rows(pairing.second)
    notes = [pairing.note for pairing in pairings.values()]
    return _judge(paired, notes, options, gamma, seed=seed, recorded=True)


def _compare_policies(
    policies: tuple[PolicySource, PolicySource],
    rollouts: tuple[Rollout, Rollout],
    options: CompareOptions,
    progress: bool,
) -> Comparison:
    """Roll both out with the same seeds, in batches, until every question is decided."""
    if options.order == "random":
        raise InputError(
            "expected no `order` random for policies: their episodes have common seeds"
        )
    gamma = 1.0 if options.gamma == "auto" else options.gamma
    seed = resolve_seed(options.seed)
    comparison: Comparison | None = None
    samples: list[Sample] = []
    for root, count in _batches(seed, options):
        batch = []
        for source, rollout in zip(policies, rollouts, strict=True):
            given = source.policy, source.environment, count, root
            episodes = collect(*given, progress=progress, **rollout.arguments)
            batch.append(Sample.of(str(episodes.subject["policy"]["name"]), episodes, gamma))
        samples = [a.joined(b) for a, b in zip(samples, batch, strict=True)] if samples else batch
        one, other = samples
        pairing = pair(one.seeds, other.seeds)
        paired = {"": (one.rows(pairing.first), other.rows(pairing.second))}
        comparison = _judge(
            paired, [pairing.note], options, gamma, seed=seed, recorded=False, before=comparison
        )
        if comparison.decided:
            break
    assert comparison is not None  # there is at least one batch
    return comparison


def _judge(
    paired: Mapping[str, tuple[Sample, Sample]],
    notes: list[str],
    options: CompareOptions,
    gamma: float,
    *,
    seed: int | None,
    recorded: bool,
    before: Comparison | None = None,
) -> Comparison:
    """Every interval of every task, within those from fewer episodes."""
    asked: list[Question] = []
    for task, (one, other) in paired.items():
        if options.return_range != "off":
            _require_inside(options.return_range, one, other)
        for q in questions(one, other, options, gamma):
            asked.append(replace(q, name=f"{q.name}, {task}", task=task) if task else q)
    names = [question.name for question in asked]
    if not asked:
        raise InputError(
            "expected a column of returns, or of successes, that both tables have, found none"
        )
    earlier = [None] * len(asked) if before is None else before.intervals
    if before is not None and names != [each.question.name for each in before.intervals]:
        raise InputError(
            "expected `success` in every episode or in none, found it in those of the first "
            "batches only: give `fail_below`"
        )
    ledger = options.ledger(names)
    sides = [[pairs[side] for pairs in paired.values()] for side in (0, 1)]
    return Comparison(
        names=(one.name, other.name),
        environment=one.environment or other.environment,
        intervals=tuple(
            intersect(question, ledger, interval)
            for question, interval in zip(asked, earlier, strict=True)
        ),
        episodes=sum(map(len, sides[0])),
        pairing="; ".join(dict.fromkeys(notes)),
        gamma=gamma,
        seed=seed,
        anytime=options.order == "recorded",
        candidates=options.candidates,
        confidence=ledger.confidence,
        ledger=ledger.entries,
        assumptions=tuple(_assumptions(one, other, options, recorded=recorded)),
        returns=(_returns(sides[0]), _returns(sides[1])),
    )


def _returns(samples: list[Sample]) -> tuple[float, ...]:
    return tuple(x for each in samples for x in each.columns.get("returns", np.zeros(0)).tolist())


def _batches(seed: int, options: CompareOptions) -> Iterator[tuple[int, int]]:
    """The root seed of each batch, and its episodes; no two batches share an episode's seed."""
    used: set[int] = set()
    for number in itertools.count():
        count = min(options.batch, options.max_episodes - len(used))
        if not count:
            return
        root = int(np.random.SeedSequence((seed, number)).generate_state(1)[0] >> 1)
        seeds = set(episode_seeds(root, count))
        if not seeds & used:
            used |= seeds
            yield root, count


def _policies(
    first: Any, second: Any, env: Any, rollouts: tuple[Rollout, Rollout]
) -> tuple[PolicySource, PolicySource]:
    one = policy_source(first, env, rollouts[0].env_kwargs)
    other = policy_source(second, env, rollouts[1].env_kwargs)
    if one.environment.to_json() != other.environment.to_json():
        raise InputError(
            f"expected policies for one environment, found {one.environment.id} for A and "
            f"{other.environment.id} for B: give `env`"
        )
    return one, other


def _refuse_rollout(env: Any, rollouts: tuple[Rollout, Rollout]) -> None:
    given = {"env": env} if env is not None else {}
    for each in rollouts:
        given |= {k: v for k, v in vars(each).items() if v != getattr(Rollout(), k)}
    if given:
        raise InputError(f"expected no `{next(iter(given))}` for recorded episodes")


def _require_inside(limits: tuple[float, float], first: Sample, second: Sample) -> None:
    for name, sample in (("A", first), ("B", second)):
        if "returns" not in sample.columns:
            raise InputError(f"expected no `return_range`, found a table without returns as {name}")
        returns = sample.columns["returns"]
        low, high = returns.min(), returns.max()
        if not limits[0] <= low <= high <= limits[1]:
            raise InputError(
                f"expected no return outside the range [{limits[0]:g}, {limits[1]:g}], found "
                f"[{low:g}, {high:g}] in {name}: give a wider `return_range`, on other episodes "
                "or with `candidates`, since these have been seen"
            )


def _assumptions(
    first: Sample, second: Sample, options: CompareOptions, *, recorded: bool
) -> Iterator[str]:
    if not recorded:
        yield "Pairs of episodes are independent: each has a seed of its own, which A and B share."
    else:
        yield (
            "The recorded episodes are independent and identically distributed, each recording of "
            "one policy; this was not checked."
        )
        if not all("terminated" in each.columns for each in (first, second)):
            yield (
                "The rows of a table were not selected by which episode finished first in a "
                "vectorised environment; this was not checked."
            )
        if not (first.environment and second.environment):
            yield "Both recordings are of one environment; this was not checked."
    yield from dict.fromkeys((*first.notes, *second.notes))
    goals = first.goals or second.goals
    if goals:
        yield f"Seeds: {goals}."
    if options.return_range != "off":
        low, high = options.return_range
        outside = f"outside [{low:.12g}, {high:.12g}]"
        yield f"No return of either policy lies {outside}, as the user states."
    elif all("returns" in each.columns for each in (first, second)):
        yield (
            "Nothing is assumed of returns. Returning more in a pair of episodes is not returning "
            "more on average: a rare large return counts once."
        )
    if options.order == "random":
        yield (
            "The number of episodes was fixed beforehand: a random order does not allow looking at "
            "results on the way."
        )
    else:
        yield (
            "The intervals hold at every number of episodes at once, so it is allowed to look "
            "after each batch and to stop when decided."
        )
