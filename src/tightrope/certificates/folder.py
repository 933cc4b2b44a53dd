"""A certificate's folder: the document, the predictor, the episodes, and a page beside them."""

import dataclasses
from collections.abc import Callable
from pathlib import Path

from tightrope.certificates.certificate import Certificate, Record
from tightrope.certificates.document import as_text, read_record, record_fields, to_document
from tightrope.errors import InputError, one_line
from tightrope.files import sha256, write_folder, write_text
from tightrope.posteriors import Gaussians, ReturnPredictor, load_predictor, save_predictor
from tightrope.rollouts import load, save

__all__ = ["DOCUMENT", "FILES", "digest_problems", "load_certificate", "read_document", "write"]

DOCUMENT = "certificate.json"
# What the certificate is made from, and so hashed. A page only shows it, and is made again from it.
FILES = {"predictor": "predictor.safetensors", "rollouts": "rollouts.safetensors"}


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
        predictor = temporary / FILES["predictor"]
        if certificate.fitted is not None:
            save_predictor(predictor, certificate.predictor, certificate.posteriors)
        save(certificate.rollouts, temporary / FILES["rollouts"])
        digests = {name: sha256(temporary / file) for name, file in files_of(certificate)}
        written = dataclasses.replace(certificate, digests=digests)
        write_text(temporary / DOCUMENT, as_text(to_document(written)))
        if page is not None:
            page(written, temporary)
        return written

    return write_folder(Path(folder), fill)


def files_of(record: Record) -> list[tuple[str, str]]:
    """The files of a certificate by name; a table has no predictor."""
    return [item for item in FILES.items() if item[0] != "predictor" or record.bound is not None]


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
    problems = [] if text == as_text(to_document(record)) else [
        f"{DOCUMENT}: its text is not what tightrope writes for its fields, or its digest does not "
        "match"
    ]  # fmt: skip
    return record, problems


def digest_problems(folder: Path, record: Record) -> list[str]:
    """Which files are not those that the document states."""
    problems = []
    for name, file in files_of(record):
        path, stated = folder / file, record.digests.get(name)
        found = sha256(path) if path.is_file() else None
        if found != stated:
            problems.append(f"{file}: digest is {found}, the certificate states {stated}")
    return problems


def load_certificate(folder: str | Path, *, verify: bool = True) -> Certificate:
    """The certificate in a folder as it was written, predictor included; nothing is recomputed.

    Args:
        folder: that :func:`write` or the command wrote.
        verify: refuse a folder whose files are not those that were hashed.

    Raises:
        InputError: a file is missing, damaged or changed, or does not follow the schema.
    """
    record, problems = read_document(folder)
    problems += digest_problems(Path(folder), record) if verify else []
    if problems and verify:
        raise InputError(
            f"expected the certificate as it was written in {str(folder)!r}, found another: "
            f"{problems[0]} (`verify`=False loads it all the same)"
        )
    predictor: ReturnPredictor | None = None
    posteriors: tuple[Gaussians, ...] = ()
    if record.bound is not None:
        predictor, posteriors = load_predictor(Path(folder) / FILES["predictor"])
    rollouts = load(Path(folder) / FILES["rollouts"])
    fields = record_fields(record)
    return Certificate(**fields, fitted=predictor, posteriors=posteriors, rollouts=rollouts)
