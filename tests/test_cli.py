"""The command as a stranger meets it: real processes, exit codes, one line for a mistake."""

import subprocess
import sys
from importlib.metadata import version


def tightrope(*arguments):
    return subprocess.run(
        [sys.executable, "-m", "tightrope", *arguments], capture_output=True, text=True
    )


def test_help_and_version_answer_on_standard_output_with_exit_code_0():
    for flag in ("--help", "-h"):
        answer = tightrope(flag)
        assert answer.returncode == 0
        assert answer.stdout.startswith("usage: tightrope")
    answer = tightrope("--version")
    assert (answer.returncode, answer.stdout) == (0, f"tightrope {version('tightrope')}\n")


def test_an_unknown_word_is_answered_with_one_line_and_exit_code_2():
    answer = tightrope("frobnicate")
    assert answer.returncode == 2
    assert answer.stdout == ""
    assert answer.stderr.count("\n") == 1
    assert "frobnicate" in answer.stderr


def test_starting_the_command_loads_no_heavy_package():
    heavy = "{'torch', 'stable_baselines3', 'gymnasium', 'scipy'}"
    code = (
        "import contextlib, sys, tightrope.cli as c\n"
        "with contextlib.suppress(SystemExit): c.main(['--help'])\n"
        "c.main(['--version'])\n"
        f"sys.exit(bool({heavy} & set(sys.modules)))"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True).returncode == 0
