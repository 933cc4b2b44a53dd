"""Samples: the numbers of each episode of a policy, and which episodes of two are paired."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from tightrope.certificates.certify import open_source
from tightrope.certificates.evidence import every
from tightrope.certificates.folder import DOCUMENT, load_certificate
from tightrope.certificates.options import Auto
from tightrope.errors import InputError
from tightrope.rollouts import Episodes, PolicySource, Rollout, is_recording
from tightrope.rollouts.results_table import is_results, table_of, unit_of
from tightrope.seeds import Stream, child_seed

if TYPE_CHECKING:
    from tightrope.certificates.certificate import Certificate

__all__ = ["Recording", "Sample", "open_both", "pair", "samples_of"]

_OUTCOMES = 3  # episodes of each kind that are in order by no chance any more
_ORDERED = {  # how each column is called, and how many episodes in order are likewise
    "returns": ("return", 10),
    "undiscounted": ("undiscounted return", 10),
    "success": ("success", 2 * _OUTCOMES),
    "terminated": ("termination", 2 * _OUTCOMES),
}
_DISCOUNT = "certificates with one `gamma`"
_SELECTED = (
    "The rows of a table were not selected by which episode finished first in a vectorised "
    "environment; this was not checked."
)


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
        environment: id; empty where not recorded.
        unit: of the returns.
        error_steps: the steps that errors are taken over, in words.
        tasks: name and number of episodes of each task, in order; none if there is one.
        candidates: evaluations that a table was chosen from after looking.
        notes: what else the numbers rest on.
    """

    name: str
    seeds: NDArray[np.int64]
    columns: Mapping[str, NDArray[Any]]
    environment: str = ""
    unit: str = "return"
    error_steps: str = ""
    tasks: tuple[tuple[str, int], ...] = ()
    candidates: int = 1
    notes: tuple[str, ...] = ()

    @classmethod
    def of(
        cls, name: str, episodes: Episodes, gamma: float, made: "Certificate | None" = None
    ) -> "Sample":
        """What is compared of whole episodes, and of predictions where a certificate made some."""
        environment, table = episodes.subject.get("environment", {}), table_of(episodes)
        columns: dict[str, Any] = {
            "returns": episodes.returns(gamma),
            "undiscounted": episodes.returns(1.0),
            "terminated": episodes.terminated,
        }
        stated: dict[str, Any] = {}
        if table is not None:  # without ends of its own
            del columns["terminated"]
            columns = columns if table["returns"] else {}
            stated = {
                "unit": unit_of(table["columns"]),
                "tasks": tuple((task, count) for task, count in table["tasks"]),
                "candidates": table["candidates"],
                "notes": (_SELECTED, *table["notes"]),
            }
        elif environment.get("goal_seed") is not None:
            stated = {"notes": (f"Seeds: {environment.get('seeds', 'not recorded')}.",)}
        if episodes.success is not None:
            columns["success"] = episodes.success
        if made is not None and made.fitted is not None:
            columns["errors"] = errors = np.full(len(episodes), np.nan)
            if made.unseen is not None:
                errors[-len(made.unseen) :] = made.evidence(made.unseen).rms
            stated["error_steps"] = every(made.thin)
        return cls(name, episodes.seeds, columns, str(environment.get("id", "")), **stated)

    def __len__(self) -> int:
        return len(self.seeds)

    def rows(self, rows: Any) -> "Sample":
        """These episodes, in this order."""
        columns = {name: values[rows] for name, values in self.columns.items()}
        return replace(self, tasks=(), seeds=self.seeds[rows], columns=columns)

    def by_task(self) -> dict[str, "Sample"]:
        """The episodes of each task."""
        found, first = {}, 0
        for name, count in self.tasks or (("", len(self)),):
            found[name] = self.rows(slice(first, first + count))
            first += count
        return found


@dataclass(frozen=True, eq=False)
class Recording:
    """Recorded episodes, opened.

    Attributes:
        name: of the file.
        episodes: whole ones.
        made: the certificate that they come from; None for others.
        table: what is recorded of the table that they come from; None for others.
    """

    name: str
    episodes: Episodes
    made: "Certificate | None"
    table: Mapping[str, Any] | None

    @property
    def facts(self) -> dict[str, Any]:
        """What must be the same in two of them, by what is expected; None where not known."""
        subject, table, made = self.episodes.subject, self.table, self.made
        tasks = () if table is None else table["tasks"]
        gamma = None if table is None else 1.0
        return {
            "episodes of one environment": subject.get("environment", {}).get("id"),
            "observations of one size in numbers": self.episodes.observations.shape[1] or None,
            "returns of one unit": "return" if table is None else unit_of(table["columns"]),
            "the same tasks": ", ".join(sorted(name for name, _ in tasks)) or "a single one",
            _DISCOUNT: gamma if made is None else made.settings.gamma,
            "certificates with one `thin`": None if made is None else made.thin,
        }


