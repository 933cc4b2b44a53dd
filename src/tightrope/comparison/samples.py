"""Samples: the numbers of each episode of a policy, and which episodes of two are paired."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from tightrope.certificates.evidence import every
from tightrope.certificates.options import Auto
from tightrope.errors import InputError
from tightrope.rollouts import Episodes, is_recording, load_episodes
from tightrope.rollouts.results_table import Reading, is_results, read_results, table_of, unit_of
from tightrope.seeds import Stream, child_seed

if TYPE_CHECKING:
    from tightrope.certificates.certificate import Certificate

__all__ = ["Pairing", "Sample", "are_recorded", "load_samples", "pair", "require_unsorted"]

Floats = NDArray[np.float64]
Rows = NDArray[np.int64]

_OUTCOMES = 3  # episodes of each kind that are in order by no chance any more
_ORDERED = {  # how each column is called, and how many episodes in order are likewise
    "returns": ("return", 10),
    "undiscounted": ("undiscounted return", 10),
    "success": ("success", 2 * _OUTCOMES),
    "terminated": ("termination", 2 * _OUTCOMES),
}


@dataclass(frozen=True, eq=False)
class Sample:
    """Episodes of one policy, a number of each kind per episode.

    Attributes:
        name: of the policy, recording or table.
        seeds: (episodes,) seeds, or numbers of the rows of a table; -1 where not recorded.
        columns: (episodes,) numbers by name, of what is recorded: `returns` at the discount factor
            that is compared; `undiscounted` returns; `terminated`, whether the environment ended
            it; `success`; `errors`, the RMS error of the prediction by its certificate, NaN where
            the predictor was fitted to the episode.
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
    columns: Mapping[str, NDArray[Any]]
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
        """What is compared of whole episodes; those of a table have no end of their own."""
        environment, table = episodes.subject.get("environment", {}), table_of(episodes)
        columns: dict[str, Any] = {
            "returns": episodes.returns(gamma),
            "undiscounted": episodes.returns(1.0),
            "terminated": episodes.terminated,
            "success": episodes.success,
        }
        absent = {name for name, values in columns.items() if values is None}
        stated: dict[str, Any] = {"features": episodes.observations.shape[1]}
        if table is not None:
            absent |= {"terminated"} if table["returns"] else {*columns} - {"success"}
            stated = {
                "unit": unit_of(table["columns"]),
                "tasks": tuple((task, count) for task, count in table["tasks"]),
                "candidates": table["candidates"],
                "notes": tuple(table["notes"]),
            }
        return cls(
            name=name,
            seeds=episodes.seeds,
            columns={name: values for name, values in columns.items() if name not in absent},
            environment=str(environment.get("id", "")),
            goals="" if environment.get("goal_seed") is None else str(environment["seeds"]),
            **stated,
        )

    def __len__(self) -> int:
        return len(self.seeds)

    def rows(self, rows: Rows) -> "Sample":
        """These episodes, in this order."""
        columns = {name: values[rows] for name, values in self.columns.items()}
        return replace(self, tasks=(), seeds=self.seeds[rows], columns=columns)

    def joined(self, more: "Sample") -> "Sample":
        """The episodes of both, in order; a column stays if both have it."""
        columns = {
            name: np.concatenate([values, more.columns[name]])
            for name, values in self.columns.items()
            if name in more.columns
        }
        return replace(self, seeds=np.concatenate([self.seeds, more.seeds]), columns=columns)

    def by_task(self) -> dict[str, "Sample"]:
        """The episodes of each task."""
        found, first = {}, 0
        for name, count in self.tasks or (("", len(self)),):
            found[name] = self.rows(np.arange(first, first + count))
            first += count
        return found


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
    one, other = (_sample(*each, label, discount) for each, label in zip(loaded, "AB", strict=True))
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


def _load(source: Any, reading: Reading) -> "tuple[str, Episodes, Certificate | None]":
    """A name, the episodes, and the certificate that they come from."""
    name = Path(source).name if isinstance(source, str | Path) else type(source).__name__
    if is_results(source, reading.columns):
        table = read_results(source, **vars(reading))
        return table.name, table.episodes(), None
    if not _is_certificate(source):
        return name, load_episodes(source, reading.columns or None), None
    from tightrope.certificates.folder import load_certificate

    certificate = load_certificate(source)
    return name, certificate.rollouts, certificate


def _discount(loaded: "list[tuple[str, Episodes, Certificate | None]]", gamma: float | Auto) -> Any:
    """The discount factor that certificates and tables know, or the one that is asked for."""
    certificates = [certificate for *_, certificate in loaded if certificate is not None]
    known = [c.settings.gamma for c in certificates]
    known += [1.0 for _, episodes, c in loaded if c is None and table_of(episodes) is not None]
    for what, values in (("`gamma`", known), ("`thin`", [c.thin for c in certificates])):
        if len(set(values)) > 1:
            raise InputError(
                f"expected certificates with one {what}, found {values[0]} in A and {values[1]} in "
                "B: certify one of them again"
            )
    if gamma == "auto":
        return known[0] if known else 1.0
    if known and gamma != known[0]:
        raise InputError(
            f"expected the `gamma` of the certificates or tables, {known[0]:g}, found {gamma:g}: "
            "they know no other"
        )
    return gamma


def _sample(
    name: str, episodes: Episodes, certificate: "Certificate | None", label: str, gamma: float
) -> Sample:
    partial = episodes.subject.get("partial")
    if partial is not None:
        raise InputError(
            f"expected a whole collection as {label}, found a partial one ({partial}): it favours "
            "short episodes, so collect again"
        )
    table = table_of(episodes)
    if table is not None and not table["ordered"]:
        raise InputError(
            f"expected the table itself as {label}, found a certificate or recording of counts, "
            f"{name}: compare the counts that it was made from"
        )
    sample = Sample.of(name, episodes, gamma)
    if certificate is None or certificate.fitted is None:
        return sample
    errors = np.full(len(episodes), np.nan)
    if certificate.unseen is not None:
        errors[-len(certificate.unseen) :] = certificate.evidence(certificate.unseen).rms
    columns = {**sample.columns, "errors": errors}
    return replace(sample, columns=columns, error_steps=every(certificate.thin))


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
        for column, (what, least) in _ORDERED.items():
            values = sample.columns.get(column, np.zeros(0))
            if len(values) >= least and _in_order(values.astype(float)):
                raise InputError(
                    f"expected {name} in the order in which its episodes were recorded, found it "
                    f"sorted by {what}: bring it in that order, or give `order` random"
                )


def _in_order(values: Floats) -> bool:
    """Whether values never fall, or never rise, and are not nearly all the same."""
    steps = np.diff(values)
    others = len(values) - np.unique(values, return_counts=True)[1].max()
    return bool(others >= _OUTCOMES and ((steps >= 0).all() or (steps <= 0).all()))
