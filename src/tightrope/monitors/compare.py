"""Compare two policies in one environment, or two recordings: which is better, and how surely."""

from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tightrope.certificates.ledger import Ledger, Spent, comparison_ledger
from tightrope.certificates.request import Rollout, rollout_arguments
from tightrope.errors import InputError
from tightrope.monitors.answers import (
    ANYTHING,
    Answer,
    Asked,
    answer,
    certified,
    failures,
    narrowed,
    returns,
    spreads,
)
from tightrope.monitors.comparing import QUESTIONS, Comparing, Question
from tightrope.monitors.pairing import pair
from tightrope.monitors.sides import Side, joined, require_comparable, sides_of
from tightrope.seeds import resolve_seed

__all__ = ["Comparison", "compare"]


@dataclass(frozen=True)
class Comparison:
    """What is known of two policies.

    Attributes:
        names: of A and B.
        environment: that both ran in; empty if no recording says.
        answers: to the three questions.
        episodes: of each policy.
        pairing: how episodes were set side by side, in words.
        gamma: discount factor of the returns.
        seed: of the roll-outs; None for recordings.
        confidence: that all intervals hold, at every number of episodes.
        ledger: which failure probability went where.
        assumptions: in plain sentences.
        returns: of A and of B, pair by pair.
    """

    names: tuple[str, str]
    environment: str
    answers: tuple[Answer, ...]
    episodes: int
    pairing: str
    gamma: float
    seed: int | None
    confidence: float
    ledger: tuple[Spent, ...]
    assumptions: tuple[str, ...]
    returns: tuple[tuple[float, ...], tuple[float, ...]]

    def answer(self, question: Question) -> Answer:
        """The answer to one question."""
        return next(each for each in self.answers if each.question == question)

    @property
    def decided(self) -> bool:
        """Whether no question is open."""
        return all(each.verdict != "not decided" for each in self.answers)

    def to_json(self) -> dict[str, Any]:
        """The comparison as a JSON object."""
        return {
            **asdict(self),
            "answers": [{**asdict(each), "verdict": each.verdict} for each in self.answers],
        }

    def __str__(self) -> str:
        from tightrope.monitors.verdicts import in_words

        return in_words(self)

    def __repr__(self) -> str:
        said = ", ".join(f"{each.question}: {each.verdict}" for each in self.answers)
        return f"Comparison({said}; {self.episodes} episodes each)"


def compare(
    first: Any,
    second: Any,
    /,
    env: Any = None,
    *,
    rollout: Rollout | None = None,
    other_rollout: Rollout | None = None,
    progress: bool = False,
    **options: Any,
) -> Comparison:
    """Which of two policies returns more, fails less, and is more predictable.

    Args:
        first: A: a policy to roll out, recorded episodes, or the folder of a certificate.
        second: B, of the same kind.
        env: id, recipe, object or factory of the environment of two policies.
        rollout: how policies are rolled out.
        other_rollout: how B is, if not as A.
        progress: show bars on standard error.
        options: fields of :class:`Comparing`, such as ``max_episodes=1000``.

    Raises:
        InputError: an option is wrong, or the two cannot be compared.
    """
    known = Comparing.__dataclass_fields__
    unknown = sorted(set(options) - set(known))
    if unknown:
        raise InputError(f"expected options among {', '.join(known)}, found {unknown[0]!r}")
    chosen = Comparing(**options)
    rollout = rollout or Rollout()
    ways = (rollout, other_rollout or rollout)
    found = sides_of(first, second, env, *ways)
    work = _Work(chosen, comparison_ledger(
        QUESTIONS, delta=chosen.delta, delta_prime=chosen.delta_prime
    ))  # fmt: skip
    if found.recorded is not None:
        return work.judge(*found.recorded, seed=None)
    seed = resolve_seed(chosen.seed)
    arguments = [rollout_arguments(way) for way in ways]
    batches = _batches(seed, chosen)
    result = None
    sides: tuple[Side, Side] | None = None
    for root, count in batches:
        new = found.roll_out(count, root, arguments, progress)
        sides = new if sides is None else (joined(sides[0], new[0]), joined(sides[1], new[1]))
        result = work.judge(*sides, seed=seed)
        if result.decided:
            break
    assert result is not None  # there is at least one batch
    return result


