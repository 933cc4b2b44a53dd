"""The pages and the command agree: what is documented exists, and what exists is documented."""

import contextlib
import importlib
import io
import re
import runpy

import pytest
from documents import DOCS, PAGES, ROOT, command_lines, prose

from tightrope.cli import main
from tightrope.cli.command import VERBS, _parse, _verb
from tightrope.errors import InputError

ANYWHERE = {"--help", "--quiet", "--version"}
# Of other programs, named on a page.
OTHERS = {}


def name(page):
    return page.name if page.parent != DOCS else f"docs/{page.name}"


def commands():
    """Words of every command: verbs, and for one with kinds, each of these."""
    for verb in VERBS:
        kind = getattr(importlib.import_module(f"tightrope.cli.{verb}"), verb.capitalize())
        kinds = getattr(kind, "kinds", None)
        yield from ([verb, each] for each in kinds) if kinds else [[verb]]


@pytest.fixture(scope="module")
def offered():
    """By command, the options that its help shows: what a user sees, not how it is made."""
    found = {}
    for words in commands():
        shown = io.StringIO()
        with contextlib.redirect_stdout(shown):
            assert main([*words, "--help"]) == 0
        # An option stands at the beginning of a line, in a box; its opposite after a comma.
        heads = re.findall(r"^\W*(--[a-z][\w-]*(?:, --[\w-]+)*)", shown.getvalue(), re.MULTILINE)
        flags = {flag for head in heads for flag in head.split(", ")}
        found[" ".join(words)] = flags - ANYWHERE
    return found


def test_help_shows_options_of_every_command(offered):
    assert {"--env", "--scheme", "--trust", "--json"} <= offered["certify"]
    assert {"--huber", "--env", "--levels"} <= offered["train redq"]
    assert "--huber" not in offered["train ppo"]


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_every_command_line_on_a_page_is_understood(page):
    for words in command_lines(page):
        verb, called, rest = _verb(words)
        if verb is not None:
            assert _parse(verb, called, [word for word in rest if word != "--quiet"]) is not None


def test_there_are_command_lines_on_the_pages():
    assert sum(len(command_lines(page)) for page in PAGES) > 25


@pytest.mark.parametrize(
    "words",
    [["certfy", "x"], ["certify", "x", "--epizodes", "3"], ["train", "redq", "--clip", "1"]],
)
def test_a_wrong_command_line_would_be_found(words):
    with pytest.raises(InputError):  # noqa: PT012
        verb, called, rest = _verb(words)
        _parse(verb, called, rest)


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_every_option_in_a_sentence_exists(page, offered):
    known = set().union(*offered.values()) | ANYWHERE | OTHERS.get(name(page), set())
    spans = re.findall(r"`([^`]+)`", prose(page))
    own = [span for span in spans if not re.match(r"(python|pip|make|mkdocs) ", span)]
    named = {flag for span in own for flag in re.findall(r"(?<![\w-])--[a-z][\w-]*", span)}
    assert named <= known


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_every_verb_in_a_sentence_exists(page):
    verbs = set(re.findall(r"`tightrope ([a-z]+)\b", prose(page)))
    assert verbs <= set(VERBS)


def sections():
    """By command, the text below its heading in docs/commands.md."""
    parts = re.split(r"^#+ tightrope (.+)$", (DOCS / "commands.md").read_text("utf-8"), flags=re.M)
    return dict(zip(parts[1::2], parts[2::2], strict=True))


@pytest.mark.parametrize("words", list(commands()), ids=" ".join)
def test_every_option_of_every_command_is_documented(words, offered):
    written = set(re.findall(r"^\| `(--[\w-]+)", sections()[" ".join(words)], re.MULTILINE))
    shown = offered[" ".join(words)]
    assert written <= shown
    # `--no-x` beside `--x` is the same option.
    assert shown - written <= {f"--no-{flag[2:]}" for flag in written}


def test_the_page_is_what_its_script_writes():
    pytest.importorskip("docstring_parser")

    script = runpy.run_path(str(DOCS / "tools" / "commands.py"))
    assert script["page"]() == (DOCS / "commands.md").read_text("utf-8"), (
        "docs/commands.md is not up to date: python docs/tools/commands.py"
    )


def test_the_tables_of_audits_are_what_their_script_writes():
    script = runpy.run_path(str(DOCS / "tools" / "audit.py"))
    assert script["page"]() == (ROOT / "results" / "audit" / "README.md").read_text("utf-8"), (
        "results/audit/README.md is not up to date: python docs/tools/audit.py"
    )
