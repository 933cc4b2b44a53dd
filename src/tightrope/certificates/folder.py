"""A certificate's folder: its document `certificate.json`, its predictor, and its episodes."""

import dataclasses
import hashlib
import json
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter, ValidationError

from tightrope.certificates.certificate import DERIVED, Certificate, Record
from tightrope.errors import InputError, one_line
from tightrope.files import sha256, write_folder, write_text
from tightrope.posteriors import Gaussians, ReturnPredictor, load_predictor, save_predictor
from tightrope.records import one_problem
from tightrope.rollouts import load, save
from tightrope.rollouts.episodes import require_subject

__all__ = [
    "DOCUMENT",
    "FILES",
    "SCHEMA_VERSION",
    "as_text",
    "digest_problems",
    "document_digest",
    "load_certificate",
    "read_certificate",
    "read_document",
    "read_record",
    "to_document",
    "write",
]

DOCUMENT = "certificate.json"
# What the certificate is made from, and so hashed. A page only shows it, and is made again from it.
FILES = {"predictor": "predictor.safetensors", "rollouts": "rollouts.safetensors"}
SCHEMA_VERSION = 5
_LARGEST = 50_000_000  # characters


@cache
def _adapter() -> TypeAdapter[Record]:
    return TypeAdapter(Record)


def to_document(record: Record) -> dict[str, Any]:
    """The document `certificate.json`; its own digest covers everything else in it."""
    document: dict[str, Any] = {"schema_version": SCHEMA_VERSION}
    document |= {name: getattr(record, name) for name in DERIVED}
    document |= _adapter().dump_python(record, mode="json")
    document["digests"]["certificate"] = document_digest(document)
    return document


def as_text(document: Mapping[str, Any]) -> str:
    """A document as it stands in its file."""
    return json.dumps(document, indent=1, allow_nan=False) + "\n"


def document_digest(document: Mapping[str, Any]) -> str:
    """SHA-256 of a document in canonical form, without its own digest."""
    digests = {k: v for k, v in document.get("digests", {}).items() if k != "certificate"}
    canonical = json.dumps({**document, "digests": digests}, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(canonical.encode()).hexdigest()


def write(
    certificate: Certificate,
    folder: str | Path,
    *,
    page: Callable[[Certificate, Path], None] | None = None,
) -> Certificate:
    """Write certificate.json, predictor.safetensors and rollouts.safetensors into a new folder.

    The folder appears whole or not at all; `page` may add files before that.

    Raises:
        InputError: the folder exists or cannot be written.
    """

    def fill(temporary: Path) -> Certificate:
        if certificate.fitted is not None:
            predictor = temporary / FILES["predictor"]
            save_predictor(predictor, certificate.predictor, certificate.posteriors)
        save(certificate.rollouts, temporary / FILES["rollouts"])
        digests = {name: sha256(temporary / file) for name, file in _files_of(certificate)}
        written = dataclasses.replace(certificate, digests=digests)
        write_text(temporary / DOCUMENT, as_text(to_document(written)))
        if page is not None:
            page(written, temporary)
        return written

    return write_folder(Path(folder), fill)


def read_record(text: str, name: str) -> Record:
    """The record in the text of a document; what the document derives is left out.

    Raises:
        InputError: it is not JSON, or does not follow the schema.
    """
    expected = f"expected a certificate at {name!r}"
    if len(text) > _LARGEST:
        raise InputError(f"{expected}, found {len(text):,} characters")
    try:
        document = json.loads(text)
    except (ValueError, RecursionError) as error:
        reason = "nested too deeply" if isinstance(error, RecursionError) else one_line(error)
        raise InputError(f"{expected}: {reason}") from None
    if not isinstance(document, dict):
        raise InputError(f"{expected}, found no JSON object")
    version = document.pop("schema_version", None)
    if version != SCHEMA_VERSION:
        old = isinstance(version, int) and version < SCHEMA_VERSION
        remedy = ": issue the certificate again" if old else ""
        found = f"in {name!r}, found {str(version)[:40]!r}{remedy}"
        raise InputError(f"expected schema version {SCHEMA_VERSION} {found}")
    for key in DERIVED:
        document.pop(key, None)
    if isinstance(document.get("digests"), dict):
        document["digests"].pop("certificate", None)
    try:
        record = _adapter().validate_json(json.dumps(document))
        require_subject(record.subject)
        return record
    except (ValueError, RecursionError) as error:
        reason = one_line(error)
        if isinstance(error, ValidationError):
            place = "/".join(map(str, error.errors()[0]["loc"])) or "the top level"
            reason = f"{one_problem(error)} (at {place})"
        raise InputError(f"{name!r} does not follow the schema: {reason}") from None


def read_document(source: str | Path) -> tuple[Record, list[str]]:
    """The record of a certificate's folder or of its document alone, and what is wrong with it.

    Raises:
        InputError: there is no certificate, or it does not follow the schema.
    """
    path = Path(source)
    path = path / DOCUMENT if path.is_dir() else path
    if not path.is_file():  # a link may lead to a device or a pipe, which never ends
        raise InputError(f"expected a certificate at {str(path)!r}, found no file: check the path")
    try:
        text = path.read_text()
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"expected a certificate at {str(path)!r}: {one_line(error)}") from None
    record = read_record(text, str(path))
    if text == as_text(to_document(record)):
        return record, []
    problem = "its text is not what tightrope writes for its fields, or its digest does not match"
    return record, [f"{DOCUMENT}: {problem}"]


def digest_problems(folder: Path, record: Record) -> list[str]:
    """Which files are not those that the document states."""
    problems = []
    for name, file in _files_of(record):
        path, stated = folder / file, record.digests.get(name)
        found = sha256(path) if path.is_file() else None
        if found != stated:
            problems.append(f"{file}: digest is {found}, the certificate states {stated}")
    return problems


def read_certificate(folder: str | Path) -> tuple[Certificate, list[str]]:
    """The certificate in a folder, and what is wrong with its files.

    Raises:
        InputError: a file is missing or damaged, or does not follow the schema.
    """
    folder = Path(folder)
    record, problems = read_document(folder)
    predictor: ReturnPredictor | None = None
    posteriors: tuple[Gaussians, ...] = ()
    if record.bound is not None:
        predictor, posteriors = load_predictor(folder / FILES["predictor"])
    rollouts = load(folder / FILES["rollouts"])
    read = Certificate(**vars(record), fitted=predictor, posteriors=posteriors, rollouts=rollouts)
    return read, problems + digest_problems(folder, record)


def load_certificate(folder: str | Path, *, verify: bool = True) -> Certificate:
    """The certificate in a folder as it was written, predictor included; nothing is recomputed.

    Args:
        folder: that :func:`write` or the command wrote.
        verify: refuse a folder whose files are not those that were hashed.

    Raises:
        InputError: a file is missing, damaged or changed, or does not follow the schema.
    """
    found, problems = read_certificate(folder)
    if problems and verify:
        raise InputError(
            f"expected the certificate as it was written in {str(folder)!r}, found another: "
            f"{problems[0]} (`verify`=False loads it all the same)"
        )
    return found


def _files_of(record: Record) -> list[tuple[str, str]]:
    """The files of a certificate by name; a table has no predictor."""
    return [item for item in FILES.items() if item[0] != "predictor" or record.bound is not None]
