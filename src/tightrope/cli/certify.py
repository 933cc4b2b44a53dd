"""tightrope certify: a certificate from a policy or from recorded episodes."""

import re
from pathlib import Path
from typing import Annotated, Any

from tightrope.certificates.options import Options
from tightrope.cli.flags import command
from tightrope.cli.text import show
from tightrope.errors import InputError
from tightrope.rollouts.collect import Rollout
from tightrope.rollouts.results_table import Reading

__all__ = ["certify", "properties_given", "source_or_demo"]


@command(
    "env columns out scheme paper unit preset episodes gamma delta fail_below property "
    "workers seed trust demo details json"
)
def certify(
    source: str = "",
    /,
    *,
    env: Annotated[str, "ID"] = "",
    reading: Reading,
    out: Path = Path("certificate-SOURCE"),
    demo: bool = False,
    options: Options,
    property: Annotated[tuple[str, ...], "NAME=FILE.py:FUNCTION"] = (),  # noqa: A002
    property_limit: Annotated[tuple[str, ...], "NAME<=LIMIT"] = (),
    rollout: Rollout,
    details: bool = False,
    json: bool = False,
) -> int:
    """Certify what a policy returns, how often it fails, and how well its return is predicted.

    Args:
        source: A policy (as for collect; rolled out here), recorded episodes (.safetensors, .npz,
            .hdf5, .csv, .tsv, .parquet, a LeRobot folder, a Minari id or folder), a table
            with one row per episode, or counts such as 74/80.
        env: Environment to roll a policy out in; by default the one that it was trained in, if
            train wrote it.
        out: New folder; for certificate.json, predictor.safetensors, rollouts.safetensors and
            report.html.
        demo: Certify the policy that ships with the package.
        property: A number per episode of your own; such as "peak torque=mine.py:peak". May be
            repeated. Without a function, such as "peak torque", if it is recorded or a column.
        property_limit: What a property should keep to, such as "peak torque<=80"; its side is
            certified, and how often an episode breaks it. May be repeated.
        details: Print everything that the certificate states.
        json: Print the certificate as JSON on standard output; nothing else there.
    """
    from tightrope.certificates.certify import certify as make_certificate
    from tightrope.certificates.folder import as_text, to_document, write
    from tightrope.certificates.text import details as all_details
    from tightrope.certificates.text import summary
    from tightrope.files import refuse_to_overwrite
    from tightrope.reports import write_page

    source, env = source_or_demo(source, env, demo, "a policy or recorded episodes")
    named = Path(source.rpartition(":")[2] or source)
    stem = named.resolve().name if named.is_dir() else named.stem
    out = Path(str(out).replace("SOURCE", stem))
    refuse_to_overwrite(out)
    certificate = make_certificate(
        source,
        env or None,
        rollout=rollout,
        properties=properties_given(property, property_limit),
        progress=True,
        **{**vars(reading), "columns": reading.columns or None},
        **vars(options),
    )
    certificate = write(certificate, out, page=write_page)
    if json:
        print(as_text(to_document(certificate)), end="")
    else:
        show((all_details if details else summary)(certificate), lines=True)
        show(f"Written to {out}. More: --details, report.html. Check: tightrope verify {out}")
    if certificate.settings.until is None:
        return 0
    from tightrope.certificates.sequential import search_summary

    reached, words = search_summary(certificate)
    if not json:
        show(words)
    return 0 if reached else 1


def source_or_demo(source: str, env: str, demo: bool, expected: str) -> tuple[str, str]:
    """What was named and its environment, or those of the shipped policy.

    Raises:
        InputError: there is neither, or both.
    """
    if demo:
        if source or env:
            raise InputError("expected `demo` alone, found something else or `env` beside it")
        from tightrope.demo import ENVIRONMENT, policy_path

        return str(policy_path()), ENVIRONMENT
    if not source:
        raise InputError(f"expected {expected}, or `demo`, found neither")
    return source, env


def properties_given(given: tuple[str, ...], limits: tuple[str, ...] = ()) -> dict[str, Any]:
    """Properties by name from what was typed.

    Raises:
        InputError: there is no such function, or a limit is not of a property.
    """
    from tightrope.certificates.properties import Property
    from tightrope.imports import user_function

    found: dict[str, Any] = {}
    for words in given:
        name, _, place = words.partition("=")
        if not name.strip():
            raise InputError(f"expected `property` NAME=FILE.py:FUNCTION, found {words!r}")
        found[name.strip()] = Property(user_function(place.strip()) if place.strip() else None)
    for words in limits:
        parts = re.fullmatch(r"\s*(.+?)\s*(<=|>=)\s*([-+.\deE]+)\s*", words)
        try:
            name, sign, limit = parts[1], parts[2], float(parts[3])  # type: ignore[index]
        except (TypeError, ValueError):
            raise InputError(
                f"expected `property_limit` NAME<=LIMIT or NAME>=LIMIT, found {words!r}"
            ) from None
        if name not in found:
            known = ", ".join(found) or "none"
            raise InputError(
                f"expected `property_limit` of a property ({known}), found {name!r}: give "
                "`property`, too"
            )
        direction = "at-most" if sign == "<=" else "at-least"
        found[name] = Property(found[name].function, direction, limit)  # type: ignore[arg-type]
    return found
