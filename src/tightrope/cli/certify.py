"""tightrope certify: a certificate from a policy or from recorded episodes."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import tyro
from tyro.conf import Positional

from tightrope.certificates.options import Options
from tightrope.certificates.request import Rollout
from tightrope.cli.subject import subject_of
from tightrope.errors import InputError

if TYPE_CHECKING:
    from tightrope.certificates.request import Request

__all__ = ["Certify"]


@tyro.conf.configure(tyro.conf.FlagCreatePairsOff)
@dataclass(frozen=True)
class Certify:
    """Certify how wrong predictions of a policy's return can be on new episodes."""

    source: Annotated[Positional[str], tyro.conf.arg(metavar="SOURCE", help_behavior_hint="")] = ""
    """A policy (as for collect; rolled out here) or recorded episodes (.safetensors, .npz, .hdf5,
    .csv, .tsv, .parquet, .feather, a LeRobot folder, a Minari id or folder)."""
    env: Annotated[str, tyro.conf.arg(metavar="ID", help_behavior_hint="")] = ""
    """Id of the environment to roll a policy out in; by default the one that it was trained in, if
    train wrote it."""
    columns: Annotated[str, tyro.conf.arg(metavar="ROLE=NAME,...", help_behavior_hint="")] = ""
    """Which column of a table or LeRobot dataset is what, such as "obs=joint_*,torque,reward=r,
    episode=run"; roles: obs, reward, episode, step, terminated, truncated, done, success, action.
    Without it they go by their usual names; nothing after = means that there is no such column."""
    out: Path = Path("certificate-SOURCE")
    """New folder for certificate.json, predictor.safetensors, rollouts.safetensors and
    report.html."""
    demo: bool = False
    """Certify the policy that ships with the package."""
    certificate: Options = field(default_factory=Options)
    """What is certified, from how many episodes, and how."""
    rollout: Rollout = field(default_factory=Rollout)
    commit: bool = False
    """Roll out nothing: write OUT.commitment.json and print its digest, for others to hold before
    there are episodes. It covers policy, environment, versions and all options with the seed."""
    commitment: Annotated[str, tyro.conf.arg(metavar="FILE", help_behavior_hint="")] = ""
    """Certify what was committed to in that file, with its options and its seed."""
    challenge: Annotated[str, tyro.conf.arg(metavar="TEXT", help_behavior_hint="")] = ""
    """With commitment: what its holder answered; the seed then follows from both."""
    json: bool = False
    """Print the certificate as JSON on standard output, and nothing else there."""

    def run(self) -> int:
        """Collect or load, certify, write, print."""
        from tightrope.certificates.document import as_text, to_document
        from tightrope.certificates.folder import write
        from tightrope.certificates.options import target_of
        from tightrope.certificates.until import outcome
        from tightrope.files import refuse_to_overwrite
        from tightrope.reports import write_page

        source, env = subject_of(
            self.source, self.env, demo=self.demo, expected="a policy or recorded episodes"
        )
        named = Path(source.rpartition(":")[2] or source)
        stem = named.resolve().name if named.is_dir() else named.stem
        out = Path(str(self.out).replace("SOURCE", stem))
        refuse_to_overwrite(out)
        if self.commit:
            return self._commit(source, env, out)
        asked = self._asked(source, env)
        certificate = write(asked.issue(progress=True), out, beside=write_page)
        reached = True
        if self.json:
            print(as_text(to_document(certificate)), end="")
        else:
            print(certificate)
            print(f"\nWritten to {out}; check it with: tightrope verify {out}")
        if asked.options.until != "off":
            reached = certificate.rms_raw <= target_of(asked.options.until)
            if not self.json:
                print(outcome(certificate, reached))
        return 0 if reached else 1

    def _commit(self, source: str, env: str, out: Path) -> int:
        """Commit, and say how to go on."""
        from tightrope.certificates.commitment import Commitment, save_commitment
        from tightrope.certificates.request import request

        if self.commitment or self.challenge or self.json:
            raise InputError("expected `commit` without `commitment`, `challenge` and `json`")
        options = self.certificate.seeded()
        asked = request(source, env or None, options, self.rollout, self.columns or None)
        commitment = Commitment.to(asked.described(), options)
        path = out.with_name(f"{out.name}.commitment.json")
        save_commitment(commitment, path)
        print(f"commitment {commitment.digest}")
        print(
            f"Written to {path}: keep it to yourself and publish the digest. Then certify the same "
            f"policy with: --commitment {path} --challenge WHAT-ITS-HOLDER-ANSWERS"
        )
        return 0

    def _asked(self, source: str, env: str) -> "Request":
        from tightrope.certificates.commitment import load_commitment
        from tightrope.certificates.request import request

        if not self.commitment:
            if self.challenge:
                raise InputError("expected `commitment` with `challenge`, found none")
            columns = self.columns or None
            return request(source, env or None, self.certificate, self.rollout, columns)
        if self.certificate != Options():
            raise InputError("expected no other options with `commitment`: it has them all")
        commitment = load_commitment(Path(self.commitment))
        options = commitment.options(self.challenge)
        asked = request(source, env or None, options, self.rollout, self.columns or None)
        return asked.committed(commitment, self.challenge)
