"""A command that is killed at its changes of files leaves whole artefacts or none.

A few kills of benchmarks/faults.py, by events and not by time; the campaign: benchmarks/faults.md.
"""

import json
import os
import subprocess
import sys

import pytest
from documents import ROOT


@pytest.mark.validity
@pytest.mark.skipif(sys.platform != "linux", reason="processes are found in /proc")
def test_collect_survives_kills_of_everything_and_of_itself_alone(tmp_path, trained):
    (tmp_path / "policy").mkdir()
    trained(tmp_path / "policy")
    script, out = ROOT / "benchmarks" / "faults.py", tmp_path / "counts.json"
    words = ["collect", "--kills", "4", "--only-events", "--disks", "none", "--out", str(out)]
    done = subprocess.run(
        [sys.executable, str(script), *words, "--policy", str(tmp_path / "policy")],
        capture_output=True,
        text=True,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )
    assert done.returncode == 0, done.stdout + done.stderr
    count = json.loads(out.read_text())["collect"]
    assert count["kills"] == count["writing"] == 4
    assert 0 < count["alone"] < 4
    assert count["equal"] == count["runs"] >= 1
    assert (count["stray"], count["problems"]) == (0, [])
