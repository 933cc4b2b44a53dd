"""The pages as people read them: fenced code, links, headings."""

import re
import shlex
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
PAGES = [ROOT / "README.md", *sorted(DOCS.glob("*.md"))]
_FENCE = re.compile(r"^( *)```([\w-]*)[^\n]*\n(.*?)^\1```", re.MULTILINE | re.DOTALL)


@dataclass(frozen=True)
class Block:
    """Fenced code: its language, its text, and the line of the page that it starts at."""

    language: str
    text: str
    line: int


def blocks(page, language=None):
    """Fenced code of a page, in order."""
    text = page.read_text("utf-8")
    found = [
        Block(match[2], match[3], text[: match.start()].count("\n") + 2)
        for match in _FENCE.finditer(text)
    ]
    return [block for block in found if language in (None, block.language)]


def prose(page):
    """A page without its fenced code."""
    return _FENCE.sub("", page.read_text("utf-8"))


def command_lines(page):
    """Words of every fenced line that begins with `tightrope `, a prompt left out."""
    lines = [
        line.strip().removeprefix("$ ") for each in blocks(page) for line in each.text.split("\n")
    ]
    return [shlex.split(line, comments=True)[1:] for line in lines if line.startswith("tightrope ")]


def anchor(heading):
    """What GitHub and the site call a heading."""
    plain = re.sub(r"[`*]|\[([^\]]*)\]\([^)]*\)", r"\1", heading).strip().lower()
    return re.sub(r"[^\w\- ]", "", plain).replace(" ", "-")


def anchors(page):
    """All headings of a page."""
    return {anchor(text) for text in re.findall(r"^#+ (.+)$", prose(page), re.MULTILINE)}
