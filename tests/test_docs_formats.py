"""docs/formats.md describes the certificate as it is: every name in the section that it belongs to.

Fields and derived names come from the code, so the page cannot fall behind it.
"""

import re
from dataclasses import fields
from pathlib import Path
from typing import get_args

import pytest

from tightrope.certificates import certificate, document, ledger, options, portions, statements
from tightrope.certificates.beforehand import Beforehand

PAGE = Path(__file__).parents[1] / "docs" / "formats.md"


def names(record):
    return {field.name for field in fields(record)}


SECTIONS = {
    "Top level": set(document.schema()["properties"]),
    "options": names(options.Options),
    "statements": names(statements.Statement) | set(get_args(statements.Kind)),
    "portions and other_portions": names(portions.Portion),
    "ledger": names(ledger.Spent),
    "beforehand": names(Beforehand),
    "fits": names(certificate.Fit),
    "episodes": names(certificate.Counts),
    "checks": names(certificate.Checks),
    "return_range": names(certificate.ReturnRange),
}


def described(page):
    """By heading: what stands between backticks in the first columns of the tables below it."""
    found = {}
    for section in re.split(r"^#+ ", page, flags=re.MULTILINE)[1:]:
        head, *lines = section.splitlines()
        cells = " ".join(line.split("|")[1] for line in lines if line.startswith("|"))
        found[head.replace("`", "")] = set(re.findall(r"`([\w-]+)`", cells))
    return found


@pytest.mark.parametrize("section", SECTIONS)
def test_the_page_names_every_key_of_a_certificate(section):
    missing = SECTIONS[section] - described(PAGE.read_text("utf-8"))[section]
    assert not missing, f"docs/formats.md, section {section}: describe {sorted(missing)}"


def test_the_page_states_the_version_that_is_written():
    assert f"| `schema_version` | {document.SCHEMA_VERSION} |" in PAGE.read_text("utf-8")
