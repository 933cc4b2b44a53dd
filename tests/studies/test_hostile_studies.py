"""Studies of a stranger's policies, and kills at the changes of a study's folder."""

import shutil

import pytest
from inline import Inline
from kills import NEEDS_FORK, killed_at

from tightrope.errors import InputError
from tightrope.studies.jobs import read_job
from tightrope.studies.runner import run_study

ONE = {"certify": [{"schemes": ["auto"], "repetitions": 1, "episodes": [6],
                    "options": {"thin": 20}}]}  # fmt: skip


def test_names_that_a_spreadsheet_or_a_terminal_obeys_are_refused(small, tmp_path):
    for name in ("=cmd|' /C calc'!A0", "+1", "-1", "@sum", "a\x1b[2J", "a\nb"):
        block = {"folder": "mine", "names": ["two"], "agent": name}
        with pytest.raises(InputError, match="expected a name for tables"):
            run_study(small(**ONE, policies=[block]), tmp_path / "out", executor=Inline)
    (tmp_path / "mine" / "one").rename(tmp_path / "mine" / "=cmd|' C calc'!A0")
    with pytest.raises(InputError, match="expected a name for tables"):
        run_study(small(**ONE), tmp_path / "out", executor=Inline)


def test_what_a_link_in_a_policys_folder_leads_to_is_not_copied(small, tmp_path):
    (tmp_path / "secret").write_text("secret")
    (tmp_path / "mine/one/notes").symlink_to(tmp_path / "secret")
    with pytest.raises(InputError, match="expected no links"):
        run_study(small(**ONE), tmp_path / "out", executor=Inline)
    assert not list((tmp_path / "out").rglob("notes"))


@NEEDS_FORK[0]
@NEEDS_FORK[1]
def test_after_kills_at_any_change_every_job_is_whole_and_the_next_run_goes_on(small, tmp_path):
    study, out = small(**ONE), tmp_path / "out"
    run = lambda: run_study(study, out, executor=Inline)  # noqa: E731
    for step in (0, 1, 2, 3, 5, 8, 11, 15):
        if not killed_at(step, run):
            break
        for folder in (out / "jobs").glob("[a-z]*"):
            assert read_job(folder) is not None
        results = out / "results"
        assert not results.exists() or (results / "table.csv").read_text().endswith("\n")
    ended = run()
    assert not ended.failed
    shutil.rmtree(out / "results")
    assert len(run().results.table) == 2
