"""Files and folders appear whole or not at all; arrays and headers come back as they were."""

import json
import os
import pickle
import shutil
import stat
import subprocess

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from tightrope import demo
from tightrope.errors import InputError
from tightrope.files import (
    WriteError,
    load_tensors,
    save_tensors,
    sha256,
    tensors_format,
    write_file,
    write_folder,
)

FULL = OSError(28, "No space left on device")
HEADER = {"format": "tightrope.things/1", "colour": "red", "sizes": [1, 2], "about": {"b": 1}}
ARRAYS = {
    "flat": np.arange(5.0),
    "deep": np.arange(12, dtype=np.float32).reshape(2, 3, 2),
    "flags": np.array([True, False, True]),
    "single": np.array(3, np.int64),
    "nothing": np.zeros((0, 4), np.float32),
    "small": np.arange(3, dtype=np.uint8),
}


@pytest.fixture
def disk(tmp_path):
    """A file system of 1 MB; mounting may be forbidden even to root."""
    folder = tmp_path / "disk"
    folder.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(folder)]
    if not shutil.which("mount") or subprocess.run(command, capture_output=True).returncode:
        pytest.skip("mounting is forbidden here")
    yield folder
    subprocess.run(["umount", str(folder)], check=True)


# --- files ------------------------------------------------------------------------------------


@pytest.mark.parametrize("replace", [False, True])
def test_a_file_is_whole_or_what_was_there_stays(replace, tmp_path):
    path = tmp_path / "deep" / "new.bin"
    if replace:
        path.parent.mkdir()
        path.write_bytes(b"old")
    for failure, kind in ((RuntimeError("power cut"), RuntimeError), (FULL, InputError)):

        def half(temporary, failure=failure):
            temporary.write_bytes(b"half of it")
            raise failure

        with pytest.raises(kind, match=r"power cut|No space left on device"):
            write_file(path, half, replace=replace)
        assert os.listdir(path.parent) == ["new.bin"] * replace
    write_file(path, lambda temporary: temporary.write_bytes(b"all of it"), replace=replace)
    assert path.read_bytes() == b"all of it"
    assert os.listdir(path.parent) == ["new.bin"]
    assert stat.S_IMODE(path.stat().st_mode) == 0o644


def test_the_digest_of_files_is_the_sha256_of_their_contents(tmp_path):
    """The published digest of "abc" (FIPS 180-2); one file and the same bytes in two."""
    for name in ("abc", "a", "bc"):
        (tmp_path / name).write_text(name)
    published = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
    assert sha256(tmp_path / "abc") == published
    assert sha256(tmp_path / "a", tmp_path / "bc") == published


def save_hdf5(path, array):
    h5py = pytest.importorskip("h5py")
    with h5py.File(path, "w") as archive:
        archive["a"] = array


WRITERS = {
    "safetensors": lambda path, array: save_file({"a": array}, path),
    "npz": lambda path, array: np.savez(path, a=array),
    "hdf5": save_hdf5,
    "bytes": lambda path, array: path.write_bytes(array.tobytes()),
}


@pytest.mark.parametrize("suffix", WRITERS)
def test_a_really_full_disk_is_the_same_line_whoever_writes(suffix, disk):
    """safetensors has an exception of its own; h5py's text has two lines and an address."""
    path, large = disk / f"new.{suffix}", np.random.default_rng(0).random(300_000)
    with pytest.raises(InputError) as refusal:
        write_file(path, lambda temporary: WRITERS[suffix](temporary, large))
    assert str(refusal.value) == f"cannot write {str(path)!r}: No space left on device"
    with pytest.raises(InputError) as refusal:
        write_folder(disk / "new", lambda folder: WRITERS[suffix](folder / path.name, large))
    assert str(refusal.value) == f"cannot write {str(disk / 'new')!r}: No space left on device"
    assert os.listdir(disk) == []


def test_the_line_of_a_failure_has_its_words_and_travels_between_processes(tmp_path):
    def strange(temporary):
        raise OSError("the tape\nis torn")

    with pytest.raises(InputError) as refusal:
        write_file(tmp_path / "new.bin", strange)
    assert str(refusal.value).endswith("new.bin': the tape is torn")
    copy = pickle.loads(pickle.dumps(WriteError(tmp_path, "no paper")))
    assert str(copy) == f"cannot write {str(tmp_path)!r}: no paper"


