"""The command as a stranger meets it: help, exit codes, one line for a mistake."""

import os
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

import pytest
from command import run, tightrope, words

from tightrope.cli.certify import Certify
from tightrope.cli.collect import Collect
from tightrope.cli.command import VERBS
from tightrope.cli.train import Train
from tightrope.cli.verify import Verify
from tightrope.errors import InputError

# --- help and version -----------------------------------------------------------------------------


def test_help_and_version_answer_on_standard_output_with_exit_code_0():
    for flag in ("--help", "-h"):
        answer = tightrope(flag)
        assert (answer.returncode, answer.stderr) == (0, "")
        assert answer.stdout.startswith("usage: tightrope")
    answer = tightrope("--version")
    assert (answer.returncode, answer.stdout) == (0, f"tightrope {version('tightrope')}\n")


def test_help_lists_every_verb_and_so_does_nothing_at_all(capsys):
    for arguments in (["--help"], []):
        code, out, said = run(capsys, *arguments)
        assert (code, said) == (0, [])
        listed = {line.split()[0] for line in out.splitlines() if line.startswith("  ")}
        assert listed == set(VERBS)
        assert listed >= {*("audit", "certify", "check", "collect", "compare", "monitor", "plan")}
        assert listed >= {"report", "sign", "study", "train", "verify"}


FEW_IMPORTS = """
import sys
from tightrope.cli import main
code = main(sys.argv[1:])
heavy = {"torch", "stable_baselines3", "gymnasium", "scipy", "matplotlib"} & set(sys.modules)
sys.exit(f"loaded {heavy}" if heavy else code)
"""


OPTIONS = {
    "audit": "schemes repetitions unit preset episodes pilot-episodes delta delta-prime mc-passes "
    "updates width truth-episodes seed env demo out engine workers address",
    "certify": "scheme unit preset episodes test-episodes delta delta-prime gamma thin "
    "return-range pilot-episodes mc-passes seed json demo env out trust workers device",
    "collect": "env out episodes seed workers timeout normalize trust sample keep-partial",
    "train redq": "env out steps warmup seed levels hidden critics compile device threads",
    "train sac": "env out steps warmup seed levels hidden device threads",
    "train ppo": "env out steps rollout seed levels hidden device threads",
    "verify": "json commitment verify-key replay policy env trust",
    "sign": "key",
    "report": "help",
    "check": "max-rms min-return min-mean-return max-failure min-confidence share unit failure "
    "discounted json",
    "compare": "env out max-episodes batch gamma return-range failure fail-below delta delta-prime "
    "seed workers normalize normalize-b trust json",
}


