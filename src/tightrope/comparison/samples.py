"""Samples: the numbers of each episode of a policy, and which episodes of two are paired."""

from collections.abc import Iterator
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from tightrope.certificates.evidence import every
from tightrope.certificates.options import Auto
from tightrope.errors import InputError
from tightrope.rollouts import Episodes, is_recording, load_episodes
from tightrope.rollouts.results_table import (
    Reading,
    ResultsTable,
    is_results,
    read_results,
    table_of,
)
from tightrope.seeds import Stream, child_seed

if TYPE_CHECKING:
    from tightrope.certificates.certificate import Certificate

__all__ = ["Pairing", "Sample", "are_recorded", "load_samples", "pair", "require_unsorted"]

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]
Rows = NDArray[np.int64]

_SORTED = 10  # episodes in order that are no chance any more
_OUTCOMES = 3  # of each kind, likewise


@dataclass(frozen=True, eq=False)
class Sample:
    """Episodes of one policy, a number of each kind per episode.

    Attributes:
        name: of the policy, recording or table.
        seeds: (episodes,) seeds, or numbers of the rows of a table; -1 where not recorded.
        returns: (episodes,) at the discount factor that is compared; None if a table has none.
        undiscounted: (episodes,) returns without a discount factor.
        terminated: (episodes,) whether the environment ended it; None in a table.
        success: (episodes,) as recorded; None where it is not.
        errors: (episodes,) RMS error of the prediction by its certificate, NaN where the predictor
            was fitted to the episode; None without a certificate.
        error_steps: the steps that errors are taken over, in words.
        environment: id; empty where not recorded.
        goals: what a seed picks from, in words, where that is a set of goals.
        features: of an observation; None without observations.
        unit: of the returns.
        tasks: name and number of episodes of each task, in order.
        candidates: evaluations that a table was chosen from after looking.
        notes: what else the numbers of a table rest on.
    """

    name: str
    seeds: Rows
    returns: Floats | None = None
    undiscounted: Floats | None = None
    terminated: Bools | None = None
    success: Bools | None = None
    errors: Floats | None = None
    error_steps: str = ""
    environment: str = ""
    goals: str = ""
    features: int | None = None
    unit: str = "return"
    tasks: tuple[tuple[str, int], ...] = ()
    candidates: int = 1
    notes: tuple[str, ...] = ()

    @classmethod
    def of(cls, name: str, episodes: Episodes, gamma: float) -> "Sample":
        """What is compared of whole episodes."""
        environment = episodes.subject.get("environment", {})
        return cls(
            name=name,
            seeds=episodes.seeds,
            returns=episodes.returns(gamma),
            undiscounted=episodes.returns(1.0),
            terminated=episodes.terminated,
            success=episodes.success,
            environment=str(environment.get("id", "")),
            goals="" if environment.get("goal_seed") is None else str(environment["seeds"]),
            features=episodes.observations.shape[1],
        )

    @classmethod
    def of_table(cls, table: ResultsTable) -> "Sample":
        """What is compared of a table of results."""
        return cls(
            name=table.name,
            seeds=table.keys,
            returns=table.returns,
            undiscounted=table.returns,
            success=table.success,
            unit=table.unit,
            tasks=table.tasks,
            candidates=table.candidates,
            notes=table.notes,
        )

    def __len__(self) -> int:
        return len(self.seeds)

    def rows(self, rows: Rows) -> "Sample":
        """These episodes, in this order."""
        columns: dict[str, Any] = {name: values[rows] for name, values in self._columns()}
        return replace(self, tasks=(), **columns)

    def joined(self, more: "Sample") -> "Sample":
        """The episodes of both, in order; a column stays if both have it."""
        other = dict(more._columns())
        columns: dict[str, Any] = {
            name: np.concatenate([values, other[name]]) if name in other else None
            for name, values in self._columns()
        }
        return replace(self, **columns)

    def by_task(self) -> dict[str, "Sample"]:
        """The episodes of each task."""
        found, first = {}, 0
        for name, count in self.tasks or (("", len(self)),):
            found[name] = self.rows(np.arange(first, first + count))
            first += count
        return found

    def _columns(self) -> Iterator[tuple[str, NDArray[Any]]]:
        for entry in fields(self):
            if isinstance(values := getattr(self, entry.name), np.ndarray):
                yield entry.name, values


