"""tightrope certify: a certificate from a policy or from recorded episodes."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated

import tyro
from tyro.conf import Positional

from tightrope.certificates.options import Options
from tightrope.certificates.request import Rollout
from tightrope.errors import InputError

__all__ = ["Certify"]


@tyro.conf.configure(tyro.conf.FlagCreatePairsOff)
@dataclass(frozen=True)
class Certify:
    """Certify how wrong predictions of a policy's return can be on new episodes."""

    source: Annotated[Positional[str], tyro.conf.arg(metavar="SOURCE", help_behavior_hint="")] = ""
    """A policy (as for collect; rolled out here) or recorded episodes (.safetensors, .npz, .hdf5, a
    Minari id or folder)."""
    env: Annotated[str, tyro.conf.arg(metavar="ID", help_behavior_hint="")] = ""
    """Id of the environment to roll a policy out in; by default the one that it was trained in, if
    train wrote it."""
    out: Path = Path("certificate-SOURCE")
    """New folder for certificate.json, predictor.safetensors, rollouts.safetensors and
    report.html."""
    demo: bool = False
    """Certify the policy that ships with the package."""
    certificate: Options = field(default_factory=Options)
    """What is certified, from how many episodes, and how."""
    rollout: Rollout = field(default_factory=Rollout)
    json: bool = False
    """Print the certificate as JSON on standard output, and nothing else there."""

    def run(self) -> int:
        """Collect or load, certify, write, print."""
        from tightrope.certificates.document import as_text, to_document
        from tightrope.certificates.folder import write
        from tightrope.certificates.request import request
        from tightrope.files import refuse_to_overwrite
        from tightrope.reports import write_page

        source, env = self._subject()
        named = Path(source.rpartition(":")[2] or source)
        stem = named.resolve().name if named.is_dir() else named.stem
        out = Path(str(self.out).replace("SOURCE", stem))
        refuse_to_overwrite(out)
        asked = request(source, env or None, self.certificate, self.rollout)
        certificate = write(asked.issue(progress=True), out, beside=write_page)
        if self.json:
            print(as_text(to_document(certificate)), end="")
        else:
            print(certificate)
            print(f"\nWritten to {out}; check it with: tightrope verify {out}")
        return 0

    def _subject(self) -> tuple[str, str]:
        if self.demo:
            if self.source or self.env:
                raise InputError("expected `demo` alone, found a source or `env` beside it")
            from tightrope import demo

            return str(demo.policy_path()), demo.ENVIRONMENT
        if not self.source:
            raise InputError("expected a policy or recorded episodes, or `demo`, found neither")
        return self.source, self.env
