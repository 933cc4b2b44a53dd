"""A certificate's folder: the document, the predictor, the episodes, and a page beside them."""

import dataclasses
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tightrope.certificates.certificate import Certificate
from tightrope.certificates.document import (
    as_text,
    document_digest,
    fields_of,
    read_document,
    to_document,
)
from tightrope.errors import InputError, one_line
from tightrope.files import sha256, write_folder
from tightrope.posteriors import Chain, load_chain, save_chain
from tightrope.rollouts import Episodes, load, save

__all__ = ["FILES", "digest_problems", "load_certificate", "read", "write"]

DOCUMENT = "certificate.json"
# What the certificate is made from, and so hashed. A page only shows it, and is drawn anew from it.
FILES = {"predictor": "predictor.safetensors", "rollouts": "rollouts.safetensors"}


def write(
    certificate: Certificate,
    folder: str | Path,
    *,
    beside: Callable[[Certificate, Path], None] | None = None,
) -> Certificate:
    """Write certificate.json, predictor.safetensors and rollouts.safetensors into a new folder.

    The folder appears whole or not at all; `beside` may add files before that, such as a page.

    Raises:
        InputError: the folder exists or cannot be written.
    """

    def fill(temporary: Path) -> Certificate:
        save_chain(certificate.chain, temporary / FILES["predictor"])
        save(certificate.rollouts, temporary / FILES["rollouts"])
        digests = {name: sha256(temporary / file) for name, file in FILES.items()}
        written = dataclasses.replace(certificate, digests=digests)
        (temporary / DOCUMENT).write_text(as_text(to_document(written)))
        if beside is not None:
            beside(written, temporary)
        return written

    return write_folder(Path(folder), fill)


def read(folder: Path) -> tuple[dict[str, Any], Chain, Episodes]:
    """The document, the chain and the episodes in a certificate's folder.

    Raises:
        InputError: a file is missing or damaged, or the document does not follow the schema.
    """
    path = folder / DOCUMENT
    try:
        text = path.read_text()
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"expected a certificate at {str(path)!r}: {one_line(error)}") from None
    document = read_document(text, str(path))
    return document, load_chain(folder / FILES["predictor"]), load(folder / FILES["rollouts"])


def digest_problems(folder: Path, document: dict[str, Any]) -> list[str]:
    """Which files are not those that the document states, in words."""
    problems = []
    for name, file in FILES.items():
        path, stated = folder / file, document["digests"].get(name)
        found = sha256(path) if path.is_file() else None
        if found != stated:
            problems.append(f"{file}: digest is {found}, the certificate states {stated}")
    if (folder / DOCUMENT).read_text() != as_text(document):
        problems.append(f"{DOCUMENT}: its text is not as tightrope writes it")
    if document_digest(document) != document["digests"].get("certificate"):
        problems.append(f"{DOCUMENT}: its digest does not match its contents")
    return problems


def load_certificate(folder: str | Path, *, verify: bool = True) -> Certificate:
    """The certificate in a folder as it was written, predictor included; nothing is recomputed.

    Args:
        folder: that :func:`write` or the command wrote.
        verify: refuse a folder whose files are not those that were hashed.

    Raises:
        InputError: a file is missing, damaged or changed, or does not follow the schema.
    """
    document, chain, rollouts = read(Path(folder))
    problems = digest_problems(Path(folder), document) if verify else []
    if problems:
        raise InputError(
            f"expected the certificate as it was written in {str(folder)!r}, found another: "
            f"{problems[0]} (`verify`=False loads it all the same)"
        )
    return Certificate(**fields_of(document), chain=chain, rollouts=rollouts)
