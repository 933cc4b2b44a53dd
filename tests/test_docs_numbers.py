"""A number that several pages take from one measurement or function is the same on all of them."""

import re

import pytest
from documents import ROOT, blocks

from tightrope.bounds import (
    clopper_pearson_upper,
    episodes_needed,
    joint_tolerance,
    rate_test,
)

PAGES = [
    *(ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))),
    *(*sorted((ROOT / "benchmarks").glob("*.md")), *sorted((ROOT / "results").glob("*/README.md"))),
]
# By number, where it is stated and how.
NUMBERS = {
    "median of the 95 % limit over ten seeds": {
        "README.md": r"95 % limit had a median of ([\d.]+)",
        "benchmarks/tightness.md": r"\| 95 % \| ([\d.]+)",
    },
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
    "minutes of mini.toml": {
        "results/mini/README.md": r"(\d+) minutes on two cores",
        "benchmarks/scale.md": r"(\d+) minutes on two shared cores",
    },
    "certificates of mini.toml": {
        "results/mini/README.md": r"(\d+) certificates of 24 policies",
        "docs/results.md": r"two environments: (\d+) certificates",
        "benchmarks/scale.md": r"roll-outs and (\d+) certificates",
    },
    "squared error that the paper's recipe certifies in mini.toml": {
        "README.md": r"certified mean squared error was (0\.\d+)",
        "results/mini/README.md": r"\| rec-6 \| (0\.\d+) /",
    },
    "squared error that the default certifies in mini.toml": {
        "README.md": r"recipe and (0\.\d+) with the default",
        "results/mini/README.md": r"\| auto \| \| (0\.\d+) /",
    },
    "violations on correlated steps": {
        "docs/pitfalls.md": r"failed in (\d+ to \d+ of \d+) repetitions",
        "results/audit/README.md": r"on `correlated` (\d+ to \d+ of \d+) where",
    },
    "episodes for a share of 90 % at a tenth of 0.035": {
        "docs/theory.md": r"90 % are covered from n = (\d+) on",
        "docs/monitor.md": r"fewer than (\d+) calibration episodes",
        "docs/episodes.md": r"every row of scheme `auto` \| (\d+) calibration",
    },
}

_ALL = 0.035  # delta and delta' together
# Where a page states what a function gives, how, and the function.
COMPUTED = [
    (
        "docs/theory.md",
        r"90 % are covered from n = (\d+) on",
        lambda: [episodes_needed(0.9, delta=_ALL / 10)],
    ),
    (
        "docs/episodes.md",
        r"\(δ = 0\.025, alone\) \| (\d+) episodes",
        lambda: [episodes_needed(0.95, delta=0.025)],
    ),
    (
        "docs/theory.md",
        r"0\.0175 the ranks are (\d+), (\d+) and (\d+)",
        lambda: [
            each.rank
            for each in joint_tolerance((0.8, 0.9, 0.95), n=150, delta=_ALL / 2, top=0.6)[:3]
        ],
    ),
    (
        "benchmarks/tightness.md",
        r"none of 150 is certified at ([\d.]+) %",
        lambda: [f"{100 * clopper_pearson_upper(0, n=150, delta=_ALL * 3 / 20):.1f}"],
    ),
    (
        "docs/compare.md",
        r"74/80 against 91/120 Boschloo's p-value is (\d\.\d+)",
        lambda: [f"{rate_test(74, 80, 91, 120):.4f}"],
    ),
    (
        "docs/trust.md",
        r"With N = 30 one in ten is found with probability (\d+) %",
        lambda: [f"{100 * (1 - 0.9**30):.0f}"],
    ),
]


def words(path):
    return " ".join((ROOT / path).read_text("utf-8").replace("\n#", "\n").split())


@pytest.mark.parametrize("what", NUMBERS)
def test_a_number_is_the_same_on_every_page(what):
    found = {page: re.findall(pattern, words(page)) for page, pattern in NUMBERS[what].items()}
    assert all(found.values()), found
    assert len({number for numbers in found.values() for number in numbers}) == 1, found


@pytest.mark.parametrize(("page", "pattern", "computed"), COMPUTED)
def test_a_number_is_what_its_function_gives(page, pattern, computed):
    stated = re.search(pattern, words(page))
    assert stated, pattern
    assert list(stated.groups()) == [str(number) for number in computed()]


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
