"""Kills at every change of the disk and within a file: what is left is whole or not there.

A child process does the work and dies where the hook of files.py says; nothing is tidied up.
"""

import os
import shutil

import pytest
import safetensors.numpy
from kills import NEEDS_FORK, killed_at
from recordings import certified, recording

from tightrope.certificates import load_certificate, write
from tightrope.certificates.verify import verify
from tightrope.reports import write_index, write_page

pytestmark = NEEDS_FORK


@pytest.fixture(scope="module")
def made():
    return certified(recording(24, seed=1), seed=0)


@pytest.fixture(scope="module")
def issued(made, tmp_path_factory):
    """A folder of two certificates, with pages and an index."""
    place = tmp_path_factory.mktemp("issued") / "place"
    for name in ("a", "b"):
        write(made, place / name, page=write_page)
    write_index(place)
    return place


def is_whole(folder):
    load_certificate(folder)  # compares the digests
    names = ["certificate.json", "predictor.safetensors", "report.html", "rollouts.safetensors"]
    assert sorted(os.listdir(folder)) == names
    assert (folder / "report.html").read_text().rstrip().endswith("</html>")
    return True


def test_a_certificate_is_whole_or_not_there(made, tmp_path):
    out, step = tmp_path / "certificate", 0
    while killed_at(step, lambda: write(made, out, page=write_page)):
        step += 1
        assert not out.exists() or is_whole(out)
    assert step >= 7  # two arrays, document, page, folder
    assert is_whole(out)
    assert verify(out) == []


def test_a_kill_in_the_middle_of_a_file_leaves_no_certificate_and_the_next_run_works(
    made, tmp_path, monkeypatch
):
    out, plain = tmp_path / "certificate", safetensors.numpy.save_file

    def half(arrays, path, metadata):
        plain(arrays, path, metadata=metadata)
        os.truncate(path, os.path.getsize(path) // 2)
        os._exit(9)

    with monkeypatch.context() as patch:
        patch.setattr(safetensors.numpy, "save_file", half)
        assert killed_at(99, lambda: write(made, out, page=write_page))
    assert not out.exists()
    write(made, out, page=write_page)
    assert is_whole(out)


@pytest.mark.parametrize("draw", [lambda p: write_page(load_certificate(p / "a"), p / "a"),
                                  write_index], ids=["page", "index"])  # fmt: skip
def test_a_page_is_the_old_one_or_the_new_one(draw, issued, tmp_path):
    place = shutil.copytree(issued, tmp_path / "place")
    new = {path: path.read_text() for path in (place / "a/report.html", place / "index.html")}
    for path in new:
        path.write_text("old")
    step = 0
    while killed_at(step, lambda: draw(place)):
        step += 1
        assert {path.read_text() for path in new} == {"old"}
    assert step == 2
    drawn = [path for path in new if path.read_text() != "old"]
    assert len(drawn) == 1
    assert drawn[0].read_text() == new[drawn[0]]
