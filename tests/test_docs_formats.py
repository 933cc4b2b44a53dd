"""docs/document.md is what the records of a certificate say; every key has a meaning there."""

import re
import runpy
from pathlib import Path

DOCS = Path(__file__).parents[1] / "docs"


def test_the_page_is_what_its_tool_writes_and_describes_every_key():
    page = runpy.run_path(str(DOCS / "tools" / "document.py"))["page"]()
    assert (DOCS / "document.md").read_text("utf-8") == page
    assert not re.findall(r"^\| `\w+` \|\s*\|$", page, re.MULTILINE)


def test_every_key_of_a_document_is_on_the_page():
    from pydantic import TypeAdapter

    from tightrope.certificates.certificate import DERIVED, Record

    page = (DOCS / "document.md").read_text("utf-8")
    made = TypeAdapter(Record).json_schema()
    keys = {key for part in (made, *made["$defs"].values()) for key in part.get("properties", {})}
    assert {key for key in (*keys, *DERIVED) if f"| `{key}` |" not in page} == set()
