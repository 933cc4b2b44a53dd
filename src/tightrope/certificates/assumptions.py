"""What the statements of a certificate rest on, in sentences."""

from collections.abc import Mapping
from typing import Any

from tightrope.certificates.evidence import every
from tightrope.certificates.settings import Settings
from tightrope.certificates.split import Split

__all__ = ["SOURCES", "assumptions_of", "table_assumptions", "truncated_of"]

SOURCES = {
    "fit": "the fitting set",
    "pilot": "pilot episodes that are in no bound",
    "user": "the user",
    "training": "the training log",
}


def assumptions_of(split: Split) -> tuple[str, ...]:
    """The sentences that the certificate rests on."""
    settings, subject = split.settings, split.validation.subject
    found = ["New episodes come from the same policy in the same environment."]
    if "policy" in subject:
        mode = subject["policy"].get("actions", "deterministic")
        found.append("Episodes are independent: separate resets with distinct, recorded seeds.")
        found.append(f"Actions are {mode}, without learning.")
    else:
        found.append(
            "The logged episodes are independent, identically distributed and of one frozen "
            "policy; this was not checked."
        )
    images = subject.get("recording", {}).get("left_out", [])
    if images:
        found.append(f"The predictor does not see the images of the log ({', '.join(images)}).")
    found.append(
        f"Errors are certified at {every(split.thin)} from the start of an episode, first visits "
        "only; errors at other steps are not covered."
        if split.thin > 1
        else "Errors are certified at every step, first visits only."
    )
    found.append(
        "Statements of unit step treat thinned steps as independent and identically distributed. "
        "Steps of one episode are not, so these statements are marked and stand outside what holds "
        "jointly."
    )
    found.append(
        "Statements of unit episode count each episode once, a mean risk with the mean over its "
        "steps: nothing is assumed of steps, and every episode has the same weight."
    )
    clock = split.scaling.clock
    found.append(
        "The predictor does not know the elapsed time."
        if clock is None
        else f"The predictor knows the elapsed time and the time limit of {clock.limit:,} steps."
    )
    if truncated := truncated_of(split):
        found.append(
            f"{truncated} of {len(split.validation)} episodes were cut by a time limit: their "
            "returns are finite-horizon returns."
        )
    scaling = split.scaling
    found.append(
        f"Mean risks are about returns clipped to [{scaling.low:.4g}, {scaling.high:.4g}], a range "
        f"fixed by {SOURCES[scaling.source]} before the calibration episodes were used."
    )
    if settings.scheme.kind == "sequential":
        found.append(
            "The bounds hold at every number of episodes at once, so the search could stop at any."
        )
    environment = subject.get("environment", {})
    if environment.get("suite") == "metaworld":
        found.append(f"Seeds: {environment['seeds']}.")
    chosen = "Policy, scheme, unit, preset, seed, range and every other option were chosen "
    found.append(
        f"{chosen}from at most {settings.candidates} certificates, which the confidence accounts "
        "for."
        if settings.candidates > 1
        else f"{chosen}without looking at the calibration episodes."
    )
    return tuple(found)


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
