"""What statements rest on, in plain sentences."""

from tightrope.certificates.data import Data, View
from tightrope.certificates.options import Options
from tightrope.certificates.statements import Assumption

__all__ = ["INDEPENDENT_EPISODES", "INDEPENDENT_STEPS", "SOURCES", "assumptions", "nth"]

INDEPENDENT_STEPS: Assumption = "independent steps"
INDEPENDENT_EPISODES: Assumption = "independent episodes"
SOURCES = {
    "pilot": "pilot episodes that are in no bound",
    "user": "the user",
    "training": "the training log",
}


def assumptions(data: Data, view: View, options: Options) -> tuple[str, ...]:
    """The sentences that the certificate rests on."""
    validation = data.shares.validation
    subject = validation.subject
    said = ["New episodes come from the same policy in the same environment."]
    if "policy" in subject:
        said.append("Episodes are independent: separate resets with distinct, recorded seeds.")
        mode = subject["policy"].get("actions", "deterministic")
        said.append(f"Actions are {mode}, without learning.")
    else:
        said.append(
            "The logged episodes are independent, identically distributed and of one policy; this "
            "was not checked."
        )
    images = subject.get("recording", {}).get("left_out", [])
    if images:
        said.append(f"The predictor does not see the images of the log ({', '.join(images)}).")
    said.append(
        "Errors are certified at thinned steps: every "
        f"{nth(data.thin)}step from the start of an episode, first visits only."
    )
    said.append(
        "Statements of unit step count thinned steps as independent and identically "
        "distributed. Steps of one episode are not: rely on unit episode where this matters."
    )
    said.append(
        "Statements of unit episode count each episode once, a mean risk with the mean over its "
        "steps: nothing is assumed of steps, and the risk weighs episodes equally."
    )
    clock = view.scaling.clock
    if clock is not None:
        said.append(
            "The predictor knows the elapsed time, and that episodes are cut after "
            f"{clock.limit:,} steps."
        )
    else:
        said.append("The predictor does not know the elapsed time.")
    truncated = int((validation.truncated & ~validation.terminated).sum())
    if truncated:
        said.append(
            f"{truncated} of {len(validation)} validation episodes were cut by a time limit: their "
            "returns are finite-horizon returns."
        )
    said.append(
        "Mean risks cover the loss clipped to the return range, which was fixed by "
        f"{SOURCES[data.range_source]} before the validation data were used."
    )
    if options.division.first is not None:
        said.append(
            "The bounds hold at every number of episodes at once, so it need not have been fixed "
            "beforehand; units must have one mean."
        )
    environment = subject.get("environment", {})
    if environment.get("suite") == "metaworld":
        said.append(f"Seeds: {environment['seeds']}.")
    chosen = "Policy, scheme, unit, preset, seed, range and every other option were chosen "
    if options.candidates > 1:
        said.append(f"{chosen}from at most {options.candidates} certificates; this is paid for.")
    else:
        said.append(f"{chosen}without looking at the validation episodes.")
    return tuple(said)


def nth(thin: int) -> str:
    """Which steps are kept, as in "every third step"; nothing for all of them."""
    return {1: "", 2: "second ", 3: "third "}.get(thin, f"{thin}th ")
