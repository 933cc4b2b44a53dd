"""Certificates verify on processors that round differently from the one that issued them."""

import json
import os
import subprocess
import sys

import pytest
from recordings import certified, recording

from tightrope.certificates import as_text, write
from tightrope.certificates.folder import document_digest
from tightrope.certificates.verify import verify

# The oldest kernels that torch, oneDNN, MKL and OpenBLAS have for an x86-64; ignored elsewhere.
OLDER = {
    "ATEN_CPU_CAPABILITY": "default",
    "ONEDNN_MAX_CPU_ISA": "SSE41",
    "MKL_CBWR": "COMPATIBLE",
    "OPENBLAS_CORETYPE": "Nehalem",
}
# With the loss before at full weight the excess over it is a small difference of losses.
KINDS = {
    "weights": {"scheme": "rec-2", "sampling": "weights"},
    "excess": {"scheme": "rec-2", "kappa": 1.0},
    "auto": {"return_floor": -99.0},
}
PROGRAM = """
import sys
from pathlib import Path
from test_another_processor import issue_all, verify_all

issue_all(Path(sys.argv[1], "older"))
print(verify_all(Path(sys.argv[1], "this")))
"""


def issue_all(folder):
    for name, own in KINDS.items():
        given = {"mc_passes": 2, "gamma": 0.5, "seed": 5, **own}
        write(certified(recording(24, seed=1), **given), folder / name)


def verify_all(folder):
    return [f"{name}: {line}" for name in KINDS for line in verify(folder / name)]


def test_certificates_of_this_processor_verify_on_an_older_one_and_the_reverse(
    tmp_path, import_path
):
    issue_all(tmp_path / "this")
    path = os.pathsep.join((import_path, os.path.dirname(__file__)))
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(tmp_path)],
        env={**os.environ, **OLDER, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == "[]\n"
    assert verify_all(tmp_path / "older") == []


@pytest.mark.parametrize("name", ["mean", "mean_plus", "mean_minus"])
def test_a_difference_of_losses_may_move_as_far_as_losses_do(name, tmp_path):
    """By 1e-7, the rounding of a prediction, however small it is itself; but not by 1e-6."""
    made = certified(recording(24, seed=1), scheme="rec-2", pilot_episodes=6, seed=5)
    write(made, tmp_path / "c")
    document = json.loads((tmp_path / "c" / "certificate.json").read_text())
    found = {}
    for shift in (1e-7, 1e-6):
        changed = json.loads(json.dumps(document))
        changed["portions"][1][name] += shift
        changed["digests"]["certificate"] = document_digest(changed)
        (tmp_path / "c" / "certificate.json").write_text(as_text(changed))
        found[shift] = [line.partition(":")[0] for line in verify(tmp_path / "c")]
    assert found == {1e-7: [], 1e-6: [f"portions[1].{name}"]}
