"""tightrope plan: what more episodes would certify, before they are rolled out."""

from pathlib import Path
from typing import Annotated

from tightrope.certificates.options import Options
from tightrope.cli.flags import command
from tightrope.cli.text import show
from tightrope.errors import InputError

__all__ = ["plan"]


@command("numbers target scheme unit episodes gamma delta seed")
def plan(
    source: str,
    /,
    *,
    numbers: tuple[int, ...] = (200, 400, 1000),
    target: Annotated[str, "rms<=X"] = "",
    options: Options,
) -> int:
    """Forecast how the statements of a certificate would shrink with more episodes.

    Args:
        source: Folder of a certificate, or recorded episodes, which are certified first (nothing is
            written).
        numbers: Numbers of episodes to fit and to calibrate to forecast for; the number to fit
            stays.
        target: A target such as 'rms<=10', in return units: how many episodes would certify it?
    """
    from tightrope.certificates.certify import certify
    from tightrope.certificates.folder import DOCUMENT, load_certificate
    from tightrope.certificates.options import target_of
    from tightrope.deploy.plan import summary, target_summary
    from tightrope.rollouts import is_recording

    limit = target_of(target, "target") if target else None
    if not numbers or min(numbers) < 1:
        raise InputError(f"`numbers` must be at least 1 each, found {list(numbers)}")
    if (Path(source) / DOCUMENT).is_file():
        if options != Options():
            raise InputError(
                "expected no options of certify for a certificate, whose own are known, found "
                "some: give them with recorded episodes"
            )
        found = load_certificate(source)
    elif is_recording(source):
        found = certify(source, progress=True, **vars(options))
    else:
        raise InputError(
            f"expected a certificate or recorded episodes, found the policy {source!r}"
        )
    show(summary(found, sorted(numbers)), lines=True)
    if limit is None:
        return 0
    count, words = target_summary(found, limit)
    show(words)
    return 0 if count is not None else 1
