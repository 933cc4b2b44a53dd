"""The command as a stranger meets it: help, exit codes, one line for a mistake."""

import functools
import os
import subprocess
import sys
import warnings
from importlib.metadata import version
from pathlib import Path

import pytest
from command import run, tightrope, words

from tightrope.cli import app as command
from tightrope.cli.app import COMMANDS, parse
from tightrope.errors import InputError

VERBS = [verb for group in COMMANDS.values() for verb in group]
AGENTS = [f"train {agent}" for agent in ("redq", "sac", "ppo")]
CALLS = [*(verb for verb in VERBS if verb != "train"), *AGENTS]


def refused(capsys, *arguments):
    code, out, said = run(capsys, *arguments)
    assert (code, out) == (2, "")
    (line,) = said
    assert line.startswith("tightrope: ")
    return line.removeprefix("tightrope: ")


# --- help and version -----------------------------------------------------------------------------


def test_help_lists_every_verb_in_its_group_and_so_does_nothing_at_all(capsys):
    for arguments in (["--help"], ["-h"], []):
        code, out, said = run(capsys, *arguments)
        assert (code, said) == (0, [])
        assert out.startswith("Usage: tightrope COMMAND")
        assert set(COMMANDS) <= set(out.splitlines())
        assert [line.split()[0] for line in out.splitlines() if line.startswith("  ")] == VERBS
    assert run(capsys, "--version") == (0, f"tightrope {version('tightrope')}\n", [])


def test_help_of_train_lists_the_agents(capsys):
    code, out, _ = run(capsys, "train", "--help")
    listed = [line.split()[0] for line in out.splitlines() if line.startswith("  ")]
    assert (code, listed) == (0, ["redq", "sac", "ppo"])


@pytest.mark.parametrize("call", CALLS)
def test_help_shows_common_options_and_help_all_every_option_with_true_defaults(call, capsys):
    code, common, said = run(capsys, *call.split(), "--help")
    assert (code, said) == (0, [])
    assert common.startswith(f"Usage: tightrope {call}")
    code, everything, said = run(capsys, *call.split(), "--help-all")
    assert (code, said) == (0, [])
    app = command.app()
    for word in call.split():
        app = app[word]
    for flag in app.default_command.flags.values():
        assert f"  {flag.label}" in everything
        assert flag.help, flag
        assert (f"  {flag.label}" in common) >= (flag.common or flag.required)
    for shown in (common, everything):
        assert "None" not in shown
        assert "''" not in shown
        assert all(len(line) <= 100 for line in shown.splitlines())


def test_the_common_options_of_certify_fit_on_a_screen(capsys):
    _, out, _ = run(capsys, "certify", "--help")
    assert len(out.splitlines()) <= 30
    assert "--help-all" in out
    assert "--scheme SCHEME" in out
    assert "--unit step|episode" in out
    assert "[0.025]" in out


HEAVY = {"torch", "stable_baselines3", "gymnasium", "scipy", "matplotlib", "pandas", "numpy"}
LOADED = "import sys; from tightrope.cli import main; main(sys.argv[1:]); print(*sys.modules)"


