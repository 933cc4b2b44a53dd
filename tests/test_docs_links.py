"""Links between pages lead somewhere, on GitHub as on the site; every page can be found."""

import re

import pytest
from documents import DOCS, PAGES, ROOT, anchors, prose

LINKED = [
    *PAGES,
    *(ROOT / name for name in ("CHANGELOG.md", "CONTRIBUTING.md")),
    *(ROOT / name / "README.md" for name in ("benchmarks", "results/agents")),
]


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


def test_every_page_is_in_the_navigation():
    nav = (ROOT / "mkdocs.yml").read_text("utf-8")
    listed = re.findall(r"^ +- .*?: (\S+\.md)$", nav, re.MULTILINE)
    own = [name for name in listed if (DOCS / name).exists()]
    assert sorted(own) == sorted(page.name for page in DOCS.glob("*.md"))
    assert all((ROOT / name).exists() for name in set(listed) - set(own))
