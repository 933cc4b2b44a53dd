"""tightrope plan: what more episodes would certify, before they are rolled out."""

from pathlib import Path

from tightrope.cli.check import as_flags
from tightrope.cli.flags import command
from tightrope.cli.text import show
from tightrope.deploy.check import Conditions
from tightrope.errors import InputError
from tightrope.rollouts.results_table import Reading

__all__ = ["plan"]


@command("numbers max_failure min_success min_return max_rms share columns")
def plan(
    source: str,
    /,
    *,
    numbers: tuple[int, ...] = (200, 400, 1000),
    conditions: Conditions,
    reading: Reading,
) -> int:
    """Forecast how the statements of a certificate would shrink with more episodes.

    With conditions, in the words of check: how many episodes would meet them; exit code 1 if no
    number would.

    Args:
        source: Folder of a certificate, or recorded episodes, a table of results or counts such as
            74/80, which are certified first with the default options (nothing is written).
        numbers: Numbers of episodes to fit and to calibrate to forecast for; the number to fit
            stays.
    """
    from tightrope.certificates.certify import certify
    from tightrope.certificates.folder import DOCUMENT, load_certificate
    from tightrope.deploy.plan import summary, target_summary
    from tightrope.rollouts import is_recording
    from tightrope.rollouts.results_table import is_results

    if not numbers or min(numbers) < 1:
        raise InputError(f"`numbers` must be at least 1 each, found {list(numbers)}")
    if (Path(source) / DOCUMENT).is_file():
        found = load_certificate(source)
    elif is_results(source, reading.columns) or is_recording(source):
        given = {**vars(reading), "columns": reading.columns or None}
        found = certify(source, progress=True, **given)
    else:
        raise InputError(
            f"expected a certificate, recorded episodes or a table of results, found {source!r}"
        )
    show(summary(found, sorted(numbers)), lines=True)
    if conditions == Conditions():
        return 0
    count, words = target_summary(found, conditions)
    show("")
    show(as_flags(words), lines=True)
    return 0 if count is not None else 1