@pytest.mark.parametrize(
    ("line", "allowed"),
    [("--help", set()), ("--version", set()), ("certify --help", {"numpy"})],
)
def test_help_and_version_import_no_heavy_package(line, allowed):
    done = subprocess.run(
        [sys.executable, "-c", LOADED, *line.split()], capture_output=True, text=True
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert not (HEAVY - allowed) & set(done.stdout.split())


# --- what is understood ---------------------------------------------------------------------------

UNDERSTOOD = {
    "certify log.npz --episodes 1e3": {"episodes": 1000},
    "certify log.npz --episodes=1.0E+3 --seed 1_000": {"episodes": 1000, "seed": 1000},
    "certify --pilot_episodes 2e1 --delta 1e-3 log.npz": {"pilot_episodes": 20, "delta": 1e-3},
    "certify --return-range -1e3 20 log.npz": {"return_range": (-1000.0, 20.0)},
    "certify log.npz --fail-below -5 --return-floor=-7.5": {"fail_below": -5, "return_floor": -7.5},
    "certify log.npz --property a=b.py:c --property d=": {"property": ("a=b.py:c", "d=")},
    "certify log.npz --unit step --paper": {"unit": "step", "paper": True},
    "certify log.npz --seed fresh --episodes auto": {"seed": "fresh", "episodes": "auto"},
    "plan log.npz --numbers 200 4e2": {"numbers": (200, 400)},
    "audit --schemes auto rec-2": {"schemes": ("auto", "rec-2")},
    "train sac --env E --out o --levels 1e5 2 3": {
        "env": "E",
        "out": Path("o"),
        "levels": (100_000, 2, 3),
    },
}


@pytest.mark.parametrize("line", UNDERSTOOD)
def test_values_are_what_was_typed_and_nothing_else_is_passed_on(line):
    assert parse(line.split())[1].kwargs == UNDERSTOOD[line]


def test_a_source_may_look_like_a_number_or_after_two_dashes_like_an_option():
    assert parse(["certify", "1e3"])[1].args == ("1e3",)
    assert parse(["certify", "--", "-x"])[1].args == ("-x",)


# --- mistakes -------------------------------------------------------------------------------------


A_VERB = f"a command among {', '.join(VERBS)}, found"
NO_VERB = {
    "certfy policy.zip": f"{A_VERB} 'certfy': did you mean certify?",
    "trian": f"{A_VERB} 'trian': did you mean train?",
    "--frobnicate": f"{A_VERB} '--frobnicate': run tightrope --help",
    "train": "an agent among redq, sac, ppo, found none: run tightrope train --help",
    "train rdq": "an agent among redq, sac, ppo, found 'rdq': did you mean redq?",
}


@pytest.mark.parametrize("line", NO_VERB)
def test_an_unknown_verb_or_agent_is_answered_with_all_of_them_and_a_hint(line, capsys):
    assert refused(capsys, *line.split()) == f"expected {NO_VERB[line]}"


NOT_UNDERSTOOD = {
    "certify log.npz --episodes 1.5": "--episodes must be a whole number or 'auto', found '1.5'",
    "certify log.npz --seed new": "--seed must be a whole number or 'fresh', found 'new'",
    "certify log.npz --return-range 1": "--return-range requires 2 positional arguments",
    "certify log.npz --return-range low 1": "--return-range[0] must be a number or 'auto', found",
    "certify log.npz --delta 2": "--delta must be below 1, found '2'",
    "certify log.npz --unit row": "--unit must be 'step' or 'episode' or 'auto', found 'row'",
    "certify log.npz --out": "--out requires an argument",
    "certify log.npz --episods 3": "Unknown option: --episods. Did you mean --episodes?",
    "certify log.npz --no-paper": "Unknown option: --no-paper",
    "certify log.npz --thin 2 --thin 3": "--thin specified multiple times",
    "certify -1/5": "Unknown option: -1/5",
    "verify": "FOLDER requires an argument",
    "verify here there": "Unused Tokens: ['there']",
    "collect policy.py:act": "--out requires an argument",
    "train ppo --env E --out run --tau 1": "Unknown option: --tau",
    "train sac --env E --out run --levels 1 2 many": "--levels must be a whole number, found",
}


@pytest.mark.parametrize("line", NOT_UNDERSTOOD)
def test_what_is_not_understood_is_one_line_that_ends_with_where_to_look(line, capsys):
    call = next(call for call in CALLS if line.startswith(call))
    answer = refused(capsys, *line.split())
    assert NOT_UNDERSTOOD[line] in answer
    assert answer.endswith(f" (run tightrope {call} --help)")


def test_control_characters_of_what_was_typed_are_escaped(capsys):
    line = refused(capsys, "verify", "here", "\x1b[2Jthere\nverified: every number")
    assert "\\x1b[2Jthere\\nverified" in line


# --- what the library says, in the words of the command -------------------------------------------


@pytest.fixture
def replaced(monkeypatch):
    """A function that replaces what a command line does."""

    def replace(action):
        def parse_instead(words):
            function, given = parse(words)
            return functools.wraps(function)(lambda *_, **__: action()), given

        monkeypatch.setattr(command, "parse", parse_instead)

    return replace


def raises(error):
    def action():
        raise error

    return action


def test_arguments_become_the_flags_of_the_verb_and_other_names_stay(replaced, capsys):
    words_ = "`pilot_episodes`, `folder`, `trust`, `normalize=False`; not `verify=False`"
    replaced(raises(InputError(words_)))
    for line, expected in (
        ("certify log.npz", "--pilot-episodes, `folder`, --trust, --no-normalize"),
        ("verify here", "`pilot_episodes`, FOLDER, --trust, --no-normalize"),
    ):
        assert refused(capsys, *line.split()) == f"{expected}; not `verify=False`"


def test_warnings_are_lines_of_the_same_form(replaced, capsys):
    replaced(lambda: warnings.warn("the seed is\x1b odd", stacklevel=1) or 0)
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        code, _, said = run(capsys, "certify", "log.npz")
    assert (code, said) == (0, ["tightrope: warning: the seed is\\x1b odd"])


def test_quiet_leaves_standard_output_empty_but_for_json(replaced, capsys):
    replaced(lambda: print("words") or 0)
    assert run(capsys, "verify", "here", "--quiet") == (0, "", [])
    assert run(capsys, "--quiet", "verify", "here", "--json") == (0, "words\n", [])


# --- internal errors and interruptions ------------------------------------------------------------


def test_an_internal_error_is_one_line_and_exit_code_70(replaced, monkeypatch, capsys):
    replaced(raises(ZeroDivisionError("of\n  our making")))
    monkeypatch.delenv("TIGHTROPE_TRACEBACK", raising=False)
    code, out, (line,) = run(capsys, "verify", "here")
    assert (code, out) == (70, "")
    assert line.startswith("tightrope: internal error (ZeroDivisionError: of our making)")
    assert "TIGHTROPE_TRACEBACK=1" in line
    monkeypatch.setenv("TIGHTROPE_TRACEBACK", "1")
    code, _, said = run(capsys, "verify", "here")
    assert code == 70
    assert said[0].startswith("Traceback")
    assert any(f'"{__file__}"' in each for each in said)
    assert said[-1] == line


def test_ctrl_c_is_one_line_and_exit_code_130(replaced, capsys):
    replaced(raises(KeyboardInterrupt()))
    assert run(capsys, "verify", "here") == (130, "", ["tightrope: interrupted"])
    stopped = InputError("interrupted: the same command resumes")
    stopped.interrupted = True
    replaced(raises(stopped))
    assert run(capsys, "verify", "here") == (130, "", [f"tightrope: {stopped}"])


@pytest.mark.parametrize("unbuffered", ["", "1"], ids=["buffered", "unbuffered"])
def test_a_reader_that_has_left_is_no_error_of_ours(unbuffered):
    """As in `tightrope train --help | head -1`."""
    reader, writer = os.pipe()
    os.close(reader)
    done = subprocess.run(
        words("--help"),
        stdout=writer,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONUNBUFFERED": unbuffered},
    )
    os.close(writer)
    assert done.stderr == ""
    assert done.returncode == 130


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no device that is full")
def test_standard_output_on_a_full_disk_is_no_internal_error():
    with open("/dev/full", "w") as full:
        done = subprocess.run(words("--version"), stdout=full, stderr=subprocess.PIPE, text=True)
    assert done.returncode == 2
    assert done.stderr == "tightrope: cannot write: No space left on device\n"


def test_python_m_tightrope_is_the_command():
    answer = tightrope("certfy")
    assert (answer.returncode, answer.stdout) == (2, "")
    assert answer.stderr.endswith("did you mean certify?\n")
