"""A job's folder is whole or absent, and its name says what is in it."""

import shutil
import warnings
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


def test_a_job_reads_what_it_needs_runs_once_and_says_what_it_is(tmp_path):
    first, second = job("a 1", value=3), job("a 2", value=4)
    last = job("b 1", value=10, needs=(first, second))
    for each in (first, second, last):
        run_job(each, tmp_path)
    assert result(tmp_path, last) == 17
    record = read_job(tmp_path / last.id)
    assert (record["id"], record["spec"]) == (last.id, dict(last.spec))
    assert record["seconds"] >= 0
    assert "numpy" in record["versions"]
    again = Job(**{each.name: record[each.name] for each in fields(Job)})
    assert (again.id, again.name) == (last.id, last.name)
    (tmp_path / last.id / "number").write_text("42")
    run_job(last, tmp_path)
    assert result(tmp_path, last) == 42

    def warn(spec, needs, out):
        warnings.warn("a word of caution", stacklevel=1)

    run_job(job("a 3"), tmp_path, warn)
    assert read_job(tmp_path / job("a 3").id)["warnings"] == ["a word of caution"]


def test_a_failing_job_leaves_nothing_and_none_is_put_where_its_study_is_gone(tmp_path):
    with pytest.raises(InputError, match="found this"):
        run_job(job("a 1", function="refuse"), tmp_path)
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(InputError, match=r"expected the folder of the jobs at .*, found it gone"):
        run_job(job("one"), tmp_path / "gone")
    assert not (tmp_path / "gone").exists()


def test_something_else_under_the_name_of_a_job_is_refused(tmp_path):
    one, other = job("a 1"), job("a 2")
    (tmp_path / one.id).mkdir()
    for content in (None, "", "[]", '{"format": "other"}', '{"id": "x"}', "[" * 100_000):
        if content is not None:
            (tmp_path / one.id / "job.json").write_text(content)
        with pytest.raises(InputError, match=r"expected a finished job .*: move it away$"):
            run_job(one, tmp_path)
    run_job(other, tmp_path)
    for target in (tmp_path / other.id, tmp_path / "nowhere"):
        shutil.rmtree(tmp_path / one.id, ignore_errors=True)
        (tmp_path / one.id).unlink(missing_ok=True)
        (tmp_path / one.id).symlink_to(target)
        with pytest.raises(InputError, match="expected no links"):
            run_job(one, tmp_path)
    (tmp_path / one.id).unlink()
    (tmp_path / other.id).rename(tmp_path / one.id)  # another job's
    with pytest.raises(InputError, match="move it away"):
        read_job(tmp_path / one.id)
