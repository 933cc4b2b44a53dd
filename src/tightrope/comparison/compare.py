"""Compare two policies in one environment, or two recordings: which is better, how surely."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from typing import Annotated, Any, Literal

import numpy as np
from pydantic import Field

from tightrope.certificates.ledger import DELTA, DELTA_PRIME, Ledger, LedgerEntry
from tightrope.certificates.options import Auto, Candidates, Discount, Off, Proper, Termination
from tightrope.certificates.text import percent, rounded
from tightrope.comparison.counts import CountComparison, compare_counts
from tightrope.comparison.questions import UNDECIDED, Interval, ends_text, intersect, questions
from tightrope.comparison.samples import Recording, Sample, open_both, pair, samples_of
from tightrope.errors import InputError, as_lines
from tightrope.records import checked
from tightrope.rollouts import Episode, PolicySource, Rollout, collect, join
from tightrope.rollouts.results_table import Evaluation
from tightrope.seeds import Seed, resolve_seed

__all__ = ["CompareOptions", "Comparison", "compare"]

_Several = Annotated[int, Field(ge=2, le=10_000_000)]


@checked
class CompareOptions:
    """How two policies are compared: the options of the command, and their help.

    Attributes:
        max_episodes: Episodes of each policy after which to stop, decided or not; of recordings all
            are used.
        batch: Episodes of each policy that are rolled out before looking again.
        gamma: Discount factor of the returns that are compared; auto: that of two certificates,
            else 1.
        return_range: Smallest and largest return that any episode can have. With it expected
            returns are compared, too.
        fail_below: An episode with a smaller undiscounted return fails.
        termination: What it means that an episode terminates: failure, success (it reaches its
            goal), or neither. A recorded success has precedence.
        order: Order of recorded episodes; random: one that is drawn from the seed, for tables that
            were sorted. The comparison then holds for this number of episodes only.
        candidates: Number of such comparisons you may choose from, such as one policy against each
            of several; the confidence accounts for it.
        delta: Failure probability of all intervals together, first part.
        delta_prime: The second part, as in certificates; nothing is drawn here, so both are spent
            on the data.
        seed: Root of the episodes' seeds, and of a random order; fresh: one that is drawn and
            recorded.

    Raises:
        InputError: a value is outside its set.
    """

    max_episodes: _Several = 500
    batch: _Several = 50
    gamma: Discount | Auto = "auto"
    return_range: tuple[float, float] | Off = "off"
    fail_below: float | Off = "off"
    termination: Termination = "neutral"
    order: Literal["recorded", "random"] = "recorded"
    candidates: Candidates = 1
    delta: Proper = DELTA
    delta_prime: Proper = DELTA_PRIME
    seed: Seed = "fresh"

    def __post_init__(self) -> None:
        if isinstance(self.return_range, tuple) and not self.return_range[0] < self.return_range[1]:
            raise InputError(
                f"expected a finite `return_range` LO < HI, found {self.return_range!r}"
            )
        if self.fail_below != "off" and self.termination != "neutral":
            raise InputError(
                f"expected `fail_below` or `termination` {self.termination}, found both: one event "
                "is compared"
            )
        resolve_seed(self.seed)
        if self.delta + self.delta_prime >= 1:
            found = f"{self.delta!r} + {self.delta_prime!r}"
            raise InputError(f"`delta` + `delta_prime` must be below 1, found {found}")

    def ledger(self, names: Sequence[str]) -> Ledger:
        """What each side of each question may fail with."""
        given = {name: getattr(self, name) for name in ("delta", "delta_prime", "candidates")}
        return Ledger.comparison(names, **given)


@dataclass(frozen=True, eq=False)
class Comparison:
    """What is known of two policies.

    Attributes:
        names: of A and B.
        environment: that both ran in; empty if no recording says.
        intervals: answers to the questions, task by task.
        episodes: of each policy.
        pairing: how episodes were paired, in words.
        gamma: discount factor of the returns.
        seed: of the roll-outs, or of a random order; None for recordings in recorded order.
        anytime: whether the intervals hold at every number of episodes.
        candidates: comparisons to choose from.
        confidence: that all intervals of all of them hold.
        ledger: which failure probability went where.
        assumptions: in sentences.
        returns: of A and of B, pair by pair; empty where a table has none.
    """

    names: tuple[str, str]
    environment: str
    intervals: tuple[Interval, ...]
    episodes: int
    pairing: str
    gamma: float
    seed: int | None
    anytime: bool
    candidates: int
    confidence: float
    ledger: tuple[LedgerEntry, ...]
    assumptions: tuple[str, ...]
    returns: tuple[tuple[float, ...], tuple[float, ...]]

    def interval(self, name: str) -> Interval:
        """The answer to the question of a name, such as ``return``.

        Raises:
            InputError: it was not asked.
        """
        for interval in self.intervals:
            if interval.name == name:
                return interval
        known = ", ".join(interval.name for interval in self.intervals)
        raise InputError(f"expected a question among {known}, found {name!r}")

    @property
    def decided(self) -> bool:
        """Whether no question is open."""
        return all(interval.verdict != UNDECIDED for interval in self.intervals)

    @property
    def disagreement(self) -> str:
        """That one returns more in more pairs and the other on average; empty if they agree."""
        found = {each.name: each for each in self.intervals}
        pairs = [each for each in self.intervals if each.name.startswith("return")]
        said = (_disagreement(each, found.get(f"mean {each.name}")) for each in pairs)
        return " ".join(filter(None, said))

    @property
    def title(self) -> str:
        """What was compared."""
        where = self.environment or "an unnamed environment"
        return f"A: {self.names[0]}, B: {self.names[1]}, in {where}"

    @property
    def confidence_sentence(self) -> str:
        """With which confidence the intervals hold, and when."""
        several = f" of all {self.candidates} comparisons" if self.candidates > 1 else ""
        when = "at every number of episodes" if self.anytime else "for this number of episodes only"
        sides = ""
        if any(each.sides for each in self.intervals):
            alone = percent(min(each.confidence for each in self.intervals))
            sides = f" Intervals of A and of B alone hold with {alone} each, apart from that."
        return (
            f"All intervals{several} hold at once, {when}, with confidence "
            f"{percent(self.confidence)}.{sides}"
        )

    def to_json(self) -> dict[str, Any]:
        """The comparison as a JSON object."""
        return {
            **{entry.name: getattr(self, entry.name) for entry in fields(self)},
            "intervals": [interval.to_json() for interval in self.intervals],
            "disagreement": self.disagreement,
            "ledger": [asdict(entry) for entry in self.ledger],
        }

    def __str__(self) -> str:
        several = any(", " in each.name for each in self.intervals)
        lines = [self.title, "", *(_table if several else _block)(self.intervals)]
        lines += ["", self.disagreement] if self.disagreement else []
        seed = "" if self.seed is None else f"; seed {self.seed}"
        how = f"{self.episodes:,} episodes each, {self.pairing}; gamma {self.gamma:g}{seed}"
        lines += ["", self.confidence_sentence, how]
        return as_lines([*lines, "", "Assumptions", *(f"  - {each}" for each in self.assumptions)])

    def __repr__(self) -> str:
        answers = ", ".join(f"{each.name}: {each.verdict}" for each in self.intervals)
        return f"Comparison({answers}; {self.episodes} episodes each)"


def _disagreement(pairs: Interval, means: Interval | None) -> str:
    gap = pairs.first - pairs.second
    certified = [pairs.is_decided, means is not None and means.is_decided]
    if not any(certified) or pairs.effect * gap >= 0:
        return ""
    often, average = ("B", "A") if gap > 0 else ("A", "B")
    basis = ["certified" if each else "in this sample" for each in certified]
    task = pairs.name.partition(", ")[2]
    return (
        f"The returns disagree{f' in {task}' if task else ''}: {often} returns more in more of "
        f"the pairs ({basis[0]}), {average} returns more on average ({basis[1]}: A "
        f"{pairs.first:.6g}, B {pairs.second:.6g})."
    )


def _block(intervals: Sequence[Interval]) -> Iterator[str]:
    """Four lines for each question."""
    for each in intervals:
        reach = "too few pairs differ to detect any difference"
        if each.detectable is not None:
            reach = f"as many pairs detect {rounded(each.detectable, 'up')} or more"
        yield f"{each.title[0].upper()}{each.title[1:]}: {each.verdict_text}"
        yield f"  {each.measure}:"
        yield f"    {each.effect:.4g} in the sample, {each.ends}; {reach}"
        yield f"  {each.figure}: A {each.figures[0]}, B {each.figures[1]} (n = {each.n:,})"


def _table(intervals: Sequence[Interval]) -> Iterator[str]:
    """A row for each question of each task."""
    rows: list[tuple[str, ...]] = [("", "A", "B", "A against B", "interval", "detects", "verdict")]
    for each in intervals:
        least = "-" if each.detectable is None else rounded(each.detectable, "up")
        ends = ends_text(each.low, each.high)
        effect = f"{each.effect:.4g}"
        rows.append((each.name, *each.figures, effect, ends, least, each.verdict_text))
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        cells = (cell.ljust(width) for cell, width in zip(row, widths, strict=True))
        yield "  ".join(cells).rstrip()
    yield ""
    for name, each in {each.name.partition(", ")[0]: each for each in intervals}.items():
        yield f"{name}: {each.measure}; A and B: {each.figure}."


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
    reading = {"columns": columns or None, "frozen": frozen, "evaluation": evaluation}
    opened: Any = open_both(first, second, env, rollouts, **reading)
    if isinstance(opened[0], PolicySource):
        return _compare_policies(opened, rollouts, chosen, progress)
    if any(each.table and not each.table["ordered"] for each in opened):
        return compare_counts(opened, chosen)
    return _compare_recordings(opened, chosen)


def _compare_recordings(recordings: Sequence[Recording], options: CompareOptions) -> Comparison:
    one, other, gamma = samples_of(recordings, options.gamma)
    seed = resolve_seed(options.seed) if options.order == "random" else None
    options = replace(options, candidates=options.candidates * one.candidates * other.candidates)
    others = other.by_task()
    found = {task: pair(part, others[task], seed) for task, part in one.by_task().items()}
    known = {"seed": seed, "pairing": "; ".join({note: 0 for *_, note in found.values()})}
    return _judge({task: each[:2] for task, each in found.items()}, options, gamma, known)


def _compare_policies(
    sources: Sequence[PolicySource],
    rollouts: Sequence[Rollout],
    options: CompareOptions,
    progress: bool,
) -> Comparison:
    """Roll both out with the same seeds, in batches, until every question is decided."""
    if options.order == "random":
        raise InputError(
            "expected no `order` random for policies: their episodes have common seeds"
        )
    one, other = (source.environment for source in sources)
    if one.to_json() != other.to_json():
        raise InputError(
            f"expected policies for one environment, found {one.id} for A and {other.id} for B: "
            "give `env`"
        )
    gamma = 1.0 if options.gamma == "auto" else options.gamma
    known = {"seed": (seed := resolve_seed(options.seed)), "pairing": "paired by seed"}
    comparison: Comparison | None = None
    recorded: tuple[list[Episode], list[Episode]] = [], []
    for first in range(0, options.max_episodes, options.batch):
        count, samples = min(options.batch, options.max_episodes - first), []
        for source, rollout, kept in zip(sources, rollouts, recorded, strict=True):
            given = source.policy, source.environment, count, seed
            found = collect(*given, first=first, progress=progress, **rollout.arguments)
            kept += found
            name = str(found.subject["policy"]["name"])
            samples.append(Sample.of(name, join(kept, found.subject), gamma))
        comparison = _judge({"": samples}, options, gamma, known, comparison, rolled_out=True)
        if comparison.decided:
            break
    assert comparison is not None  # there is at least one batch
    return comparison


def _judge(
    paired: Mapping[str, Sequence[Sample]],
    options: CompareOptions,
    gamma: float,
    known: Mapping[str, Any],
    before: Comparison | None = None,
    *,
    rolled_out: bool = False,
) -> Comparison:
    """Every interval of every task, within those from fewer episodes."""
    asked = [
        replace(q, name=f"{q.name}, {task}" if task else q.name)
        for task, (one, other) in paired.items()
        for q in questions(one, other, options, gamma)
    ]
    if not asked:
        raise InputError(
            "expected a column of returns, or of successes, that both tables have, found none"
        )
    names = [question.name for question in asked]
    meant = {question.measure for question in asked}
    if before is not None and meant != {each.measure for each in before.intervals}:
        raise InputError(
            "expected `success` in every episode or in none, found it in those of the first "
            "batches only: give `fail_below`"
        )
    ledger = options.ledger(names)
    earlier = [None] * len(asked) if before is None else before.intervals
    intervals = [intersect(q, ledger, e) for q, e in zip(asked, earlier, strict=True)]
    (one, other), sides = next(iter(paired.values())), list(zip(*paired.values(), strict=True))
    return Comparison(
        names=(one.name, other.name),
        environment=one.environment or other.environment,
        intervals=tuple(intervals),
        episodes=sum(map(len, sides[0])),
        gamma=gamma,
        anytime=options.order == "recorded",
        candidates=options.candidates,
        confidence=ledger.confidence,
        ledger=ledger.entries,
        assumptions=tuple(_assumptions(one, other, options, rolled_out=rolled_out)),
        returns=(_returns(sides[0]), _returns(sides[1])),
        **known,
    )


def _returns(samples: Sequence[Sample]) -> tuple[float, ...]:
    return tuple(x for each in samples for x in each.columns.get("returns", np.zeros(0)).tolist())


def _assumptions(
    first: Sample, second: Sample, options: CompareOptions, *, rolled_out: bool
) -> list[str]:
    found = ["Pairs of episodes are independent: each has a seed of its own, which A and B share."]
    if not rolled_out:
        found = [
            "The recorded episodes are independent and identically distributed, each recording of "
            "one policy; this was not checked."
        ]
        if not (first.environment and second.environment):
            found.append("Both recordings are of one environment; this was not checked.")
    found += dict.fromkeys((*first.notes, *second.notes))
    if options.return_range != "off":
        low, high = options.return_range
        outside = f"outside [{low:.12g}, {high:.12g}]"
        found.append(f"No return of either policy lies {outside}, as the user states.")
    elif all("returns" in each.columns for each in (first, second)):
        found.append(
            "Nothing is assumed of returns. Returning more in a pair of episodes is not returning "
            "more on average: a rare large return counts once."
        )
    if options.order == "random":
        found.append(
            "The number of episodes was fixed beforehand: a random order does not allow looking at "
            "results on the way."
        )
    else:
        found.append(
            "The intervals hold at every number of episodes at once, so it is allowed to look "
            "after each batch and to stop when decided."
        )
    return found
