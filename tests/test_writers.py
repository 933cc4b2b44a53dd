"""Nothing but files.py changes a disk (CONTRIBUTING.md), and a kill at any change harms nothing."""

import ast
import errno
import os
from pathlib import Path

import pytest
from kills import NEEDS_FORK, killed_at

import tightrope
from tightrope import files
from tightrope.errors import InputError
from tightrope.files import delete, lock, refuse_links, write_file, write_folder, write_text

SOURCE = Path(tightrope.__file__).parent
FORBIDDEN = {"write_text", "write_bytes", "unlink", "rmtree", "remove", "flock", "lockf", "touch"}
MODULES = {"fcntl"}
FILES = [path.relative_to(SOURCE) for path in sorted(SOURCE.rglob("*.py"))]
# A training's log, which is appended to; a zip into a folder that has no name yet.
MAY = {"files.py", "agents/log.py", "agents/snapshot.py"}


def changes(text):
    """What in a module changes a disk."""
    found = set()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import):
            found |= MODULES & {alias.name for alias in node.names}
        if not isinstance(node, ast.Call):
            continue
        name = getattr(node.func, "attr", None)
        if name in FORBIDDEN and not (name == "remove" and _of_a_list(node)):
            found.add(name)
        # Of strings and frames these take two arguments, or keywords.
        if name in ("rename", "replace") and len(node.args) == 1 and not node.keywords:
            found.add(name)
        if name == "replace" and getattr(node.func.value, "id", "") == "os":
            found.add(name)
        if "open" in (name, getattr(node.func, "id", None)):
            words = [each.value for each in node.args if isinstance(each, ast.Constant)]
            words += [each.value.value for each in node.keywords if each.arg == "mode"]
            found |= {f"open {word}" for word in words if set(str(word)) & set("wax+")}
    return found


def _of_a_list(node):
    return getattr(node.func.value, "id", "") != "os"


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("open(path, 'w')", {"open w"}),
        ("path.open(mode='ab')", {"open ab"}),
        ("path.rename(other)\nos.replace(a, b)", {"rename", "replace"}),
        ("path.replace(other)", {"replace"}),
        ("shutil.rmtree(path)", {"rmtree"}),
        ("import fcntl", {"fcntl"}),
        ("text.replace('a', 'b')\nreplace(record, a=1)\nframe.rename(columns={})", set()),
        ("open(path)\npath.open('rb')\nsys.path.remove('')", set()),
        ("write_text(path, text)\ndelete(path)", set()),
    ],
)
def test_a_change_of_a_disk_is_seen_however_it_is_written(text, found):
    assert changes(text) == found


def test_only_files_py_changes_a_disk():
    looked_at = [path for path in FILES if str(path) not in MAY]
    found = {str(path): changes((SOURCE / path).read_text()) for path in looked_at}
    assert {path: names for path, names in found.items() if names} == {}


# --- kills ----------------------------------------------------------------------------------------


def fill(folder):
    for name in ("a", "b"):
        write_text(folder / name, name * 1000)


def whole(folder):
    return {path.name: path.read_text() for path in folder.iterdir()} == {
        name: name * 1000 for name in ("a", "b")
    }


@NEEDS_FORK[0]
@NEEDS_FORK[1]
@pytest.mark.parametrize("there", [False, True])
def test_a_kill_before_any_change_leaves_a_folder_whole_or_not_there(there, tmp_path):
    path, step = tmp_path / "new", 0
    if there:
        write_folder(path, fill)
    while killed_at(step, lambda: write_folder(path, fill, replace=there)):
        step += 1
        assert whole(path) if path.exists() else not list(tmp_path.glob("new*"))
        if there and not path.exists():  # between its old name and the new one's
            (old,) = tmp_path.glob(".new.*/old")
            assert whole(old)
            old.rename(path)
    assert step >= 6
    assert whole(path)


@NEEDS_FORK[0]
@NEEDS_FORK[1]
def test_a_kill_before_any_change_leaves_the_old_text_or_the_new(tmp_path):
    path, step = tmp_path / "text", 0
    write_text(path, "old")
    while killed_at(step, lambda: write_text(path, "new")):
        step += 1
        assert path.read_text() == "old"
    assert step == 2
    assert path.read_text() == "new"


# --- others at the same place ---------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["a file", "a folder"])
@pytest.mark.parametrize("write", [write_folder, write_file])
def test_what_appears_just_before_the_name_is_taken_is_not_deleted(
    write, kind, tmp_path, monkeypatch
):
    path = tmp_path / "new"

    def before(change, _):
        if change != "take the name":
            return
        if kind == "a file":
            path.write_text("precious")
        else:
            path.mkdir()
            (path / "precious").touch()

    monkeypatch.setattr(files, "_before", before)
    with pytest.raises(InputError, match="already there"):
        write(path, lambda temporary: None)
    assert os.listdir(tmp_path) == ["new"]
    assert (path / "precious").exists() if kind == "a folder" else path.read_text() == "precious"


@pytest.mark.parametrize("links", [True, False], ids=["links", "no hard links"])
def test_a_free_name_is_taken_by_files_and_folders(links, tmp_path, monkeypatch):
    def refuse(*_):
        raise PermissionError(errno.EPERM, "Operation not permitted")

    if not links:
        monkeypatch.setattr(os, "link", refuse)
    write_text(tmp_path / "text", "words", new=True)
    write_folder(tmp_path / "folder", fill)
    files.rename(tmp_path / "folder", tmp_path / "moved")
    files.rename(tmp_path / "text", tmp_path / "other")
    assert (tmp_path / "other").read_text() == "words"
    assert whole(tmp_path / "moved")
    assert sorted(os.listdir(tmp_path)) == ["moved", "other"]


# --- links in folders of ours ---------------------------------------------------------------------


@pytest.mark.parametrize("name", [".lock", "jobs", "run.json"])
def test_a_folder_with_a_link_in_it_is_refused_and_what_it_points_to_is_left(name, tmp_path):
    target, ours = tmp_path / "precious", tmp_path / "ours"
    target.write_text("precious")
    ours.mkdir()
    (ours / name).symlink_to(target)
    with pytest.raises(InputError, match="expected no links"), lock(ours, "busy"):
        pass
    assert target.read_text() == "precious"


def test_the_lock_of_another_is_neither_had_nor_emptied(tmp_path):
    with lock(tmp_path, "busy"):
        (tmp_path / ".lock").write_text("kept")
        with pytest.raises(InputError, match="busy"), lock(tmp_path, "busy"):
            pass
    with lock(tmp_path, "busy"):
        assert (tmp_path / ".lock").read_text() == "kept"


def test_deleting_a_link_leaves_what_it_points_to(tmp_path):
    target = tmp_path / "target"
    write_folder(target, fill)
    for name in ("inside", "link"):
        (tmp_path / name).symlink_to(target, target_is_directory=True)
    (tmp_path / "folder").mkdir()
    (tmp_path / "inside").rename(tmp_path / "folder" / "inside")
    delete(tmp_path / "link")
    delete(tmp_path / "folder")
    delete(tmp_path / "nothing")
    assert os.listdir(tmp_path) == ["target"]
    assert whole(target)
    (tmp_path / "link").symlink_to(target, target_is_directory=True)
    with pytest.raises(InputError, match="expected no links"):
        refuse_links(tmp_path / "link")
