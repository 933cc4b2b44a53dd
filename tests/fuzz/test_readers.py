"""Every reader refuses harmed files with InputError, in one line, and with nothing else.

A few cases of each here; `make fuzz` runs more than 10,000.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from readers import READERS

for library in ("pyarrow", "h5py", "minari", "onnx", "onnxruntime"):
    pytest.importorskip(library)
CAMPAIGN = Path(__file__).parents[1] / "helpers" / "campaign.py"
FEW, MANY = 12, 600
MEMORY = 1 << 30  # bytes that reading a file of some kilobytes may take


def campaign(folder, first, count, *names):
    """Outcomes by reader; fails with the case at which the process died or hung."""
    command = [sys.executable, str(CAMPAIGN), str(first), str(count), str(folder), *names]
    try:
        done = subprocess.run(
            command,
            capture_output=True,
            text=True,
            timeout=1500,
            env={**os.environ, "OMP_NUM_THREADS": "1"},
        )
    except subprocess.TimeoutExpired:
        pytest.fail(f"no end at {cases(folder)}")
    assert done.returncode == 0, f"{cases(folder)}: {done.returncode} {done.stderr[-2000:]}"
    return json.loads((folder / "outcomes.json").read_text())


def cases(folder):
    return {path.parent.name: path.read_text() for path in sorted(folder.glob("*/at"))}


def assert_harmless(found, count):
    assert not found["wrong"], found["wrong"][:5]
    assert not found["appeared"], found["appeared"]
    assert found["grown"] < MEMORY
    assert sum(found["outcomes"].values()) == count
    assert found["outcomes"]["refused"] > 0


def test_harmed_files_are_refused_in_one_line_and_nothing_else_happens(tmp_path):
    found = campaign(tmp_path / "few", 0, FEW, *READERS)
    assert set(found) == set(READERS)
    for name in READERS:
        assert_harmless(found[name], FEW)


@pytest.mark.validity
@pytest.mark.parametrize("name", READERS)
def test_many_harmed_files_are_refused_in_one_line_and_nothing_else_happens(name, tmp_path):
    count = int(MANY * READERS[name].share)
    assert_harmless(campaign(tmp_path / "many", FEW, count, name)[name], count)


def test_the_long_campaign_has_more_than_ten_thousand_cases():
    assert sum(int(MANY * reader.share) for reader in READERS.values()) > 10_000
