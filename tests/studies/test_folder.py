"""The folder of a study after a kill, on a full disk, and when it is gone."""

import errno
import os
from pathlib import Path

import pytest
from trivial_jobs import job

from tightrope.errors import InputError
from tightrope.studies.folder import Folder

ASKED = {"name": "small", "about": ""}


def test_a_study_that_was_killed_when_it_began_begins_again(tmp_path):
    """Its lock is there, and the half of study.json under a temporary name."""
    path = tmp_path / "study"
    path.mkdir()
    (path / ".lock").touch()
    (path / ".study.json.abcd1234.json").write_text("{")
    with Folder(path).claim(ASKED):
        assert sorted(os.listdir(path)) == [".lock", "jobs", "study.json"]


def test_what_a_kill_left_of_the_results_is_cleared_away(tmp_path):
    path = tmp_path / "study"
    with Folder(path).claim(ASKED):
        pass
    for name in (".results.abcd1234/new", ".results.abcd1234/old", "results"):
        (path / name).mkdir(parents=True)
    with Folder(path).claim(ASKED):
        assert sorted(os.listdir(path)) == [".lock", "jobs", "results", "study.json"]


def test_a_folder_with_other_content_is_still_refused(tmp_path):
    (tmp_path / ".mine").touch()
    with pytest.raises(InputError, match="with other content"), Folder(tmp_path).claim(ASKED):
        pass


def test_a_disk_that_is_full_at_the_first_folder_is_told_in_one_line(tmp_path, monkeypatch):
    plain = Path.mkdir

    def mkdir(self, *arguments, **options):
        if self.name == "jobs":
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        plain(self, *arguments, **options)

    monkeypatch.setattr(Path, "mkdir", mkdir)
    with (
        pytest.raises(InputError, match=r"^cannot write '.*study': No space left on device$"),
        Folder(tmp_path / "study").claim(ASKED),
    ):
        pass


def test_nothing_is_recorded_where_the_study_is_gone(tmp_path):
    folder = Folder(tmp_path / "study")
    with pytest.raises(InputError, match=r"expected the study that was begun in .*, found it gone"):
        folder.record_failure(job("one"), "why")
    assert not folder.path.exists()
