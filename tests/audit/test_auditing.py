"""An audit finds promises that are broken, resumes, and can be added to."""

import csv
import dataclasses
import json
from pathlib import Path

import pytest
from inline import Inline

from tightrope.certificates import fixed, issue, until
from tightrope.errors import InputError
from tightrope.studies.audit.run import run_audit
from tightrope.studies.audit.spec import Audit
from tightrope.studies.audit.words import in_words

SMALL = {
    "schemes": ("auto", "nonrec-inf"),
    "repetitions": 12,
    "episodes": 24,
    "pilot_episodes": 4,
    "delta": 0.3,
    "delta_prime": 0.15,
    "mc_passes": 2,
    "updates": 10,
    "width": 8,
    "truth_episodes": 1000,
}


def small(**changes):
    return Audit(**{**SMALL, **changes})


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory):
    out = tmp_path_factory.mktemp("audit") / "out"
    return run_audit("independent", None, small(), out, engine=Inline)


def halved(monkeypatch):
    """Certificates whose mean risks are promised to be half of what was shown."""
    real = issue.certify_many

    def mutant(*arguments, **keywords):
        return [
            [
                dataclasses.replace(
                    each,
                    statements=tuple(
                        dataclasses.replace(one, value=one.value / 2)
                        if one.kind == "mean-risk"
                        else one
                        for one in each.statements
                    ),
                )
                for each in row
            ]
            for row in real(*arguments, **keywords)
        ]

    monkeypatch.setattr(issue, "certify_many", mutant)


def test_every_statement_of_every_scheme_is_counted_once_per_repetition(undisturbed):
    assert not undisturbed.failed
    assert {row.runs for row in undisturbed.rows} == {12}
    keys = [(row.scheme, row.statement) for row in undisturbed.rows]
    assert len(set(keys)) == len(keys)
    names = {name for scheme, name in keys if scheme == "auto"}
    assert {"mean risk, unit step", "mean risk, unit episode", "all at once"} <= names
    assert {"expected discounted return", "probability of early termination"} <= names
    assert len([name for name in names if name.startswith(("tolerance", "band"))]) >= 3
    assert undisturbed.kept
    promises = {row.statement: row.promise for row in undisturbed.rows if row.scheme == "auto"}
    assert promises["all at once"] == pytest.approx(0.45)


def test_a_promise_that_was_tampered_with_is_found_broken(tmp_path, monkeypatch):
    halved(monkeypatch)
    found = run_audit("independent", None, small(), tmp_path / "out", engine=Inline)
    wrong = {(row.scheme, row.statement) for row in found.rows if row.failed}
    assert ("auto", "mean risk, unit step") in wrong
    assert ("auto", "all at once") in wrong
    assert not any(name.startswith(("tolerance", "band")) for _, name in wrong)
    assert not found.kept
    assert "BROKEN: auto, mean risk, unit step" in in_words(found)


def test_what_a_process_does_not_fulfil_is_marked_and_does_not_count(tmp_path, monkeypatch):
    halved(monkeypatch)
    audit = small(schemes=("auto",), repetitions=8)
    found = run_audit("drifting", None, audit, tmp_path / "out", engine=Inline)
    assert any(row.verdict == "broken" for row in found.rows)
    assert {row.assumption for row in found.rows} == {"broken"}
    assert found.kept
    assert "broken (outside its assumption)" in in_words(found)


def test_the_words_state_the_fit_and_the_warnings(undisturbed):
    said = in_words(undisturbed)
    assert "fits: preset tight with at most 10 updates and hidden layers of 8" in said
    assert "auto: dependent steps in 0 of 12" in said
    assert "auto: drift in 0 of 12" in said