def open_both(
    first: Any, second: Any, env: Any, rollouts: Sequence[Rollout], **reading: Any
) -> list[PolicySource] | list[Recording]:
    """Two policies to roll out, or two recordings, tables or certificates.

    Raises:
        InputError: one is a policy and the other is recorded, or there is no such thing.
    """
    columns = reading["columns"]
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
    opened: list[Any] = []
    for source, rollout in zip((first, second), rollouts, strict=True):
        made = load_certificate(source) if _is_certificate(source) else None
        given = {} if made else reading
        found = open_source(made.rollouts if made else source, env, rollout, **given)
        if isinstance(found, PolicySource):
            opened.append(found)
            continue
        name = Path(source).name if isinstance(source, str | Path) else type(source).__name__
        table = table_of(found)
        name = name if table is None or made else found.subject["log"]
        opened.append(Recording(name, found, made, table))
    return opened


def _is_certificate(source: Any) -> bool:
    return isinstance(source, str | Path) and (Path(source) / DOCUMENT).is_file()


def samples_of(
    recordings: Sequence[Recording], gamma: float | Auto
) -> tuple[Sample, Sample, float]:
    """Both samples, and the discount factor of their returns.

    Args:
        recordings: of A and of B.
        gamma: discount factor; auto: that of the certificates, else 1.

    Raises:
        InputError: environments, observations, units, tasks, discount factors or steps that count
            differ, or episodes are missing.
    """
    for label, each in zip("AB", recordings, strict=True):
        if partial := each.episodes.subject.get("partial"):
            raise InputError(
                f"expected a whole collection as {label}, found a partial one ({partial}): it "
                "favours short episodes, so collect again"
            )
    facts, others = (each.facts for each in recordings)
    for what, one in facts.items():
        if None not in (one, others[what]) and one != others[what]:
            raise InputError(f"expected {what}, found {one} in A and {others[what]} in B")
    known = [each for each in (facts[_DISCOUNT], others[_DISCOUNT]) if each is not None]
    discount = (known or [1.0])[0] if gamma == "auto" else gamma
    if known and discount != known[0]:
        raise InputError(
            f"expected the `gamma` of the certificates or tables, {known[0]:g}, found {gamma:g}: "
            "they know no other"
        )
    first, second = (Sample.of(r.name, r.episodes, discount, r.made) for r in recordings)
    return first, second, discount


def pair(first: Sample, second: Sample, seed: int | None = None) -> tuple[Sample, Sample, str]:
    """Pair by equal seeds where there are any in common, otherwise in recorded order.

    Either way pairs are independent of each other, which is all that section D asks for. A seed
    must not be in one pair with A's episode and in another with B's: so the seeds in common are
    either all of the shorter recording's, or none.

    Args:
        first: episodes of A.
        second: episodes of B.
        seed: of a random order in place of the recorded one; None for that.

    Returns:
        Both, row by row in pairs, and how they were paired, in words.

    Raises:
        InputError: a seed appears twice in one recording, only some are in common, or the recorded
            order depends on what happened in the episodes.
    """
    for label, sample in (("A", first), ("B", second)):
        known = sample.seeds[sample.seeds >= 0]
        if len(np.unique(known)) < len(known):
            raise InputError(
                f"expected episodes with distinct seeds, found a seed twice in {label}"
            )
    rng = None if seed is None else np.random.default_rng(child_seed(seed, Stream.ORDER))
    order = "in recorded order" if rng is None else f"in a random order from seed {seed}"
    fewer, more = sorted((len(first), len(second)))
    common, of_first, of_second = np.intersect1d(first.seeds, second.seeds, return_indices=True)
    shared = int((common >= 0).sum())
    if 0 < shared < fewer:
        raise InputError(
            f"expected all seeds of the shorter recording in the longer one, or none, found "
            f"{shared} of {fewer}: pairs would depend on each other; cut both recordings to the "
            "seeds in common, or record one again"
        )
    if shared:
        of_first, of_second = of_first[common >= 0], of_second[common >= 0]
        rows = np.argsort(of_first) if rng is None else rng.permutation(fewer)
        one, other = first.rows(of_first[rows]), second.rows(of_second[rows])
        judged = one, other  # only the order of the pairs counts
        note = "paired by seed" + ("" if rng is None else f", {order}")
        left = "without a partner left out"
    else:
        judged = first, second
        chosen = [
            np.arange(len(each)) if rng is None else rng.permutation(len(each)) for each in judged
        ]
        one, other = first.rows(chosen[0][:fewer]), second.rows(chosen[1][:fewer])
        recorded = bool((first.seeds >= 0).all() and (second.seeds >= 0).all())
        why = "the recordings have no seed in common" if recorded else "seeds are not recorded"
        note, left = f"paired {order}, since {why}", "of the longer recording left out"
    if rng is None:
        for label, sample in zip("AB", judged, strict=True):
            _require_unsorted(label, sample)
    return one, other, note + (f"; {more - fewer} episodes {left}" if more > fewer else "")


def _require_unsorted(label: str, sample: Sample) -> None:
    """Refuse a recording whose order depends on what happened in the episodes.

    Rows that were sorted by return and then paired differ by much less than pairs of episodes do,
    so equal policies would look different.
    """
    for column, (what, least) in _ORDERED.items():
        values = sample.columns.get(column, np.zeros(0)).astype(float)
        if len(values) < least:
            continue
        steps = np.diff(values)
        others = len(values) - np.unique(values, return_counts=True)[1].max()
        if others >= _OUTCOMES and ((steps >= 0).all() or (steps <= 0).all()):
            raise InputError(
                f"expected {label} in the order in which its episodes were recorded, found it "
                f"sorted by {what}: bring it in that order, or give `order` random"
            )
