"""tightrope sign: a signature beside a certificate."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro
from tyro.conf import Positional

__all__ = ["Sign"]


@tyro.conf.configure(tyro.conf.FlagCreatePairsOff)
@dataclass(frozen=True)
class Sign:
    """Sign a certificate, so that others can tell whose it is and that nothing was changed."""

    folder: Annotated[Positional[Path], tyro.conf.arg(metavar="DIR")]
    """Folder that certify wrote; certificate.json.sig is written into it."""
    key: Path
    """Private Ed25519 key, a PEM file: openssl genpkey -algorithm ed25519 -out key.pem."""

    def run(self) -> int:
        """Sign and say how others check."""
        from tightrope.certificates.signing import sign

        path = sign(self.folder, self.key)
        print(f"Written to {path}; check it with: tightrope verify {self.folder} --verify-key PUB")
        print(f"PUB is public: openssl pkey -in {self.key} -pubout -out PUB")
        return 0
