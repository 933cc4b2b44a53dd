"""The folder of a study after a kill, on a full disk, with links in it, and when it is gone."""

import os

import pytest

from tightrope.errors import InputError
from tightrope.studies.study_folder import StudyFolder

ASKED = {"name": "small", "about": ""}


@pytest.mark.parametrize("name", [".lock", "study.json", "jobs", "results", "failures.json"])
def test_a_link_in_the_folder_is_refused_and_what_it_leads_to_is_untouched(tmp_path, name):
    path, other = tmp_path / "study", tmp_path / "other"
    with StudyFolder(path).locked(ASKED):
        pass
    other.mkdir()
    (other / "text").write_text("mine")
    target = other if name in ("jobs", "results") else other / "text"
    here = path / name
    if here.is_dir():
        here.rmdir()
    here.unlink(missing_ok=True)
    here.symlink_to(target)
    with (
        pytest.raises(InputError, match=r"expected no links .*|expected a new folder .*"),
        StudyFolder(path).locked(ASKED),
    ):
        pass
    assert (other / "text").read_text() == "mine"
    assert os.listdir(other) == ["text"]


def test_what_a_kill_left_is_cleared_away_but_for_trainings_that_resume(tmp_path):
    """A lock and half of study.json when it began; halves of results and jobs later."""
    path = tmp_path / "study"
    path.mkdir()
    (path / ".lock").touch()
    (path / ".study.json.abcd1234.json").write_text("{")
    with StudyFolder(path).locked(ASKED):
        assert sorted(os.listdir(path)) == [".lock", "jobs", "study.json"]
    for name in (".results.abcd1234/new", "results", "jobs/.a-1.x7f", "jobs/.train-2.partial"):
        (path / name).mkdir(parents=True)
    with StudyFolder(path).locked(ASKED):
        assert sorted(os.listdir(path)) == [".lock", "jobs", "results", "study.json"]
        assert os.listdir(path / "jobs") == [".train-2.partial"]


def test_a_folder_of_something_else_in_use_or_gone_is_refused(tmp_path):
    (tmp_path / ".mine").touch()
    with pytest.raises(InputError, match="with other content"), StudyFolder(tmp_path).locked(ASKED):
        pass
    folder = StudyFolder(tmp_path / "study")
    with pytest.raises(InputError, match=r"expected the study that was begun in .*, found it gone"):
        folder.record_failures({"collect one": "why"})
    assert not folder.path.exists()
    with (
        folder.locked(ASKED),
        pytest.raises(InputError, match="another process is using the study in"),
        StudyFolder(folder.path).locked(ASKED),
    ):
        pass
    for content in ("[" * 100_000, "{", "[]"):
        folder.document.write_text(content)
        with pytest.raises(InputError, match=r"another `out`$") as error:
            folder.require_own(ASKED)
        assert "\n" not in str(error.value)
