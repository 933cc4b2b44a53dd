"""Files of strangers that state more than they hold, or lead elsewhere: one line, little memory."""

import io
import resource
import subprocess
import sys
import zipfile

import numpy as np
import pytest

pyarrow = pytest.importorskip("pyarrow")
ROWS = 1 << 20
ARRAYS = ("observations", "rewards", "terminals", "timeouts")
EVALUATIONS = ("timesteps", "results", "ep_lengths")


def parquet(path, columns, **options):
    from pyarrow.parquet import write_table

    write_table(pyarrow.table(columns), path, **options)


def rows(count, **columns):
    same = {name: pyarrow.array(np.zeros(count, np.int8)) for name in ("obs_x", "reward", "done")}
    return {"episode": pyarrow.array(np.zeros(count, np.int8)), **same, **columns}


def one_number_for_ever(path):
    parquet(path, rows(ROWS * 4))


def lists_of_one_number(path):
    count, width = 64, 1 << 18
    offsets = np.arange(0, (count + 1) * width, width, dtype=np.int32)
    values = pyarrow.array(np.zeros(count * width, np.int8))
    lists = pyarrow.ListArray.from_arrays(offsets, values)
    parquet(path, rows(count, obs_x=lists))


def long_names_of_episodes(path):
    name = pyarrow.array(["x" * (1 << 20)])
    names = pyarrow.DictionaryArray.from_arrays(np.zeros(ROWS, np.int32), name)
    parquet(path, rows(ROWS, episode=names))


def names_that_repeat_the_last(path):
    names = pyarrow.array(["x" * (1 << 18)] * 512)
    options = {"use_dictionary": False, "column_encoding": {"episode": "DELTA_BYTE_ARRAY"}}
    parquet(path, rows(512, episode=names), **options)


def lists_of_long_names(path):
    name = pyarrow.DictionaryArray.from_arrays(np.zeros(ROWS, np.int32), ["x" * (1 << 20)])
    names = pyarrow.ListArray.from_arrays(np.arange(ROWS + 1, dtype=np.int32), name)
    parquet(path, rows(ROWS, obs_x=names), store_schema=False)


def long_names_of_another_type(path):
    from pyarrow.parquet import ParquetWriter

    names = pyarrow.array(["x" * (1 << 20)] * 32, pyarrow.large_string())
    table = pyarrow.table(rows(32, episode=names))
    with ParquetWriter(path, table.schema) as writer:
        for _ in range(16):
            writer.write_table(table)


def records(path):
    deep = pyarrow.array([{"a": {"b": [1.0]}}] * 4)
    parquet(path, rows(4, reward=deep))


def results_of_one_number(path):
    parquet(path, {"return": pyarrow.array(np.zeros(ROWS * 4, np.int8))})


def results_of_long_texts(path):
    note = pyarrow.array(["x" * (1 << 16)])
    notes = pyarrow.DictionaryArray.from_arrays(np.zeros(1 << 16, np.int32), note)
    parquet(path, {"return": pyarrow.array(np.arange(65536.0)), "note": notes})


def headers(path, names, *shape):
    """Arrays of terabytes by their headers, in a file of some bytes."""
    head = io.BytesIO()
    np.lib.format.write_array_header_1_0(
        head, {"descr": "<f8", "fortran_order": False, "shape": shape}
    )
    with zipfile.ZipFile(path, "w") as archive:
        for name in names:
            archive.writestr(f"{name}.npy", head.getvalue())


def evaluations_by_their_header(path):
    headers(path, EVALUATIONS, 3, 1 << 37)


def evaluations_of_zeros(path):
    with zipfile.ZipFile(path, "w", zipfile.ZIP_BZIP2) as archive:
        for name in EVALUATIONS:
            archive.writestr(f"{name}.npy", bytes(1 << 28))


def packed_zeros(path):
    with zipfile.ZipFile(path, "w", zipfile.ZIP_BZIP2) as archive:
        archive.writestr("observations.npy", bytes(1 << 25))


def zeros_by_their_header(path):
    headers(path, ARRAYS, 1 << 37)


def sets_never_written(path):
    h5py = pytest.importorskip("h5py")
    with h5py.File(path, "w") as archive:
        for name in ARRAYS:
            archive.create_dataset(name, (10**12,), "f4", chunks=True)


def names_without_end(path):
    path.write_bytes(b"episode,obs_x,reward,done," + b"x," * (1 << 20))


HOSTILE = {
    one_number_for_ever: (".parquet", "made to fill the memory"),
    lists_of_one_number: (".parquet", "made to fill the memory"),
    long_names_of_episodes: (".parquet", "read"),  # each name is held once
    lists_of_long_names: (".parquet", "found list<"),
    long_names_of_another_type: (".parquet", "read"),
    names_that_repeat_the_last: (".parquet", "found DELTA_BYTE_ARRAY"),
    records: (".parquet", "found images|expected numbers"),
    packed_zeros: (".npz", "made to fill the memory"),
    zeros_by_their_header: (".npz", "Unable to allocate"),
    sets_never_written: (".hdf5", "made to fill the memory"),
    names_without_end: (".csv", "a line of names below"),
    results_of_one_number: (".parquet", "made to fill the memory"),
    results_of_long_texts: (".parquet", "read"),
    evaluations_by_their_header: (".npz", "Unable to allocate"),
    evaluations_of_zeros: (".npz", "at most"),
}

READ = """
import resource, sys
import pandas, pyarrow, pyarrow.parquet, h5py
from tightrope.errors import InputError
from tightrope.rollouts import load_episodes
from tightrope.rollouts.results_table import is_results, read_results
for path in sys.argv[1:]:
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    try:
        read_results(path) if is_results(path) else load_episodes(path)
        found = "read"
    except InputError as error:
        found = str(error)
    print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before, found)
"""


def test_no_hostile_file_fills_the_memory_or_leads_elsewhere(tmp_path):
    """All in one process, which may grow by 300 MB for each."""
    pytest.importorskip("h5py")
    pytest.importorskip("pandas")
    paths = {make: tmp_path / f"{make.__name__}{suffix}" for make, (suffix, _) in HOSTILE.items()}
    for make, path in paths.items():
        make(path)
    answer = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", READ, *map(str, paths.values())],
        capture_output=True,
        text=True,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (1 << 34, 1 << 34)),
    )
    lines = answer.stdout.splitlines()
    assert len(lines) == len(HOSTILE), answer.stderr
    for (make, (_, words)), line in zip(HOSTILE.items(), lines, strict=True):
        grown, _, said = line.partition(" ")
        assert any(word in said for word in words.split("|")), (make.__name__, line)
        assert int(grown) < 300_000, (make.__name__, line)
