"""A job's folder is whole or absent, and its name says what is in it."""

import json
from dataclasses import fields, replace

import pytest
from trivial_jobs import job, result

from tightrope.errors import InputError
from tightrope.studies.jobs import Job, read_job, run_job


def test_the_name_depends_on_what_determines_the_content_and_on_nothing_else():
    one = job("a 1")
    same = replace(one, label="another")
    others = [
        job("a 1", value=2),
        job("a 2"),
        job("a 1", needs=(one,)),
        job("a 1", function="hold"),
    ]
    assert one.id == same.id
    assert len({one.id, *(each.id for each in others)}) == 5


def test_a_job_reads_the_folders_of_the_jobs_that_it_needs(tmp_path):
    first, second = job("a 1", value=3), job("a 2", value=4)
    last = job("b 1", value=10, needs=(first, second))
    for each in (first, second, last):
        run_job(each, tmp_path)
    assert result(tmp_path, last) == 17


def test_a_finished_job_is_not_run_again(tmp_path):
    one = job("a 1")
    run_job(one, tmp_path)
    (tmp_path / one.id / "number").write_text("42")
    run_job(one, tmp_path)
    assert result(tmp_path, one) == 42


def test_a_failing_job_leaves_nothing(tmp_path):
    with pytest.raises(InputError, match="found this"):
        run_job(job("a 1", function="refuse"), tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_the_folder_says_what_it_is_and_how_long_it_took(tmp_path):
    one = job("a 1")
    run_job(one, tmp_path)
    record = read_job(tmp_path / one.id)
    assert record["id"] == one.id
    assert record["spec"] == dict(one.spec)
    assert record["seconds"] >= 0
    assert "numpy" in record["versions"]


def test_warnings_are_kept_in_the_record(tmp_path):
    def warn(spec, needs, out):
        import warnings

        warnings.warn("a word of caution", stacklevel=1)

    one = job("a 1")
    run_job(one, tmp_path, warn)
    assert read_job(tmp_path / one.id)["warnings"] == ["a word of caution"]


@pytest.mark.parametrize("content", [None, "", "[]", '{"format": "other"}', '{"id": "x"}'])
def test_something_else_under_the_name_of_a_job_is_refused(tmp_path, content):
    one = job("a 1")
    (tmp_path / one.id).mkdir()
    if content is not None:
        (tmp_path / one.id / "job.json").write_text(content)
    with pytest.raises(InputError, match="expected"):
        run_job(one, tmp_path)


def test_another_jobs_folder_under_that_name_is_refused(tmp_path):
    one, other = job("a 1"), job("a 2")
    run_job(other, tmp_path)
    (tmp_path / other.id).rename(tmp_path / one.id)
    with pytest.raises(InputError, match="move it away"):
        read_job(tmp_path / one.id)


def test_a_link_under_the_name_of_a_job_is_refused(tmp_path):
    one = job("a 1")
    run_job(one, tmp_path / make(tmp_path / "elsewhere"))
    make(tmp_path / "jobs")
    for target in (tmp_path / "elsewhere" / one.id, tmp_path / "nowhere"):
        (tmp_path / "jobs" / one.id).symlink_to(target)
        with pytest.raises(InputError, match="expected no links"):
            run_job(one, tmp_path / "jobs")
        (tmp_path / "jobs" / one.id).unlink()


def make(folder):
    folder.mkdir()
    return folder


def test_a_job_is_the_same_after_json(tmp_path):
    one = job("a 1", value=2)
    read = Job(
        **{each.name: json.loads(json.dumps(one.to_json()))[each.name] for each in fields(Job)}
    )
    assert (read.id, read.name) == (one.id, one.name)


def test_a_job_is_not_put_where_its_study_is_gone(tmp_path):
    with pytest.raises(InputError, match=r"expected the folder of the jobs at .*, found it gone"):
        run_job(job("one"), tmp_path / "gone")
    assert not (tmp_path / "gone").exists()
