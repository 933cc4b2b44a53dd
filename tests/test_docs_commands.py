"""The pages and the command agree: what is documented exists, and what exists is documented."""

import re
import runpy

import pytest
from documents import DOCS, PAGES, ROOT, command_lines, prose

from tightrope.cli.app import COMMANDS, parse
from tightrope.errors import InputError

SCRIPT = runpy.run_path(str(DOCS / "tools" / "commands.py"))
ANYWHERE = {"--help", "--help-all", "--quiet", "--version"}
VERBS = {verb for group in COMMANDS.values() for verb in group}


def name(page):
    return page.name if page.parent != DOCS else f"docs/{page.name}"


@pytest.fixture(scope="module")
def offered():
    """By command, its options."""
    return {
        " ".join(words): {
            name
            for flag in function.flags.values()
            for name in (flag.typed, flag.typed.replace("--no-", "--"))
        }
        for words, function in SCRIPT["commands"]()
    }


def test_help_shows_options_of_every_command(offered):
    assert {"--env", "--scheme", "--trust", "--json"} <= offered["certify"]
    assert {"--huber", "--env", "--levels"} <= offered["train redq"]
    assert "--huber" not in offered["train ppo"]


def understood(words):
    asked = {"--help", "--help-all", "--version"} & set(words)
    return asked or parse([word for word in words if word != "--quiet"])


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_every_command_line_on_a_page_is_understood(page):
    assert all(understood(words) for words in command_lines(page))


def test_there_are_command_lines_on_the_pages():
    assert sum(len(command_lines(page)) for page in PAGES) > 25


@pytest.mark.parametrize(
    "words",
    [["certfy", "x"], ["certify", "x", "--epizodes", "3"], ["train", "redq", "--clip", "1"]],
)
def test_a_wrong_command_line_would_be_found(words):
    with pytest.raises(InputError):
        understood(words)


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_every_option_in_a_sentence_exists(page, offered):
    known = set().union(*offered.values()) | ANYWHERE
    spans = re.findall(r"`([^`]+)`", prose(page))
    own = [span for span in spans if not re.match(r"(python|pip|make|mkdocs) ", span)]
    named = {flag for span in own for flag in re.findall(r"(?<![\w-])--[a-z][\w-]*", span)}
    assert named <= known


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_every_verb_in_a_sentence_exists(page):
    verbs = set(re.findall(r"`tightrope ([a-z]+)\b", prose(page)))
    assert verbs <= VERBS


def test_the_page_is_what_its_script_writes():
    assert SCRIPT["page"]() == (DOCS / "commands.md").read_text("utf-8"), (
        "docs/commands.md is not up to date: python docs/tools/commands.py"
    )


def test_the_tables_of_audits_are_what_their_script_writes():
    script = runpy.run_path(str(DOCS / "tools" / "audit.py"))
    assert script["page"]() == (ROOT / "results" / "audit" / "README.md").read_text("utf-8"), (
        "results/audit/README.md is not up to date: python docs/tools/audit.py"
    )