def test_the_tables_hold_what_was_counted(undisturbed):
    with (undisturbed.results / "audit.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == len(undisturbed.rows)
    for line, row in zip(rows, undisturbed.rows, strict=True):
        assert (line["statement"], int(line["broken"])) == (row.statement, row.broken)
        assert float(line["promise"]) == pytest.approx(row.promise, rel=1e-5)
    with (undisturbed.results / "statements.csv").open() as file:
        each = list(csv.DictReader(file))
    own = [row for row in undisturbed.rows if row.value is not None]
    assert len(each) == sum(row.runs for row in own)
    for row in own:
        states = [
            line["state"]
            for line in each
            if (line["scheme"], line["statement"]) == (row.scheme, row.statement)
        ]
        assert (states.count("broken"), states.count("unclear")) == (row.broken, row.unclear)


def test_an_interrupted_audit_goes_on_and_ends_as_an_undisturbed_one(undisturbed, tmp_path):
    with pytest.raises(InputError, match="goes on where it stopped"):
        run_audit("independent", None, small(), tmp_path, engine=lambda f: Inline(f, stop_after=1))
    assert len(list((tmp_path / "jobs").glob("repeat-*"))) == 1

    resumed = run_audit("independent", None, small(), tmp_path, engine=Inline)
    assert resumed.rows == undisturbed.rows
    for name in ("audit.csv", "statements.csv", "warnings.csv"):
        same = [(each / name).read_text() for each in (resumed.results, undisturbed.results)]
        assert same[0] == same[1]


def test_more_repetitions_are_added_to_those_that_are_done(tmp_path):
    first = run_audit("independent", None, small(repetitions=10), tmp_path, engine=Inline)
    assert {row.runs for row in first.rows} == {10}
    started = []

    class Counting(Inline):
        def submit(self, job):
            started.append((job.spec["first"], job.spec["last"]))
            super().submit(job)

    more = run_audit("independent", None, small(repetitions=11), tmp_path, engine=Counting)
    assert started == [(10, 11)]
    assert {row.runs for row in more.rows} == {11}

    def refuse(folder):
        raise AssertionError("there was nothing to run")

    again = run_audit("independent", None, small(repetitions=11), tmp_path, engine=refuse)
    assert again.rows == more.rows


def test_repetitions_and_truth_have_seeds_of_their_own(undisturbed):
    folder = undisturbed.results.parent
    jobs = [json.loads(path.read_text()) for path in (folder / "jobs").glob("*/job.json")]
    assert sorted((job["spec"]["first"], job["spec"]["last"]) for job in jobs) == [
        (0, 10),
        (10, 12),
    ]
    with (undisturbed.results / "statements.csv").open() as file:
        values = [
            line["value"]
            for line in csv.DictReader(file)
            if (line["scheme"], line["statement"]) == ("auto", "mean risk, unit step")
        ]
    assert len(set(values)) == 12


def test_a_policy_is_audited_in_its_environment(tmp_path, trained, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("mine").mkdir()
    trained(Path("mine"))
    audit = small(schemes=("holdout",), repetitions=2, episodes=4, truth_episodes=100)
    found = run_audit("mine", None, audit, tmp_path / "out", engine=Inline)
    assert not found.failed
    assert found.subject == "mine in Pendulum-v1"
    steps, episodes = (
        next(row for row in found.rows if row.statement == f"mean risk, unit {unit}")
        for unit in ("step", "episode")
    )
    assert (steps.assumption, episodes.assumption) == ("broken", "holds")  # of a real policy
    assert steps.runs == 2
    Path("mine/extra").write_text("another policy")
    with pytest.raises(InputError, match="found another `digest`"):
        run_audit("mine", None, audit, tmp_path / "out", engine=Inline)


STOPPED = {
    "schemes": ("auto",),
    "until": "rms<=0.93",
    "max_episodes": 90,  # about the error itself
    "delta": 0.05,
    "delta_prime": 0.05,
    "truth_episodes": 4000,
}


def sequential(out):
    found = run_audit("independent", None, small(**STOPPED), out, engine=Inline)
    assert not found.failed
    assert {row.scheme for row in found.rows} == {"sequential"}
    return {row.statement: row for row in found.rows}


def test_stops_at_a_target_are_audited_and_those_of_no_bound_at_all_are_found_broken(
    tmp_path, monkeypatch
):
    """In place of the bound: the mean so far, which is below the truth in many of the looks."""
    honest = sequential(tmp_path / "honest")
    assert set(honest) >= {"mean risk, unit step", "mean risk, unit episode"}
    assert all(row.broken == 0 for row in honest.values())
    for module in (until, fixed):
        monkeypatch.setattr(module, "betting_upper", lambda values, **_: values.mean())
    assert sequential(tmp_path / "eager")["mean risk, unit step"].failed


def test_a_policy_is_audited_with_stops(tmp_path, trained):
    mine = tmp_path / "mine"
    mine.mkdir()
    trained(mine)
    few = {"schemes": ("sequential",), "repetitions": 1, "truth_episodes": 100}
    audit = small(**few, until="rms<=1000", max_episodes=31)
    with pytest.raises(InputError, match="expected a folder outside the policy"):
        run_audit(mine, None, audit, mine / "out", engine=Inline)
    assert not (mine / "out").exists()
    found = run_audit(mine, None, audit, tmp_path / "out", engine=Inline)
    assert not found.failed
    assert {row.scheme for row in found.rows} == {"sequential"}


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"schemes": ("auto", "auto")}, "expected different `schemes`"),
        ({"max_episodes": 50}, "expected `until` with `max_episodes`, found 50"),
        ({"until": "rms<=1"}, "expected `schemes` sequential with `until`, found auto nonrec-inf"),
        ({"schemes": ("auto",), "until": "rms<=1", "max_episodes": 20}, "of at least 30, found 20"),
        ({"schemes": ()}, "expected different `schemes`"),
        ({"schemes": ("best",)}, "expected a scheme among"),
        ({"repetitions": 0}, "`repetitions` must be at least 1"),
        ({"updates": 9}, "`updates` must be at least 10"),
        ({"width": 0}, "`width` must be at least 1"),
        ({"width": 1.5}, "`width` must be a whole number"),
        ({"truth_episodes": 99}, "`truth_episodes` must be at least 100"),
        ({"delta": 1.5}, "`delta` must be in"),
        ({"episodes": 1}, "at least 2 validation episodes"),
        ({"seed": -1}, "`seed` must be"),
    ],
)
def test_what_cannot_be_audited_is_refused(changes, words):
    with pytest.raises(InputError, match=words):
        small(**changes)


def test_another_audit_in_the_same_folder_is_refused(undisturbed):
    folder = undisturbed.results.parent
    with pytest.raises(InputError, match=r"expected the audit that .* found another `delta`"):
        run_audit("independent", None, small(delta=0.2), folder, engine=Inline)
    with pytest.raises(InputError, match="found another `process`"):
        run_audit("correlated", None, small(), folder, engine=Inline)
