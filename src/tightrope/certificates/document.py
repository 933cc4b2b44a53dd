"""The certificate as a JSON document: written, read and described from its fields alone."""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import fields
from functools import cache
from typing import Any

from pydantic import TypeAdapter, ValidationError

from tightrope.certificates.certificate import DERIVED, Certificate, Record
from tightrope.errors import InputError
from tightrope.records import one_problem

__all__ = [
    "SCHEMA_VERSION",
    "as_text",
    "document_digest",
    "read_record",
    "record_fields",
    "schema",
    "to_document",
]

SCHEMA_VERSION = 5
_LARGEST = 50_000_000  # characters


@cache
def _adapter() -> TypeAdapter[Record]:
    return TypeAdapter(Record)


def to_document(record: Record) -> dict[str, Any]:
    """The document `certificate.json`; its own digest covers everything else in it."""
    stated = Record(**record_fields(record)) if isinstance(record, Certificate) else record
    document: dict[str, Any] = {"schema_version": SCHEMA_VERSION}
    document |= {name: getattr(record, name) for name in DERIVED}
    document |= _adapter().dump_python(stated, mode="json")
    document["digests"]["certificate"] = document_digest(document)
    return document


def record_fields(record: Record) -> dict[str, Any]:
    """The fields of the document, by name."""
    return {entry.name: getattr(record, entry.name) for entry in fields(Record)}


def as_text(document: Mapping[str, Any]) -> str:
    """A document as it stands in its file."""
    return json.dumps(document, indent=1, allow_nan=False) + "\n"


def document_digest(document: Mapping[str, Any]) -> str:
    """SHA-256 of a document in canonical form, without its own digest."""
    digests = {k: v for k, v in document.get("digests", {}).items() if k != "certificate"}
    canonical = json.dumps({**document, "digests": digests}, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(canonical.encode()).hexdigest()


def read_record(text: str, name: str) -> Record:
    """The record in the text of a document; what the document derives is left out.

    Raises:
        InputError: it is not JSON, or does not follow the schema.
    """
    if len(text) > _LARGEST:
        raise InputError(f"expected a certificate at {name!r}, found {len(text):,} characters")
    try:
        document = json.loads(text)
    except (ValueError, RecursionError) as error:
        reason = "nested too deeply" if isinstance(error, RecursionError) else error
        raise InputError(f"expected a certificate at {name!r}: {reason}") from None
    if not isinstance(document, dict):
        raise InputError(f"expected a certificate at {name!r}, found no JSON object")
    version = document.pop("schema_version", None)
    if version != SCHEMA_VERSION:
        old = isinstance(version, int) and version < SCHEMA_VERSION
        remedy = ": issue the certificate again" if old else ""
        raise InputError(
            f"expected schema version {SCHEMA_VERSION} in {name!r}, found {str(version)[:40]!r}"
            f"{remedy}"
        )
    for key in DERIVED:
        document.pop(key, None)
    if isinstance(document.get("digests"), dict):
        document["digests"].pop("certificate", None)
    try:
        return _adapter().validate_json(json.dumps(document))
    except ValidationError as error:
        place = "/".join(map(str, error.errors()[0]["loc"])) or "the top level"
        raise InputError(
            f"{name!r} does not follow the schema: {one_problem(error)} (at {place})"
        ) from None
    except (ValueError, RecursionError) as error:
        raise InputError(f"{name!r} does not follow the schema: {error}") from None


def schema() -> dict[str, Any]:
    """The JSON Schema of `certificate.json`, made from the fields of the record."""
    made = _adapter().json_schema()
    derived = {
        name: TypeAdapter(Record.__dict__[name].fget.__annotations__["return"]).json_schema()
        for name in DERIVED
    }
    properties = {"schema_version": {"const": SCHEMA_VERSION}, **derived, **made["properties"]}
    return {
        **made,
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": f"tightrope/certificate/{SCHEMA_VERSION}",
        "title": "tightrope risk certificate",
        "description": "docs/formats.md describes every field.",
        "required": list(properties),
        "properties": properties,
    }
