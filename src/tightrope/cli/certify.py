"""tightrope certify: a certificate from a policy or from recorded episodes."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

import tyro
from tyro.conf import Positional

from tightrope.certificates.options import Options
from tightrope.cli.subject import subject_of
from tightrope.errors import InputError
from tightrope.rollouts.collect import Rollout

__all__ = ["Certify"]


@tyro.conf.configure(tyro.conf.FlagCreatePairsOff)
@dataclass(frozen=True)
class Certify:
    """Certify what a policy returns, how often it fails, and how well its return is predicted."""

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
    property: Annotated[
        tuple[str, ...], tyro.conf.arg(metavar="NAME=FILE.py:FUNCTION", help_behavior_hint="")
    ] = ()
    """Numbers per episode of your own, such as "peak torque=mine.py:peak"; of a recording without a
    function, such as "peak torque=", if they are recorded."""
    property_limit: Annotated[
        tuple[str, ...], tyro.conf.arg(metavar="NAME<=LIMIT", help_behavior_hint="")
    ] = ()
    """What a property should keep to, such as "peak torque<=80" or "height>=0.7": its side is
    certified, and how often an episode breaks it."""
    rollout: Rollout = field(default_factory=Rollout)
    details: bool = False
    """Print everything that the certificate states."""
    json: bool = False
    """Print the certificate as JSON on standard output, and nothing else there."""

    def run(self) -> int:
        """Collect or load, certify, write, print."""
        from tightrope.certificates.certify import certify
        from tightrope.certificates.document import as_text, to_document
        from tightrope.certificates.folder import write
        from tightrope.certificates.sequential import search_summary
        from tightrope.certificates.text import details, summary
        from tightrope.files import refuse_to_overwrite
        from tightrope.reports import write_page

        source, env = subject_of(
            self.source, self.env, demo=self.demo, expected="a policy or recorded episodes"
        )
        named = Path(source.rpartition(":")[2] or source)
        stem = named.resolve().name if named.is_dir() else named.stem
        out = Path(str(self.out).replace("SOURCE", stem))
        refuse_to_overwrite(out)
        certificate = certify(
            source,
            env or None,
            columns=self.columns or None,
            rollout=self.rollout,
            properties=_properties(self.property, self.property_limit),
            progress=True,
            **vars(self.certificate),
        )
        certificate = write(certificate, out, page=write_page)
        reached = True
        if self.json:
            print(as_text(to_document(certificate)), end="")
        else:
            print((details if self.details else summary)(certificate))
            print(f"Written to {out}. More: --details, report.html. Check: tightrope verify {out}")
        if certificate.settings.until is not None:
            reached, words = search_summary(certificate)
            if not self.json:
                print(words)
        return 0 if reached else 1


def _properties(given: tuple[str, ...], limits: tuple[str, ...]) -> dict[str, Any]:
    """Properties by name from what was typed.

    Raises:
        InputError: there is no such function, or a limit is not of a property.
    """
    import re

    from tightrope.certificates.properties import Property
    from tightrope.imports import user_function

    found: dict[str, Any] = {}
    for words in given:
        name, equals, place = words.partition("=")
        if not equals or not name.strip():
            raise InputError(f"expected `property` NAME=FILE.py:FUNCTION, found {words!r}")
        found[name.strip()] = Property(user_function(place.strip()) if place.strip() else None)
    for words in limits:
        parts = re.fullmatch(r"\s*(.+?)\s*(<=|>=)\s*(\S+)\s*", words)
        try:
            limit = float(parts[3]) if parts else None
        except ValueError:
            limit = None
        if parts is None or limit is None:
            raise InputError(
                f"expected `property_limit` NAME<=LIMIT or NAME>=LIMIT, found {words!r}"
            )
        if parts[1] not in found:
            known = ", ".join(found) or "none"
            raise InputError(
                f"expected `property_limit` of a property ({known}), found {parts[1]!r}: give "
                "`property`, too"
            )
        direction = "at-most" if parts[2] == "<=" else "at-least"
        found[parts[1]] = Property(found[parts[1]].function, direction, limit)  # type: ignore[arg-type]
    return found
