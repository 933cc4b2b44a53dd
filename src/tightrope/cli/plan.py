"""tightrope plan: what more episodes would certify, before they are rolled out."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated

import tyro
from tyro.conf import Positional

from tightrope.certificates.options import Options
from tightrope.errors import InputError

__all__ = ["Plan"]


@tyro.conf.configure(tyro.conf.FlagCreatePairsOff)
@dataclass(frozen=True)
class Plan:
    """Forecast how the statements of a certificate would shrink with more episodes."""

    source: Annotated[Positional[str], tyro.conf.arg(metavar="SOURCE")]
    """Folder of a certificate, or recorded episodes, which are certified first (nothing is
    written)."""
    numbers: tuple[int, ...] = (200, 400, 1000)
    """Numbers of episodes to fit and to calibrate to forecast for; the number to fit stays."""
    target: str = "none"
    """A target such as 'rms<=10', in return units: how many episodes would certify it?"""
    certificate: Options = field(default_factory=Options)
    """For recorded episodes: how they are certified."""

    def run(self) -> int:
        """Print the forecast; exit code 1 if no number of episodes would reach the target."""
        from tightrope.certificates.certify import certify
        from tightrope.certificates.folder import DOCUMENT, load_certificate
        from tightrope.certificates.options import target_of
        from tightrope.deploy.plan import summary, target_summary
        from tightrope.rollouts import is_recording

        limit = None if self.target == "none" else target_of(self.target, "target")
        if not self.numbers or min(self.numbers) < 1:
            raise InputError(f"`numbers` must be at least 1 each, found {list(self.numbers)}")
        if (Path(self.source) / DOCUMENT).is_file():
            if self.certificate != Options():
                raise InputError(
                    "expected no options of certify for a certificate, whose own are known, found "
                    "some: give them with recorded episodes"
                )
            found = load_certificate(self.source)
        elif is_recording(self.source):
            found = certify(self.source, progress=True, **vars(self.certificate))
        else:
            raise InputError(
                f"expected a certificate or recorded episodes, found the policy {self.source!r}"
            )
        print(summary(found, sorted(self.numbers)))
        if limit is None:
            return 0
        count, words = target_summary(found, limit)
        print(words)
        return 0 if count is not None else 1