def are_recorded(first: Any, second: Any, columns: str = "") -> bool:
    """Whether both are recordings, tables or certificates, rather than policies.

    Raises:
        InputError: one is and the other is not.
    """
    recorded = [
        _is_certificate(source) or is_results(source, columns) or is_recording(source)
        for source in (first, second)
    ]
    if recorded[0] != recorded[1]:
        kinds = ["recorded episodes" if each else "a policy" for each in recorded]
        raise InputError(
            f"expected two policies or two recordings, found {kinds[0]} as A and {kinds[1]} as B: "
            "record episodes of the policy with tightrope collect"
        )
    return recorded[0]


def load_samples(
    first: Any, second: Any, gamma: float | Auto, reading: Reading
) -> tuple[Sample, Sample, float]:
    """Both samples, and the discount factor of their returns.

    Args:
        first: episodes by any name, a table of results, or the folder of a certificate.
        second: the same.
        gamma: discount factor; auto: that of the certificates, else 1.
        reading: how tables are read.

    Raises:
        InputError: environments, observations, units, tasks, discount factors or steps that count
            differ, or episodes are missing.
    """
    loaded = [_load(source, reading) for source in (first, second)]
    discount = _discount(loaded, gamma)
    one, other = (
        _sample(source, each, label, discount)
        for source, each, label in zip((first, second), loaded, "AB", strict=True)
    )
    for what, found in (
        ("episodes of one environment", (one.environment, other.environment)),
        ("observations of one size in numbers", (one.features, other.features)),
        ("returns of one unit", (one.unit, other.unit)),
        ("the same tasks", tuple(_tasks(each) for each in (one, other))),
    ):
        if found[0] != found[1] and all(found):
            raise InputError(f"expected {what}, found {found[0]} in A and {found[1]} in B")
    return one, other, discount


def _tasks(sample: Sample) -> str:
    return ", ".join(sorted(name for name, _ in sample.tasks) or [""]) or "a single one"


def _is_certificate(source: Any) -> bool:
    if not isinstance(source, str | Path) or not Path(source).is_dir():
        return False
    from tightrope.certificates.folder import DOCUMENT

    return (Path(source) / DOCUMENT).is_file()


def _load(source: Any, reading: Reading) -> "Episodes | ResultsTable | Certificate":
    if is_results(source, reading.columns):
        return read_results(source, **vars(reading))
    if not _is_certificate(source):
        return load_episodes(source, reading.columns or None)
    from tightrope.certificates.folder import load_certificate

    return load_certificate(source)


def _discount(loaded: list[Any], gamma: float | Auto) -> float:
    certificates = [each for each in loaded if hasattr(each, "settings")]
    for what, values in (
        ("`gamma`", [c.settings.gamma for c in certificates]),
        ("`thin`", [c.thin for c in certificates]),
    ):
        if len(set(values)) > 1:
            raise InputError(
                f"expected certificates with one {what}, found {values[0]} in A and {values[1]} in "
                "B: certify one of them again"
            )
    stated = 1.0 if any(isinstance(each, ResultsTable) for each in loaded) else None
    stated = certificates[0].settings.gamma if certificates else stated
    if gamma == "auto":
        return 1.0 if stated is None else stated
    if stated is not None and gamma != stated:
        raise InputError(
            f"expected the `gamma` of the certificates or tables, {stated:g}, found {gamma:g}: "
            "they know no other"
        )
    return gamma


def _sample(source: Any, loaded: Any, label: str, gamma: float) -> Sample:
    if isinstance(loaded, ResultsTable):
        return Sample.of_table(loaded)
    name = Path(source).name if isinstance(source, str | Path) else type(source).__name__
    episodes = loaded if isinstance(loaded, Episodes) else loaded.rollouts
    partial = episodes.subject.get("partial")
    if partial is not None:
        raise InputError(
            f"expected a whole collection as {label}, found a partial one ({partial}): it favours "
            "short episodes, so collect again"
        )
    if table_of(episodes) is not None:  # whether its rows have an order, tasks or candidates
        raise InputError(
            f"expected the table itself as {label}, found a certificate or recording of one, "
            f"{name}: compare the files, or the counts, that it was made from"
        )
    sample = Sample.of(name, episodes, gamma)
    if loaded is episodes:
        return sample
    errors = np.full(len(episodes), np.nan)
    if loaded.unseen is not None:
        errors[-len(loaded.unseen) :] = loaded.evidence(loaded.unseen).rms
    return replace(sample, errors=errors, error_steps=every(loaded.thin))


