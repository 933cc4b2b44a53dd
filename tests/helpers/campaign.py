"""A campaign against readers, in a process of its own: it may crash, or run out of memory.

    python campaign.py FIRST COUNT FOLDER READER...

Case k of a reader is the same whenever it is run. FOLDER/READER/at holds the case that is being
read, and FOLDER/outcomes.json in the end how many files were read and refused, and what went wrong.
"""

import json
import random
import resource
import shutil
import sys
import traceback
import warnings
import zlib
from collections import Counter
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

import mutations
from readers import HARMS, READERS

MEMORY = 3 << 30  # bytes of address space beyond what the process has when all is loaded
LONGEST = 1500  # characters of a message


def run(name, first, count, folder):
    """Outcomes of the cases `first` to `first + count`."""
    reader = READERS[name]
    good, bad = folder / "good", folder / "bad"
    good.mkdir()
    place = Path(reader.name)
    reader.make(good / place)
    files = sorted(path for path in good.rglob("*") if path.is_file())
    shutil.copytree(good, bad)
    _read(reader, bad / place)  # all libraries are loaded, and what is good is read
    outside, before = _outside(folder), _peak()
    unlimited = _limit_memory()
    outcomes, wrong = Counter(), []
    for case in range(first, first + count):
        (folder / "at").write_text(str(case))
        rng = random.Random(zlib.crc32(f"{name}:{case}".encode()))
        path = rng.choice(files)
        harmed = bad / path.relative_to(good)
        content, other = path.read_bytes(), rng.choice(files).read_bytes()
        harm = HARMS.get(path.suffix, mutations.damaged)
        harm = harm if rng.random() < 0.6 else mutations.damaged
        harmed.write_bytes(harm(content, other, rng))
        outcome, why = _outcome(reader, bad / place)
        outcomes[outcome] += 1
        if outcome == "wrong":
            wrong.append({"case": case, "file": str(path.relative_to(good)), "why": why})
        for each in files:  # whatever reads may also make digests right
            (bad / each.relative_to(good)).write_bytes(each.read_bytes())
    appeared = sorted(map(str, _outside(folder) - outside))
    grown = _peak() - before
    resource.setrlimit(resource.RLIMIT_AS, unlimited)
    return {"outcomes": outcomes, "wrong": wrong, "appeared": appeared, "grown": grown}


def _read(reader, path):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        warnings.simplefilter("error", RuntimeWarning)  # arithmetic on what should be refused
        reader.read(path)


def _outcome(reader, path):
    from tightrope.errors import InputError

    try:
        _read(reader, path)
    except InputError as error:
        said = str(error)
        if "\n" in said or len(said) > LONGEST:
            return "wrong", f"a message of {len(said)} characters: {said[:200]!r}"
        return "refused", ""
    except BaseException as error:
        frames = traceback.extract_tb(error.__traceback__)
        places = [f"{Path(f.filename).name}:{f.lineno}" for f in frames[-5:]]
        return "wrong", f"{type(error).__name__}: {str(error)[:200]} {' '.join(places)}"
    return "read", ""


def _peak():
    """Bytes of memory that were in use at most; address space that is not written to is none."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss << 10


def _limit_memory():
    """Keep the address space from growing; what the limits were before."""
    before = resource.getrlimit(resource.RLIMIT_AS)
    text = Path("/proc/self/status").read_text() if Path("/proc/self/status").exists() else ""
    used = next((int(line.split()[1]) for line in text.splitlines() if "VmSize" in line), None)
    if used is not None:
        resource.setrlimit(resource.RLIMIT_AS, ((used << 10) + MEMORY, before[1]))
    return before


def _outside(folder):
    """What there is beside the files that are read, also where a path would lead out."""
    places = {path for path in folder.iterdir() if path.name not in ("at", "outcomes.json")}
    return places | set(Path("/").glob("escaped*")) | set(folder.parent.glob("escaped*"))


def main():
    """Run the campaign that the arguments name."""
    first, count, folder = int(sys.argv[1]), int(sys.argv[2]), Path(sys.argv[3])
    found = {}
    for name in sys.argv[4:]:
        (folder / name).mkdir(parents=True)
        found[name] = run(name, first, count, folder / name)
    (folder / "outcomes.json").write_text(json.dumps(found))


if __name__ == "__main__":
    main()