# --- folders ----------------------------------------------------------------------------------


def letters(content):
    def fill(folder):
        (folder / "a").write_text(content)
        (folder / "deeper").mkdir()
        (folder / "deeper" / "b").write_text(content)
        return len(content)

    return fill


def test_a_folder_appears_with_all_that_was_filled_in_and_is_replaced_as_a_whole(tmp_path):
    path, seen = tmp_path / "x" / "new", []

    def fill(folder):
        seen.append(folder)
        assert not path.exists()
        return letters("one")(folder)

    assert write_folder(path, fill) == 3
    assert (path / "deeper" / "b").read_text() == "one"
    assert seen[0].parents[1] == path.parent  # beside it: on the same file system
    assert stat.S_IMODE(path.stat().st_mode) == 0o755
    (path / "more").touch()
    write_folder(path, letters("newer"), replace=True)
    assert sorted(os.listdir(path)) == ["a", "deeper"]
    assert (path / "a").read_text() == "newer"
    assert os.listdir(path.parent) == ["new"]


@pytest.mark.parametrize("kind", ["a folder", "an empty folder", "a file", "a broken link"])
def test_what_has_the_name_is_not_touched_without_replace(kind, tmp_path):
    path = tmp_path / "new"
    if kind == "a file":
        path.write_text("precious")
    elif kind == "a broken link":
        path.symlink_to(tmp_path / "nowhere")
    else:
        path.mkdir()
        if kind == "a folder":
            (path / "a").write_text("precious")
    with pytest.raises(InputError, match="already there"):
        write_folder(path, letters("one"))
    assert os.listdir(tmp_path) == ["new"]
    assert kind != "a folder" or (path / "a").read_text() == "precious"


@pytest.mark.parametrize("failure", [FULL, RuntimeError("bug"), KeyboardInterrupt()], ids=repr)
@pytest.mark.parametrize("there", [False, True])
def test_any_failure_leaves_what_was_there_and_nothing_else(failure, there, tmp_path):
    path = tmp_path / "new"
    if there:
        write_folder(path, letters("old"))

    def fail(folder):
        letters("half")(folder)
        raise failure

    expected = InputError if failure is FULL else type(failure)
    with pytest.raises(expected):
        write_folder(path, fail, replace=True)
    assert os.listdir(tmp_path) == (["new"] if there else [])
    if there:
        assert (path / "a").read_text() == "old"


def test_the_old_folder_is_put_back_if_the_new_one_cannot_have_its_name(tmp_path, monkeypatch):
    path = tmp_path / "new"
    write_folder(path, letters("old"))

    def take_name(temporary, path):
        raise OSError(5, "Input/output error")

    monkeypatch.setattr("tightrope.files._take_name", take_name)
    with pytest.raises(InputError, match="Input/output error"):
        write_folder(path, letters("newer"), replace=True)
    assert (path / "a").read_text() == "old"
    assert os.listdir(tmp_path) == ["new"]


def test_what_fails_inside_a_folder_or_has_no_place_is_told_by_the_folders_name(tmp_path):
    def full(temporary):
        raise FULL

    with pytest.raises(InputError) as refusal:
        write_folder(tmp_path / "new", lambda folder: write_file(folder / "a.bin", full))
    assert str(refusal.value) == f"cannot write {str(tmp_path / 'new')!r}: No space left on device"
    (tmp_path / "file").touch()
    for replace in (False, True):
        with pytest.raises(InputError, match="cannot write"):
            write_folder(tmp_path / "file" / "new", letters("one"), replace=replace)
    with pytest.raises(InputError, match="cannot write"):
        save_tensors(tmp_path / "file" / "new.safetensors", ARRAYS, HEADER)


# --- arrays with a header ---------------------------------------------------------------------


@pytest.fixture
def stored(tmp_path):
    save_tensors(tmp_path / "things.safetensors", ARRAYS, HEADER)
    return tmp_path / "things.safetensors"


