"""A number that several pages take from one measurement is the same on all of them."""

import re

import pytest
from documents import ROOT, blocks

PAGES = [
    *(ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))),
    *(*sorted((ROOT / "benchmarks").glob("*.md")), *sorted((ROOT / "results").glob("*/README.md"))),
]
# By number, where it is stated and how.
NUMBERS = {
    "minutes of quick.toml": {
        "docs/tutorial-paper.md": r"quick\.toml` \| (\d+) min",
        "benchmarks/scale.md": r"quick\.toml`, .*?took (\d+) min",
        "studies/quick.toml": r"Expect about (\d+) min",
    },
    "gigabytes of paper.toml": {
        "docs/tutorial-paper.md": r"days, (\d+) GB",
        "benchmarks/scale.md": r"(\d+) GB \(",
        "studies/paper.toml": r"and (\d+) GB",
    },
    "days of paper.toml": {
        "docs/tutorial-paper.md": r"(\d+) days",
        "studies/paper.toml": r"about (\d+) days",
    },
    "hours of REDQ in bfloat16": {
        "docs/tutorial-paper.md": r"Cost: (\d\.\d) hours",
        "docs/agents.md": r"REDQ, in bfloat16 .* (\d\.\d) h \| \| REDQ",
    },
    "milliseconds of an update of REDQ in bfloat16": {
        "docs/agents.md": r"REDQ, in bfloat16 \| (\d+) ms",
        "benchmarks/README.md": r"two of them\), .*?the default here \| [\d.]+ \| [\d.]+ \| (\d+)",
    },
    "violations on correlated steps": {
        "docs/pitfalls.md": r"at least (\d+ of \d+) repetitions",
        "results/audit/README.md": r"(\d+ of \d+) repetitions, and in \d+ at the most",
    },
    "episodes for a share of 90 % at a tenth of 0.035": {
        "docs/theory.md": r"90 % are covered from n = (\d+) on",
        "docs/monitor.md": r"fewer than (\d+) calibration episodes",
        "docs/episodes.md": r"every row of scheme `auto` \| (\d+) calibration",
    },
}


def words(path):
    return " ".join((ROOT / path).read_text("utf-8").replace("\n#", "\n").split())


@pytest.mark.parametrize("what", NUMBERS)
def test_a_number_is_the_same_on_every_page(what):
    found = {page: re.findall(pattern, words(page)) for page, pattern in NUMBERS[what].items()}
    assert all(found.values()), found
    assert len({number for numbers in found.values() for number in numbers}) == 1, found


def test_one_command_has_one_output_on_all_pages():
    outputs = {}
    for page in PAGES:
        for block in blocks(page):
            for shown in re.split(r"^\$ ", block.text, flags=re.MULTILINE)[1:]:
                command, _, output = shown.partition("\n")
                outputs.setdefault(command, {})[output.strip()] = f"{page.name}:{block.line}"
    assert any("certify --demo" in command for command in outputs)
    assert {command: pages for command, pages in outputs.items() if len(pages) > 1} == {}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_what_is_said_of_the_demo_is_what_the_readme_shows(page):
    """Every number in a sentence about `certify --demo --seed 1` stands in that output."""
    shown = [block.text for block in blocks(ROOT / "README.md") if "certify --demo" in block.text]
    printed = set(re.findall(r"\d(?:[\d,.]*\d)?", shown[0]))
    for sentence in re.split(r"(?<=[.:])\s", page.read_text("utf-8")):
        _, about, rest = sentence.partition("certify --demo --seed 1")
        if about:
            assert set(re.findall(r"\d(?:[\d,.]*\d)?", rest)) <= printed, sentence
