"""The wheel without extras, in an environment of its own: tables and counts need no more."""

import json
import os
import subprocess
import sys
import venv
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
MOST = 280_000_000  # bytes that pip adds
RESULTS = "return,success\n" + "".join(f"{100 + 7 * k % 40},{k % 9 > 0}\n" for k in range(60))
ANSWERS = {  # a command line, its exit code, and words of what it says
    "--help": (0, "Certificates"),
    "compare 74/80 91/120": (0, "16.7 points"),
    "check 74/80 --max-failure 0.2": (0, "holds"),
    "check results.csv --max-failure 0.01": (1, "FAILS"),
    "plan 74/80 --max-failure 0.05": (1, "Forecast"),
    "certify results.csv --out made": (0, "return"),
    "verify made": (0, "verified"),
    "report made": (0, "report.html"),
    "certify policy.zip --env Hopper-v4": (2, 'pip install "tightrope[certify]"'),
    "train sac --env Hopper-v4 --out run": (2, 'pip install "tightrope[train]"'),
    "study study.toml": (2, 'pip install "tightrope[studies]"'),
}


@pytest.fixture(scope="module")
def installed(tmp_path_factory):
    """The command, installed with pip from a wheel that is built now."""
    place = tmp_path_factory.mktemp("base")
    build = [sys.executable, "-m", "build", "--wheel", "--outdir", place / "dist", ROOT]
    subprocess.run(build, check=True, capture_output=True, timeout=600)
    venv.create(place / "venv", with_pip=True)
    before = used(place / "venv")
    (wheel,) = (place / "dist").glob("*.whl")
    install = [place / "venv/bin/python", "-m", "pip", "install", "--quiet", wheel]
    subprocess.run(install, check=True, capture_output=True, timeout=1200)
    (place / "results.csv").write_text(RESULTS)
    for name in ("policy.zip", "study.toml"):
        (place / name).touch()
    return place, used(place / "venv") - before


def used(folder):
    return sum(path.lstat().st_size for path in folder.rglob("*"))


@pytest.mark.validity  # needs a network; `make dist` runs it
def test_the_wheel_alone_serves_tables_and_counts_and_names_the_extra_of_what_it_cannot(installed):
    place, size = installed
    assert size <= MOST
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"}
    for line, (code, words) in ANSWERS.items():
        done = subprocess.run(
            [place / "venv/bin/tightrope", *line.split()],
            capture_output=True,
            text=True,
            cwd=place,
            env=environment,
            timeout=300,
        )
        assert done.returncode == code, (line, done.stdout, done.stderr)
        assert words in done.stdout + done.stderr, (line, done.stdout, done.stderr)
        assert code != 2 or done.stderr.count("\n") == 1, (line, done.stderr)
    document = json.loads((place / "made" / "certificate.json").read_text())
    assert {each["kind"] for each in document["statements"]} == {"return", "failure"}