class _Work:
    """Answers that only ever get narrower, look after look."""

    def __init__(self, options: Comparing, ledger: Ledger) -> None:
        self.options, self.ledger = options, ledger
        self.intervals: dict[Question, tuple[float, float]] = dict.fromkeys(QUESTIONS, ANYTHING)

    def judge(self, first: Side, second: Side, *, seed: int | None) -> Comparison:
        options, gamma = self.options, require_comparable(first, second, self.options.gamma)
        pairing = pair(first.episodes.seeds, second.episodes.seeds)
        totals = first.returns(gamma)[pairing.first], second.returns(gamma)[pairing.second]
        limits = None if options.return_range == "off" else options.return_range
        for name, values in zip("AB", totals, strict=True):
            if limits is not None and not limits[0] <= values.min() <= values.max() <= limits[1]:
                raise InputError(
                    f"expected no return outside the range [{limits[0]:g}, {limits[1]:g}], found "
                    f"[{values.min():g}, {values.max():g}] in {name}: give a wider `return_range`"
                )
        event, fails = self._failure(first, second, gamma)
        asked = [
            returns(*totals, limits),
            failures(fails(first)[pairing.first], fails(second)[pairing.second], event),
            self._predictability(first, second, totals),
        ]
        answers = []
        for each in asked:
            self.intervals[each.question] = narrowed(
                each, self.ledger, self.intervals[each.question]
            )
            answers.append(answer(each, self.intervals[each.question], self.ledger))
        return Comparison(
            names=(first.name, second.name),
            environment=first.environment or second.environment,
            answers=tuple(answers),
            episodes=len(pairing.first),
            pairing=pairing.note,
            gamma=gamma,
            seed=seed,
            confidence=self.ledger.confidence,
            ledger=self.ledger.spent(),
            assumptions=tuple(_assumptions(first, second, limits, rolled_out=seed is not None)),
            returns=(tuple(totals[0].tolist()), tuple(totals[1].tolist())),
        )

    def _predictability(
        self, first: Side, second: Side, totals: tuple[NDArray[np.float64], NDArray[np.float64]]
    ) -> Asked:
        if first.scores is None or second.scores is None:
            limits = None if self.options.return_range == "off" else self.options.return_range
            return spreads(*totals, limits)
        pairing = pair(first.score_seeds, second.score_seeds)
        return certified(first.scores[pairing.first], second.scores[pairing.second])

    def _failure(
        self, first: Side, second: Side, gamma: float
    ) -> tuple[str, Callable[[Side], NDArray[np.bool_]]]:
        """When an episode fails, in words and as a function."""
        below, asked = self.options.fail_below, self.options.failure
        recorded = first.episodes.success is not None and second.episodes.success is not None
        if asked == "auto":
            asked = "return" if below != "off" else "success" if recorded else "early"
        if asked == "early":
            return "it terminates early", lambda side: side.episodes.terminated
        if asked == "return":
            assert below != "off"  # the options ask for it
            return f"it returns less than {below:g}", lambda side: side.returns(gamma) < below
        if not recorded:
            raise InputError(
                "expected episodes that record success for `failure` success, found some that do "
                "not: use early, or `fail_below`"
            )
        return "it is no success", lambda side: ~np.asarray(side.episodes.success)


def _batches(seed: int, options: Comparing) -> Iterator[tuple[int, int]]:
    """The root seed of each batch, and its episodes; no two batches share an episode's seed."""
    from tightrope.rollouts import episode_seeds

    used: set[int] = set()
    done = number = 0
    while done < options.max_episodes:
        count = min(options.batch, options.max_episodes - done)
        while True:
            root = int(np.random.SeedSequence((seed, number)).generate_state(1)[0] >> 1)
            number += 1
            own = set(episode_seeds(root, count))
            if not own & used:
                break
        used |= own
        done += count
        yield root, count


def _assumptions(
    first: Side, second: Side, limits: tuple[float, float] | None, *, rolled_out: bool
) -> Iterator[str]:
    if rolled_out:
        yield "Pairs of episodes are independent: each has a seed of its own, which A and B share."
    else:
        yield (
            "The recorded episodes are independent and identically distributed, each recording of "
            "one policy; this was not checked."
        )
        known = bool(first.environment), bool(second.environment)
        if not all(known):
            yield "Both recordings are of one environment; this was not checked."
    seeds = next((side.seeds for side in (first, second) if "goals" in side.seeds), "")
    if seeds:
        yield f"Seeds: {seeds}."
    if limits is None:
        yield (
            "Nothing is assumed of returns. Which of two episodes returns more is another question "
            "than which returns more on average: a rare large return counts once."
        )
    else:
        low, high = limits
        yield f"No return of either policy is outside [{low:g}, {high:g}], said the user."
    yield (
        "The intervals hold at every number of episodes at once, so it was allowed to look after "
        "each batch and to stop when decided."
    )
