"""What the statements of a certificate rest on, in sentences, and what speaks against it."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tightrope.certificates.evidence import every
from tightrope.certificates.settings import Settings
from tightrope.certificates.split import Split
from tightrope.certificates.statements.base import INDEPENDENT_STEPS

if TYPE_CHECKING:
    from tightrope.certificates.certificate import Record

__all__ = [
    "SOURCES",
    "STATUSES",
    "Status",
    "assumptions_of",
    "overall",
    "statuses_of",
    "table_assumptions",
    "truncated_of",
]

SOURCES = {
    "fit": "the fitting set",
    "pilot": "pilot episodes that are in no bound",
    "user": "the user",
    "training": "the training log",
}


@dataclass(frozen=True)
class Status:
    """One thing to know before relying on a certificate.

    Attributes:
        key: of the style sheet.
        word: in short.
        meaning: in a sentence.
        tone: ``bad``, ``warning`` or ``neutral``.
    """

    key: str
    word: str
    meaning: str
    tone: str = "warning"


# By key, from worst to best.
STATUSES = {
    key: Status(key, *words)
    for key, *words in (
        ("unreadable", "Unreadable", "This certificate cannot be read.", "bad"),
        ("void", "Void", "A step of the recursion is negative: its portions differ, and nothing is "
         "certified.", "bad"),
        ("vacuous", "Vacuous", "The bound is the worst value possible, so it says nothing.", "bad"),
        ("drift", "Episodes drift", "Returns change over the recorded episodes, so new episodes "
         "may differ from them.", "bad"),
        ("clipped", "Returns clipped", "More than 1 % of the returns lie outside the range: mean "
         "risks say little about those."),
        ("failed-fit", "Predictor no better than a mean", "The statements hold, but a mean return, "
         "constant or of each step, predicts as well."),
        ("steps", "Rests on independent steps", "The headline treats the steps of an episode as "
         "independent, which they are not."),
        ("dependent", "Steps are dependent", "Losses within an episode are correlated; ignore rows "
         "that assume independent steps."),
        ("holds", "Statements hold jointly", "They need only independent episodes.", "neutral"),
    )
}  # fmt: skip


def statuses_of(record: "Record") -> list[Status]:
    """All that apply to a certificate, the worst first; never empty."""
    c, headline = record, record.statements[record.headline]
    applies = {
        "void": c.void,
        "vacuous": not c.void and (c.vacuous or headline.vacuous),
        "drift": c.checks.drifting,
        "clipped": (c.clipped_share or 0.0) > 0.01,
        "failed-fit": c.failed_fit,
        "steps": headline.assumes == INDEPENDENT_STEPS,
        "dependent": c.checks.dependent
        and any(s.assumes == INDEPENDENT_STEPS for s in c.statements),
    }
    return [STATUSES[key] for key, found in applies.items() if found] or [STATUSES["holds"]]


def overall(record: "Record") -> list[Status]:
    """What concerns more than single rows, the worst first; never empty."""
    found = [status for status in record.statuses if status.key != "dependent"]
    return found or [STATUSES["holds"]]


def assumptions_of(split: Split) -> tuple[str, ...]:
    """The sentences that the certificate rests on."""
    return tuple(_assumptions(split, split.settings, split.validation.subject))


def _assumptions(split: Split, settings: Settings, subject: Mapping[str, Any]) -> Iterator[str]:
    yield "New episodes come from the same policy in the same environment."
    if "policy" in subject:
        yield "Episodes are independent: separate resets with distinct, recorded seeds."
        mode = subject["policy"].get("actions", "deterministic")
        yield f"Actions are {mode}, without learning."
    else:
        yield (
            "The logged episodes are independent, identically distributed and of one frozen "
            "policy; this was not checked."
        )
    if images := subject.get("recording", {}).get("left_out", []):
        yield f"The predictor does not see the images of the log ({', '.join(images)})."
    more = "; errors at other steps are not covered" if split.thin > 1 else ""
    start = " from the start of an episode" if split.thin > 1 else ""
    yield f"Errors are certified at {every(split.thin)}{start}, first visits only{more}."
    yield (
        "Statements of unit step treat thinned steps as independent and identically distributed. "
        "Steps of one episode are not, so these statements are marked and stand outside what holds "
        "jointly."
    )
    yield (
        "Statements of unit episode count each episode once, a mean risk with the mean over its "
        "steps: nothing is assumed of steps, and every episode has the same weight."
    )
    scaling = split.scaling
    if scaling.clock is None:
        yield "The predictor does not know the elapsed time."
    else:
        limit = scaling.clock.limit
        yield f"The predictor knows the elapsed time and the time limit of {limit:,} steps."
    if truncated := truncated_of(split):
        yield (
            f"{truncated} of {len(split.validation)} episodes were cut by a time limit: their "
            "returns are finite-horizon returns."
        )
    yield (
        f"Mean risks are about returns clipped to [{scaling.low:.4g}, {scaling.high:.4g}], a range "
        f"fixed by {SOURCES[scaling.source]} before the calibration episodes were used."
    )
    if settings.scheme.kind == "sequential":
        yield (
            "The bounds hold at every number of episodes at once, so the search could stop at any."
        )
    environment = subject.get("environment", {})
    if environment.get("suite") == "metaworld":
        yield f"Seeds: {environment.get('seeds', 'not recorded')}."
    chosen = "without looking at the calibration episodes"
    if settings.candidates > 1:
        many = settings.candidates
        chosen = f"from at most {many} certificates, which the confidence accounts for"
    yield f"Policy, scheme, unit, preset, seed, range and every other option were chosen {chosen}."


def truncated_of(split: Split) -> int:
    """How many of the episodes to fit and to calibrate a time limit cut."""
    return int((split.validation.truncated & ~split.validation.terminated).sum())


def table_assumptions(settings: Settings, table: Mapping[str, Any]) -> tuple[str, ...]:
    """The sentences that the certificate of a table rests on."""
    found = [
        "New episodes come from the same policy in the same environment.",
        "Each row is a whole episode of one frozen policy, and rows are independent and alike"
        + ("; this was not checked." if table["ordered"] else "."),
        "Rows were not selected by finishing first, as in a vectorised environment that stops "
        "after so many episodes: short episodes finish first.",
        *table["notes"],
        "Nothing is stated about predicted returns: a table has no steps to predict at.",
    ]
    if len(table["tasks"]) > 1:
        found.append(f"Each of {len(table['tasks'])} tasks is certified, all of them at once.")
    if settings.candidates > 1:
        found.append(
            f"What is certified was chosen from at most {settings.candidates}, which the "
            "confidence accounts for."
        )
    return tuple(found)
