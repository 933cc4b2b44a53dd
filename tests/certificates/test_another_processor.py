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
PROGRAM = """
import json, sys
from recordings import certified, recording
from tightrope.certificates import write
from tightrope.certificates.verify import verify
from pathlib import Path

problems = []
options = {"mc_passes": 2, "gamma": 0.5, "seed": 5}
for name, own in {
    "weights": {"scheme": "rec-2", "sampling": "weights"},
    "excess": {"scheme": "rec-2", "kappa": 1.0},
    "auto": {"return_floor": -99.0},
}.items():
    folder = Path(sys.argv[2], name)
    if sys.argv[1] == "issue":
        write(certified(recording(24, seed=1), **options, **own), folder)
    else:
        problems += [f"{folder.name}: {line}" for line in verify(folder)]
print(json.dumps(problems))
"""


def run(verb, folder, import_path, settings):
    plain = {name: value for name, value in os.environ.items() if name not in OLDER}
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, verb, str(folder)],
        env={**plain, **settings, "PYTHONPATH": import_path},
        capture_output=True,
        text=True,
        check=True,
    )
    return json.loads(done.stdout)


def test_certificates_of_this_processor_verify_on_an_older_one(tmp_path, import_path):
    run("issue", tmp_path, import_path, {})
    assert run("verify", tmp_path, import_path, OLDER) == []


def test_certificates_of_an_older_processor_verify_on_this_one(tmp_path, import_path):
    run("issue", tmp_path, import_path, OLDER)
    assert run("verify", tmp_path, import_path, {}) == []


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
