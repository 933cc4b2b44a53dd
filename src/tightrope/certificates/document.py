"""The certificate as a JSON document: written, read and described from its fields alone."""

import dataclasses
import hashlib
import json
import types
from collections.abc import Mapping
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

from tightrope.certificates.certificate import DERIVED, Certificate
from tightrope.errors import InputError

__all__ = [
    "SCHEMA_VERSION",
    "as_text",
    "document_digest",
    "fields_of",
    "read_document",
    "schema",
    "schema_problem",
    "to_document",
]

SCHEMA_VERSION = 4
_BESIDE = ("chain", "rollouts")  # in files of their own


def to_document(certificate: Certificate) -> dict[str, Any]:
    """The document `certificate.json`; its own digest covers everything else in it."""
    document: dict[str, Any] = {"schema_version": SCHEMA_VERSION}
    for name in DERIVED:
        document[name] = getattr(certificate, name)
    for entry in dataclasses.fields(certificate):
        if entry.name not in _BESIDE:
            document[entry.name] = _plain(getattr(certificate, entry.name))
    document = json.loads(json.dumps(document))  # tuples become lists, as in the file
    document["digests"]["certificate"] = document_digest(document)
    return document


def fields_of(document: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of a certificate that a document states; what it derives is left out."""
    hints = get_type_hints(Certificate)
    names = [f.name for f in dataclasses.fields(Certificate) if f.name not in _BESIDE]
    found = {name: _built(hints[name], document[name]) for name in names}
    found["digests"] = {k: v for k, v in document["digests"].items() if k != "certificate"}
    return found


def as_text(document: Mapping[str, Any]) -> str:
    """A document as it stands in its file."""
    return json.dumps(document, indent=1, allow_nan=False) + "\n"


def document_digest(document: Mapping[str, Any]) -> str:
    """SHA-256 of a document in canonical form, without its own digest."""
    digests = {k: v for k, v in document.get("digests", {}).items() if k != "certificate"}
    canonical = json.dumps({**document, "digests": digests}, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(canonical.encode()).hexdigest()


def read_document(text: str, name: str) -> dict[str, Any]:
    """The document in a text.

    Raises:
        InputError: it is no JSON, or does not follow the schema.
    """
    try:
        document = json.loads(
            text, object_pairs_hook=_without_duplicates, parse_constant=_refuse_constant
        )
        as_text(document)  # raises for what could be read but not written again, such as 1e999
    except (ValueError, RecursionError) as error:
        reason = "nested too deeply" if isinstance(error, RecursionError) else error
        raise InputError(f"expected a certificate at {name!r}: {reason}") from None
    problem = schema_problem(document)
    if problem:
        raise InputError(f"{name!r} does not follow the schema: {problem}")
    assert isinstance(document, dict)  # the schema asks
    return document


def schema() -> dict[str, Any]:
    """The JSON Schema of `certificate.json`, made from the fields of the certificate."""
    hints = get_type_hints(Certificate, include_extras=True)
    properties: dict[str, Any] = {"schema_version": {"const": SCHEMA_VERSION}}
    properties |= {name: _schema_of(kind) for name, kind in DERIVED.items()}
    for entry in dataclasses.fields(Certificate):
        if entry.name not in _BESIDE:
            properties[entry.name] = _schema_of(hints[entry.name])
    properties["digests"]["additionalProperties"] = {
        "type": "string",
        "pattern": "^[0-9a-f]{64}$",
    }
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": f"tightrope/certificate/{SCHEMA_VERSION}",
        "title": "tightrope risk certificate",
        "description": "docs/formats.md describes every field.",
        "type": "object",
        "additionalProperties": False,
        "required": list(properties),
        "properties": properties,
    }


def schema_problem(document: Any) -> str | None:
    """The first violation of the schema, or None."""
    from jsonschema import Draft202012Validator

    version = document.get("schema_version") if isinstance(document, dict) else None
    if isinstance(version, int) and version < SCHEMA_VERSION:
        return f"version {version} is no longer read: issue the certificate anew"
    try:
        found = sorted(
            Draft202012Validator(schema()).iter_errors(document),
            key=lambda e: list(map(str, e.path)),
        )
    except RecursionError:
        return "nested too deeply"
    if not found:
        return None
    place = "/".join(map(str, found[0].path)) or "the top level"
    return f"{found[0].message[:200]} (at {place})"


def _plain(value: Any) -> Any:
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {f.name: _plain(getattr(value, f.name)) for f in dataclasses.fields(value)}
    if isinstance(value, tuple | list):
        return [_plain(each) for each in value]
    if isinstance(value, Mapping):
        return {key: _plain(each) for key, each in value.items()}
    return value


def _built(kind: Any, value: Any) -> Any:
    """A value of JSON as a value of that type; the schema was checked before."""
    origin, arguments = get_origin(kind), get_args(kind)
    if dataclasses.is_dataclass(kind):
        assert isinstance(kind, type)
        hints = get_type_hints(kind)
        return kind(
            **{f.name: _built(hints[f.name], value[f.name]) for f in dataclasses.fields(kind)}
        )
    if origin is tuple:
        kinds = arguments[:1] * len(value) if arguments[-1] is Ellipsis else arguments
        return tuple(_built(each, item) for each, item in zip(kinds, value, strict=True))
    if origin in (Union, types.UnionType):
        if isinstance(value, list):
            (kind,) = (each for each in arguments if get_origin(each) is tuple)
            return _built(kind, value)
        return (
            float(value)
            if float in arguments and type(value) is int and int not in arguments
            else value
        )
    return float(value) if kind is float else value


def _schema_of(kind: Any) -> dict[str, Any]:
    origin, arguments = get_origin(kind), get_args(kind)
    if origin is Annotated:
        limits = {k: v for k, v in arguments[1]._asdict().items() if v is not None}
        return {**_schema_of(arguments[0]), **limits}
    if dataclasses.is_dataclass(kind):
        assert isinstance(kind, type)
        hints = get_type_hints(kind, include_extras=True)
        names = [entry.name for entry in dataclasses.fields(kind)]
        return {
            "type": "object",
            "additionalProperties": False,
            "required": names,
            "properties": {name: _schema_of(hints[name]) for name in names},
        }
    if origin is Literal:
        return {"enum": list(arguments)}
    if origin in (Union, types.UnionType):
        return {"anyOf": [_schema_of(each) for each in arguments]}
    if origin is tuple:
        if arguments[-1] is Ellipsis:
            return {"type": "array", "items": _schema_of(arguments[0])}
        items = [_schema_of(each) for each in arguments]
        return {"type": "array", "prefixItems": items, "items": False, "minItems": len(items)}
    if origin is not None and issubclass(origin, Mapping):
        return {"type": "object"}
    plain = {str: "string", int: "integer", float: "number", bool: "boolean", type(None): "null"}
    return {"type": plain[kind]}


def _without_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("a key appears twice in one object")
    return found


def _refuse_constant(name: str) -> None:
    raise ValueError(f"expected finite numbers, found {name}")