@pytest.mark.parametrize(
    "command", ["", "--version", "train --help", *(f"{command} --help" for command in OPTIONS)]
)
def test_help_and_version_load_no_heavy_package(command):
    done = subprocess.run(
        [sys.executable, "-c", FEW_IMPORTS, *command.split()], capture_output=True, text=True
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith(("usage: tightrope", "tightrope "))


@pytest.mark.parametrize("command", OPTIONS)
def test_the_help_of_a_command_shows_its_options_with_true_defaults(command, capsys):
    code, out, said = run(capsys, *command.split(), "--help")
    assert (code, said) == (0, [])
    assert out.startswith(f"usage: tightrope {command} ")
    for option in OPTIONS[command].split():
        assert f"--{option} " in out, option
    assert "None" not in out
    assert "default: ''" not in out


# --- mistakes in the words of the command ---------------------------------------------------------


def refused(capsys, *arguments):
    code, out, said = run(capsys, *arguments)
    assert (code, out) == (2, "")
    (line,) = said
    assert line.startswith("tightrope: ")
    return line.removeprefix("tightrope: ")


@pytest.mark.parametrize(
    ("word", "hint"),
    [
        ("certfy", "did you mean certify?"),
        ("trian", "did you mean train?"),
        ("frobnicate", "run tightrope --help"),
        ("--frobnicate", "run tightrope --help"),
    ],
)
def test_an_unknown_verb_is_answered_with_all_verbs_and_a_hint(word, hint, capsys):
    line = refused(capsys, word, "policy.zip")
    assert line == f"expected a verb among {', '.join(VERBS)}, found {word!r}: {hint}"


NOT_UNDERSTOOD = {
    "a number where a whole one or a word goes": (
        "certify log.npz --episodes 1.5",
        "expected a whole number or auto for --episodes, found '1.5'",
    ),
    "a word where a whole number or another word goes": (
        "certify log.npz --seed new",
        "expected a whole number or fresh for --seed, found 'new'",
    ),
    "one number where two go": (
        "certify log.npz --return-range 1",
        "expected two numbers or auto for --return-range, found '1'",
    ),
    "two words where two numbers go": (
        "certify log.npz --return-range low high",
        "expected two numbers or auto for --return-range, found 'low', 'high'",
    ),
    "two numbers where three go": (
        "train sac --env Pendulum-v1 --out run --levels 1 2",
        "expected three values for --levels, found fewer",
    ),
    "a word where three numbers go": (
        "train sac --env Pendulum-v1 --out run --levels 1 2 many",
        "expected three whole numbers for --levels, found '1', '2', 'many'",
    ),
    "words where numbers go": (
        "train sac --env Pendulum-v1 --out run --hidden wide",
        "expected whole numbers for --hidden, found 'wide'",
    ),
    "a number where a whole one goes": (
        "collect policy.py:act --out a.npz --episodes 1.5",
        "expected a whole number for --episodes, found '1.5'",
    ),
    "a word where a number goes": (
        "certify log.npz --delta small",
        "expected a number for --delta, found 'small'",
    ),
    "none of the choices": (
        "certify log.npz --unit row",
        "expected --unit among step, episode, found 'row'",
    ),
    "nothing": ("verify", "expected DIR, found none"),
    "one thing missing": ("collect policy.py:act", "expected --out, found none"),
    "everything missing": ("train sac", "expected --env and --out, found none"),
    "no agent": ("train", "expected an agent among redq, sac, ppo, found none"),
    "an option before the agent": (
        "train --env Pendulum-v1 sac",
        "expected an agent among redq, sac, ppo, found '--env'",
    ),
    "an option of another agent": (
        "train ppo --huber 1",
        "expected an option, found '--huber', which is for redq",
    ),
    "a switch of another agent": (
        "train ppo --no-learned-norm",
        "expected an option, found '--no-learned-norm', which is for redq and sac",
    ),
    "an option of two other agents": (
        "train ppo --env Pendulum-v1 --out run --replay_ratio=2",
        "expected an option, found '--replay_ratio=2', which is for redq and sac",
    ),
    "no value": ("certify log.npz --out", "expected a value for --out, found none"),
    "a misspelt option": (
        "certify log.npz --episods 3",
        "expected an option, found '--episods' (did you mean --episodes?)",
    ),
    "the beginning of an option": (
        "certify log.npz --ret 1 2",
        "expected an option, found '--ret' (did you mean --return-range?)",
    ),
    "an unknown option": ("certify log.npz --quux red", "expected an option, found '--quux'"),
    "an option of another verb": ("verify here --thin", "expected an option, found '--thin'"),
    "one word too many": ("verify here there", "expected nothing more, found 'there'"),
    "a value outside its set": (
        "certify log.npz --thin 0",
        "--thin must be at least 1, found 0",
    ),
}


@pytest.mark.parametrize(("line", "answer"), NOT_UNDERSTOOD.values(), ids=NOT_UNDERSTOOD)
def test_what_is_not_understood_is_one_line_that_ends_with_where_to_look(line, answer, capsys):
    command = next(each for each in (*OPTIONS, "train") if line.startswith(each))
    assert refused(capsys, *line.split()) == f"{answer}: run tightrope {command} --help"


def test_a_misspelt_agent_gets_a_hint(capsys):
    line = refused(capsys, "train", "rdq", "--env", "Pendulum-v1")
    assert line == "expected an agent among redq, sac, ppo, found 'rdq': did you mean redq?"


@pytest.mark.parametrize(
    "line",
    [
        *("train sac", "train sac --levels 1 2 many", "verify"),
        *("certify x --unit row", "certify x --seed new", "verify a b"),
    ],
)
def test_a_mistake_reads_the_same_in_a_terminal_without_box_characters(line, capsys):
    plain = tightrope(*line.split(), env={"PYTHONIOENCODING": "ascii"})
    assert plain.stderr == f"tightrope: {refused(capsys, *line.split())}\n"


@pytest.fixture
def parsed(monkeypatch, capsys):
    """A function from arguments to the verb as it would run."""

    def parse(kind, *arguments):
        seen = []
        monkeypatch.setattr(kind, "run", lambda self: seen.append(self) or 0)
        assert run(capsys, kind.__name__.lower(), *arguments) == (0, "", [])
        return seen[0]

    return parse


def test_1e3_is_a_whole_number_wherever_one_goes(parsed):
    for words_ in (("--episodes", "1e3"), ("--episodes=1e3",), ("--episodes", "1.0E+3")):
        assert parsed(Certify, "log.npz", *words_).certificate.episodes == 1000
    made = parsed(Certify, "1e3", "--pilot_episodes", "2e1", "--delta", "1e-3", "--seed", "1e1")
    assert (made.source, made.certificate.pilot_episodes) == ("1e3", 20)
    assert (made.certificate.delta, made.certificate.seed) == (1e-3, 10)
    assert parsed(Collect, "--episodes", "1e2", "1e3", "--out", "a.npz").policy == "1e3"
    trained = parsed(
        Train,
        *("sac", "--env", "Pendulum-v1", "--out", "run", "--steps", "1e6"),
        *("--levels", "1e5", "2e5", "1e6", "--hidden", "1e1", "20", "3e1"),
    )
    assert (trained.steps, trained.levels) == (1_000_000, (100_000, 200_000, 1_000_000))
    assert trained.settings.hidden == (10, 20, 30)


@pytest.mark.parametrize("word", ["1.5", "1.5e0", "1e-1", "1e30", "0x10", "ten", "1e", ""])
def test_what_is_no_whole_number_is_refused_as_it_was_written(word, capsys):
    assert f"found {word!r}" in refused(capsys, "certify", "log.npz", "--episodes", word)


# --- what the library says, in the words of the command -------------------------------------------


def test_arguments_become_the_flags_of_the_verb_and_other_names_stay(monkeypatch, capsys):
    def fail(self):
        raise InputError(
            "`pilot_episodes`, `folder`, `trust`, `normalize=False`; not `verify=False`"
        )

    for kind, arguments, expected in (
        (Certify, ["log.npz"], "--pilot-episodes, `folder`, --trust, --no-normalize"),
        (Verify, ["here"], "`pilot_episodes`, DIR, --trust, --no-normalize"),
    ):
        monkeypatch.setattr(kind, "run", fail)
        assert (
            refused(capsys, kind.__name__.lower(), *arguments) == f"{expected}; not `verify=False`"
        )


def test_warnings_are_lines_of_the_same_form(monkeypatch, capsys):
    import warnings

    def warn(self):
        warnings.warn("`seed` is odd", stacklevel=1)
        return 0

    monkeypatch.setattr(Certify, "run", warn)
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        code, _, said = run(capsys, "certify", "log.npz")
    assert (code, said) == (0, ["tightrope: warning: --seed is odd"])


# --- internal errors and interruptions ------------------------------------------------------------


def broken(self):
    raise ZeroDivisionError("of\n  our making")


def test_an_internal_error_is_one_line_and_exit_code_70(monkeypatch, capsys):
    monkeypatch.delenv("TIGHTROPE_TRACEBACK", raising=False)
    monkeypatch.setattr(Verify, "run", broken)
    code, out, said = run(capsys, "verify", "here")
    assert (code, out) == (70, "")
    (line,) = said
    assert line.startswith("tightrope: internal error (ZeroDivisionError: of our making)")
    assert "TIGHTROPE_TRACEBACK=1" in line


def test_tightrope_traceback_shows_where_with_the_same_exit_code(monkeypatch, capsys):
    monkeypatch.setenv("TIGHTROPE_TRACEBACK", "1")
    monkeypatch.setattr(Verify, "run", broken)
    code, _, said = run(capsys, "verify", "here")
    assert code == 70
    assert said[0].startswith("Traceback")
    assert any(f'"{__file__}"' in line for line in said)
    assert said[-1].startswith("tightrope: internal error (ZeroDivisionError")


def test_ctrl_c_is_one_line_and_exit_code_130(monkeypatch, capsys):
    def interrupted(self):
        raise KeyboardInterrupt

    monkeypatch.setattr(Verify, "run", interrupted)
    assert run(capsys, "verify", "here") == (130, "", ["tightrope: interrupted"])


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
    assert done.returncode == (130 if unbuffered else 0)


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no device that is full")
def test_standard_output_on_a_full_disk_is_no_internal_error():
    with open("/dev/full", "w") as full:
        done = subprocess.run(words("--version"), stdout=full, stderr=subprocess.PIPE, text=True)
    assert done.returncode == 2
    assert done.stderr == "tightrope: cannot write: No space left on device\n"