def test_arrays_and_header_come_back_as_they_were(stored):
    arrays, header = load_tensors(stored, "tightrope.things/1")
    assert header == HEADER
    assert set(arrays) == set(ARRAYS)
    for name, array in arrays.items():
        assert (array.dtype, array.shape) == (ARRAYS[name].dtype, ARRAYS[name].shape)
        np.testing.assert_array_equal(array, ARRAYS[name])
    stored.write_bytes(bytes(stored.stat().st_size))  # what was read does not hold the file
    np.testing.assert_array_equal(arrays["deep"], ARRAYS["deep"])


def test_equal_contents_give_equal_bytes_with_one_key_of_sorted_json(stored, tmp_path):
    again = tmp_path / "again.safetensors"
    save_tensors(again, dict(reversed(ARRAYS.items())), dict(reversed(HEADER.items())))
    content = stored.read_bytes()
    assert again.read_bytes() == content
    size = int.from_bytes(content[:8], "little")
    metadata = json.loads(content[8 : 8 + size])["__metadata__"]
    assert metadata == {"tightrope": json.dumps(HEADER, sort_keys=True)}
    np.testing.assert_array_equal(load_file(stored)["deep"], ARRAYS["deep"])
    arrays, header = load_tensors(demo.policy_path(), "tightrope.policy/1")
    save_tensors(tmp_path / "demo.safetensors", arrays, header)
    assert (tmp_path / "demo.safetensors").read_bytes() == demo.policy_path().read_bytes()


def refuses(path, words):
    with pytest.raises(InputError, match=words) as refusal:
        load_tensors(path, "tightrope.things/1")
    assert "\n" not in str(refusal.value)
    assert path.name in str(refusal.value)


def test_missing_and_foreign_files_are_told_apart(stored, tmp_path):
    refuses(tmp_path / "nothing.safetensors", r"tightrope\.things/1, found nothing at")
    refuses(tmp_path, "found nothing at")
    stored.unlink()
    save_tensors(stored, ARRAYS, {**HEADER, "format": "tightrope.things/2"})
    refuses(stored, r"expected the format tightrope\.things/1, found 'tightrope\.things/2'")
    save_file({"weights": np.zeros(3)}, stored)
    refuses(stored, r"expected the format tightrope\.things/1, found none")
    for text in ("{", "[1]", "3", "null", "tightrope.things/1 pilot"):
        save_file({"weights": np.zeros(3)}, stored, metadata={"tightrope": text})
        refuses(stored, "damaged or no file of tightrope")


def test_a_damaged_file_is_an_input_error(stored):
    content = stored.read_bytes()
    for kept in [*range(0, len(content), 7), len(content) - 1]:
        stored.write_bytes(content[:kept])
        refuses(stored, "damaged")
    stored.write_bytes(content + b"\0")
    refuses(stored, "damaged")


def test_a_type_that_numpy_does_not_have_is_an_input_error(tmp_path):
    import torch
    from safetensors.torch import save_file as save_torch

    half = {"a": torch.zeros(3, dtype=torch.bfloat16)}
    save_torch(half, tmp_path / "a.safetensors", metadata={"tightrope": json.dumps(HEADER)})
    refuses(tmp_path / "a.safetensors", "damaged")


def test_the_format_of_a_file_is_told_and_of_others_it_is_none(stored, tmp_path):
    assert tensors_format(stored) == "tightrope.things/1"
    assert tensors_format(demo.policy_path()) == "tightrope.policy/1"
    assert tensors_format(tmp_path / "nothing.safetensors") is None
    assert tensors_format(tmp_path) is None
    stored.write_bytes(stored.read_bytes()[:40])
    assert tensors_format(stored) is None
    for metadata in (None, {"tightrope": "tightrope.things/1"}, {"tightrope": "[]"}, {"a": "b"}):
        save_file({"weights": np.zeros(3)}, stored, metadata=metadata)
        assert tensors_format(stored) is None


def test_a_header_that_is_not_for_json_leaves_no_file(tmp_path):
    with pytest.raises(TypeError):
        save_tensors(tmp_path / "new.safetensors", ARRAYS, {**HEADER, "policy": object()})
    assert os.listdir(tmp_path) == []
