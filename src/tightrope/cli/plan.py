"""tightrope plan: what more episodes would bring, before they are rolled out."""

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
    numbers: tuple[int, ...] = (100, 200, 500, 1000)
    """Numbers of validation episodes to forecast for."""
    target: str = "none"
    """A target such as 'rms<=10', in return units: how many episodes would certify it?"""
    certificate: Options = field(default_factory=Options)
    """For recorded episodes: how they are certified."""

    def run(self) -> int:
        """Print the forecast; exit code 1 if no number of episodes would reach the target."""
        from tightrope.certificates.folder import load_certificate
        from tightrope.certificates.options import target_of
        from tightrope.certificates.outlook import in_words, wanted
        from tightrope.certificates.request import Rollout, request

        limit = None if self.target == "none" else target_of(self.target, "target")
        if not self.numbers or min(self.numbers) < 1:
            raise InputError(f"`numbers` must be at least 1 each, found {list(self.numbers)}")
        if (Path(self.source) / "certificate.json").is_file():
            if self.certificate != Options():
                raise InputError(
                    "expected no options of certify for a certificate, whose own are known, found "
                    "some: give them with recorded episodes"
                )
            found = load_certificate(self.source)
        else:
            asked = request(self.source, None, self.certificate, Rollout())
            if asked.recorded is None:
                raise InputError(
                    f"expected a certificate or recorded episodes, found the policy {self.source!r}"
                )
            found = asked.issue(progress=True)
        print(in_words(found, sorted(self.numbers)))
        if limit is None:
            return 0
        count, said = wanted(found, limit)
        print(said)
        return 0 if count is not None else 1