@dataclass(frozen=True)
class Pairing:
    """Pairs of episodes that are independent of each other and alike.

    Attributes:
        first: (pairs,) which episodes of A.
        second: (pairs,) which of B, in the same order.
        by_seed: whether the two of a pair have one seed.
        note: in words.
    """

    first: Rows
    second: Rows
    by_seed: bool
    note: str


def pair(first: Rows, second: Rows, seed: int | None = None) -> Pairing:
    """Pair by equal seeds where there are any in common, otherwise in recorded order.

    Either way pairs are independent of each other, which is all that section D asks for. A seed
    must not be in one pair with A's episode and in another with B's: so the seeds in common are
    either all of the shorter recording's, or none.

    Args:
        first: seeds of A's episodes, -1 where not recorded.
        second: seeds of B's episodes.
        seed: of a random order in place of the recorded one; None for that.

    Raises:
        InputError: a seed appears twice in one recording, or only some are in common.
    """
    for name, seeds in (("A", first), ("B", second)):
        known = seeds[seeds >= 0]
        if len(np.unique(known)) < len(known):
            raise InputError(f"expected episodes with distinct seeds, found a seed twice in {name}")
    rng = None if seed is None else np.random.default_rng(child_seed(seed, Stream.ORDER))
    order = "in recorded order" if rng is None else f"in a random order from seed {seed}"
    fewer, more = sorted((len(first), len(second)))
    _, in_first, in_second = np.intersect1d(first, second, return_indices=True)
    shared = first[in_first] >= 0
    if shared.any():
        if shared.sum() < fewer:
            raise InputError(
                f"expected all seeds of the shorter recording in the longer one, or none, found "
                f"{shared.sum()} of {fewer}: pairs would depend on each other; cut both recordings "
                "to the seeds in common, or record one again"
            )
        in_first, in_second = in_first[shared], in_second[shared]
        rows = np.argsort(in_first, kind="stable") if rng is None else rng.permutation(fewer)
        note = "paired by seed" + ("" if rng is None else f", {order}")
        note += f"; {more - fewer} episodes without a partner left out" if more > fewer else ""
        return Pairing(in_first[rows], in_second[rows], True, note)
    recorded = bool((first >= 0).all() and (second >= 0).all())
    why = "the recordings have no seed in common" if recorded else "seeds are not recorded"
    note = f"paired {order}, since {why}"
    if more > fewer:
        last = "the last " if rng is None else ""
        note += f"; {last}{more - fewer} episodes of the longer recording left out"
    one, other = (
        np.arange(len(seeds)) if rng is None else rng.permutation(len(seeds))
        for seeds in (first, second)
    )
    return Pairing(one[:fewer], other[:fewer], False, note)


def require_unsorted(first: Sample, second: Sample, pairing: Pairing) -> None:
    """Refuse recordings whose order depends on what happened in the episodes.

    Rows that were sorted by return and then paired differ by much less than pairs of episodes do,
    so equal policies would look different. By seed, only the order of the pairs counts.

    Raises:
        InputError: returns or outcomes are in order.
    """
    if pairing.by_seed:
        first, second = first.rows(pairing.first), second.rows(pairing.second)
    for name, sample in (("A", first), ("B", second)):
        for what, values, least in (
            ("return", sample.returns, _SORTED),
            ("undiscounted return", sample.undiscounted, _SORTED),
            ("success", sample.success, 2 * _OUTCOMES),
            ("termination", sample.terminated, 2 * _OUTCOMES),
        ):
            if values is not None and len(values) >= least and _in_order(values.astype(float)):
                raise InputError(
                    f"expected {name} in the order in which its episodes were recorded, found it "
                    f"sorted by {what}: bring it in that order, or give `order` random"
                )


def _in_order(values: Floats) -> bool:
    """Whether values never fall, or never rise, and are not nearly all the same."""
    steps = np.diff(values)
    others = len(values) - np.unique(values, return_counts=True)[1].max()
    return bool(others >= _OUTCOMES and ((steps >= 0).all() or (steps <= 0).all()))
