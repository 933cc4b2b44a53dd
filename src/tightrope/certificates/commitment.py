"""Committing to what will be certified, and how, before any episode exists.

The commitment is the SHA-256 of a policy, an environment, all options with the seed, the versions,
and a nonce that hides them. Whoever holds it beforehand sees later that nothing was exchanged; and
who answers it with a challenge has a hand in the seed, so that no roll-out was tried before.
docs/trust.md says what that proves.
"""

import dataclasses
import hashlib
import json
import re
import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tightrope.certificates.options import Options
from tightrope.errors import InputError, one_line
from tightrope.files import write_atomically

__all__ = [
    "Commitment",
    "challenged_seed",
    "commitment_problems",
    "held_digest",
    "load_commitment",
    "save_commitment",
]

FORMAT = "tightrope.commitment/1"
_DIGEST = re.compile(r"[0-9a-f]{64}")
_SUBJECT = ("policy", "environment", "training", "versions")


@dataclass(frozen=True)
class Commitment:
    """What is committed to, and the nonce that hides it.

    Attributes:
        content: policy, environment, training record, versions and options, as JSON.
        nonce: 32 random bytes in hexadecimal; without it the digest could be found by trying.
    """

    content: dict[str, Any]
    nonce: str

    @classmethod
    def to(cls, subject: Mapping[str, Any], options: Options) -> "Commitment":
        """To a subject as :func:`tightrope.rollouts.describe` gives it, and options with a seed.

        Raises:
            InputError: the policy has no file, so no digest.
        """
        if subject["policy"]["digest"] is None:
            raise InputError(
                f"expected a policy in a file to commit to, found {subject['policy']['name']}"
            )
        content = {name: subject.get(name) for name in _SUBJECT}
        content["options"] = dataclasses.asdict(options)
        return cls(json.loads(json.dumps(content)), secrets.token_hex(32))

    @property
    def digest(self) -> str:
        """The commitment itself, which is published."""
        canonical = json.dumps(
            {"format": FORMAT, "content": self.content, "nonce": self.nonce},
            sort_keys=True,
            separators=(",", ":"),
        )
        return hashlib.sha256(canonical.encode()).hexdigest()

    def options(self, challenge: str = "") -> Options:
        """The options committed to; with a challenge, the seed follows from both.

        Raises:
            InputError: they are none.
        """
        options = Options.of(self.content["options"])
        if not isinstance(options.seed, int):
            raise InputError(f"expected a seed to be committed to, found {options.seed!r}")
        return options.seeded(challenged_seed(self.digest, challenge)) if challenge else options

    def to_json(self, challenge: str = "") -> dict[str, Any]:
        """For the subject of the episodes."""
        record = {"content": self.content, "nonce": self.nonce, "digest": self.digest}
        return {**record, "challenge": challenge}


def challenged_seed(digest: str, challenge: str) -> int:
    """The seed that follows from a commitment and the answer to it: neither side could choose it.

    >>> challenged_seed("00" * 32, "heads")
    1371207179
    """
    mixed = hashlib.sha256(f"{FORMAT}\n{digest}\n{challenge}".encode()).digest()
    return int.from_bytes(mixed[:4], "big") >> 1


def save_commitment(commitment: Commitment, path: Path) -> None:
    """Write a commitment, opened, to a new file: it is to be kept until the certificate is issued.

    Raises:
        InputError: the file exists or cannot be written.
    """
    record = {"format": FORMAT, "digest": commitment.digest, **dataclasses.asdict(commitment)}
    text = json.dumps(record, indent=1) + "\n"

    def write(temporary: Path) -> None:
        temporary.write_text(text)

    write_atomically(path, write)


def load_commitment(path: Path) -> Commitment:
    """Read a file written by :func:`save_commitment`.

    Raises:
        InputError: there is none, it is damaged, or its digest is not that of its contents.
    """
    try:
        record = json.loads(path.read_text())
        if not isinstance(record, dict) or record.get("format") != FORMAT:
            raise ValueError(f"expected the format {FORMAT}, found another")
        commitment = _opened(record)
        if record.get("digest") != commitment.digest:
            raise ValueError("expected the digest of its contents, found another")
    except OSError as error:
        raise InputError(f"cannot read {str(path)!r}: {one_line(error)}") from None
    except (ValueError, RecursionError) as error:
        raise InputError(f"{str(path)!r} is damaged or no commitment: {one_line(error)}") from None
    return commitment


def _opened(record: Mapping[str, Any]) -> Commitment:
    content, nonce = record.get("content"), record.get("nonce")
    if not isinstance(content, dict) or not isinstance(nonce, str):
        raise ValueError("expected a content and a nonce, found others")
    if set(content) != {*_SUBJECT, "options"}:
        raise ValueError("expected what a commitment is to, found something else")
    if not isinstance(content["options"], dict):
        raise ValueError("expected options, found none")
    return Commitment(content, nonce)


def held_digest(held: str) -> str:
    """The digest that a third party holds, given as such or as the file of a commitment.

    Raises:
        InputError: it is neither.
    """
    if _DIGEST.fullmatch(held):
        return held
    if not Path(held).is_file():
        raise InputError(
            f"expected a file or 64 hexadecimal digits as `commitment`, found {held[:80]!r}"
        )
    return load_commitment(Path(held)).digest


def commitment_problems(
    subject: Mapping[str, Any], options: Options, held: str | None = None
) -> list[str]:
    """Where a certificate is not what was committed to, in words.

    Args:
        subject: of the certificate.
        options: of the certificate, every number settled.
        held: the digest that a third party held, if any.
    """
    recorded = subject.get("commitment")
    if recorded is None:
        return [] if held is None else ["subject.commitment: none, but one is held"]
    try:
        commitment = _opened(recorded)
        challenge = recorded.get("challenge")
        if not isinstance(challenge, str):
            raise ValueError(f"expected a challenge or none, found {challenge!r}")
        asked = commitment.options(challenge)
    except (ValueError, AttributeError, TypeError) as error:
        return [f"subject.commitment: {one_line(error)}"]
    problems = []
    if recorded.get("digest") != commitment.digest:
        problems.append("subject.commitment.digest: not that of its contents")
    if held not in (None, commitment.digest):
        problems.append(f"subject.commitment.digest: {commitment.digest}, held is {held}")
    for name in _SUBJECT:
        if commitment.content[name] != subject.get(name):
            problems.append(f"subject.{name}: not what was committed to")
    if subject.get("seed") != asked.seed:
        problems.append(f"subject.seed: {subject.get('seed')}, committed to {asked.seed}")
    for name, committed in dataclasses.asdict(asked).items():
        found = getattr(options, name)
        # What was left to be settled follows from the rest; a device only rounds differently.
        settled = committed == "auto" or name == "device" or (name, found) == ("time_limit", "auto")
        if committed != found and not settled:
            problems.append(f"options.{name}: {found!r}, committed to {committed!r}")
    return problems
