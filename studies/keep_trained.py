"""Keep finished trainings in the repository: weights in half precision, record, log.

    python studies/keep_trained.py RUNS/kept results/reproduction/trained

A level's policy is what is written here: frozen in half precision, loaded and certified as float32.
The record gets the digest of the new file. What is there already is left alone.
"""

import json
import shutil
import sys
import tempfile
from pathlib import Path

import numpy as np

from tightrope.files import load_tensors, save_tensors, sha256

LEVELS = ("starter", "intermediate", "expert")
FORMAT = "tightrope.policy/1"


def keep(run: Path, to: Path) -> None:
    """Copy one run, whole or not at all."""
    holder = Path(tempfile.mkdtemp(dir=to.parent))
    new = holder / "new"
    for level in LEVELS:
        (new / level).mkdir(parents=True)
        arrays, header = load_tensors(run / level / "policy.safetensors", FORMAT)
        weights = {
            name: array.astype(np.float16) if name[0].isdigit() else array
            for name, array in arrays.items()
        }
        file = new / level / "policy.safetensors"
        save_tensors(file, weights, header)
        record = json.loads((run / level / "policy.json").read_text())
        record["digests"] = {file.name: sha256(file)}
        (new / level / "policy.json").write_text(json.dumps(record, indent=1) + "\n")
    for name in ("log.csv", "run.json"):
        shutil.copy(run / name, new / name)
    new.chmod(0o755)
    new.rename(to)
    holder.rmdir()


def main(source: str, target: str) -> None:
    """Keep every run that has all its levels."""
    to = Path(target)
    to.mkdir(parents=True, exist_ok=True)
    for run in sorted(Path(source).iterdir()):
        whole = all((run / level / "policy.json").is_file() for level in LEVELS)
        if whole and not (to / run.name).exists():
            keep(run, to / run.name)
            print(run.name)


if __name__ == "__main__":
    main(*sys.argv[1:])
