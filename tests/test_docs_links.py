"""Links between pages lead somewhere, on GitHub as on the site; every page can be found."""

import re

import pytest
from documents import DOCS, PAGES, ROOT, anchors, prose

LINKED = [
    *PAGES,
    *(ROOT / name for name in ("CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md")),
    *sorted((ROOT / "benchmarks").glob("*.md")),
    *sorted((ROOT / "results").glob("*/README.md")),
]
_ROOMS = "benchmarks|docs|examples|results|src|studies|tests|tightrope"


@pytest.mark.parametrize("page", LINKED, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_to_files_and_headings_that_exist(page):
    for target in re.findall(r"\]\(([^)\s]+)\)", prose(page)):
        if re.match(r"[a-z]+:", target):
            continue
        path, _, heading = target.partition("#")
        found = (page.parent / path).resolve() if path else page
        assert found.is_relative_to(ROOT), target
        assert found.exists(), target
        if heading:
            assert heading in anchors(found), target


@pytest.mark.parametrize("page", [*LINKED, ROOT / "Makefile"], ids=lambda page: page.name)
def test_files_of_the_repository_that_a_page_names_exist(page):
    named = re.findall(
        rf"(?<![\w/.])(?:{_ROOMS})/[\w/-]+\.(?:py|md|toml|csv)\b", page.read_text("utf-8")
    )
    for path in named:
        assert (ROOT / path).exists() or (ROOT / "src" / path).exists(), path


def test_every_page_is_in_the_navigation():
    nav = (ROOT / "mkdocs.yml").read_text("utf-8")
    listed = re.findall(r"^ +- .*?: (\S+\.md)$", nav, re.MULTILINE)
    own = [name for name in listed if (DOCS / name).exists()]
    assert sorted(own) == sorted(page.name for page in DOCS.glob("*.md"))
    assert all((ROOT / name).exists() for name in set(listed) - set(own))
