"""Certificates of tables: returns, failures and properties by exact bounds, no predicted errors."""

import json
import os
import subprocess
import sys

import numpy as np
import pytest
from command import tightrope
from scipy.stats import beta

from tightrope.certificates.certify import certify
from tightrope.certificates.diagnostics import LEVEL
from tightrope.certificates.properties import Property
from tightrope.certificates.verify import verify
from tightrope.errors import InputError
from tightrope.rollouts.results_table import ResultsTable

DELTA = 0.035
NULL = (
    *("bound", "bound_raw", "rms_raw", "effective_n", "return_range", "clipped_share", "steps"),
    *("train_error", "test_error", "constant_error", "per_step_error", "tightness"),
)


def table(count=150, *, seed=1, tasks=None, returns=True, success=True, candidates=1, ordered=True):
    """Results of one or several tasks; a tenth of the episodes fail."""
    rng = np.random.default_rng(seed)
    return ResultsTable(
        name="results.csv",
        returns=rng.normal(250.0, 20.0, count) if returns else None,
        success=rng.random(count) < 0.9 if success else None,
        keys=np.arange(count),
        tasks=tasks or (("", count),),
        properties={"torque": rng.uniform(0.0, 80.0, count)},
        candidates=candidates,
        ordered=ordered,
    )


@pytest.fixture(scope="module")
def source():
    return table()


@pytest.fixture(scope="module")
def certificate(source):
    limit = {"torque": Property(None, "at-most", 80.0)}
    return certify(source, seed=3, properties=limit, fail_below=200.0)


def test_delta_goes_to_returns_failures_and_properties_alone(certificate, source):
    """4/5 of it in equal parts to returns and failures, 1/5 to properties; each limit is exact."""
    shares = {entry.statement: entry.failure / DELTA for entry in certificate.ledger}
    assert shares == pytest.approx(
        {
            "undiscounted return": 2 / 5,
            "success": 1 / 5,
            "low return": 1 / 5,
            "property: torque": 1 / 10,
            "property limit: torque": 1 / 10,
        }
    )
    count, n = int(source.success.sum()), 150
    expected = beta.ppf(DELTA / 5, count, n - count + 1)
    assert certificate.statement("success").value == pytest.approx(expected, rel=2e-5)
    low = certificate.statement("undiscounted return")
    assert low.share == 0.9
    assert low.value_raw == low.value
    assert low.value_raw <= np.sort(source.returns)[15]


def test_what_is_about_predicted_errors_is_null_and_the_headline_is_the_failure(
    certificate, tmp_path
):
    certificate.save(tmp_path / "c")
    document = json.loads((tmp_path / "c" / "certificate.json").read_text())
    assert [document[name] for name in NULL] == [None] * len(NULL)
    assert document["scheme"] == "table"
    assert document["portions"] == document["fits"] == []
    assert not (tmp_path / "c" / "predictor.safetensors").exists()
    assert certificate.statements[certificate.headline].target == "success"
    alone = certify(table(success=False), seed=3)
    assert alone.statements[alone.headline].target == "undiscounted-return"
    assert "predicted returns are not certified" in str(certificate)
    with pytest.raises(InputError, match="a certificate with a predictor, found one of a table"):
        certificate.predictor  # noqa: B018


def test_it_is_verified_and_a_change_of_any_row_or_number_is_noticed(certificate, tmp_path):
    certificate.save(tmp_path / "c")
    assert verify(tmp_path / "c") == []
    path = tmp_path / "c" / "certificate.json"
    text = path.read_text()
    value = certificate.statement("success").value
    path.write_text(text.replace(repr(value), repr(value + 0.01)))
    assert any("statements[" in line for line in verify(tmp_path / "c"))
    path.write_text(text.replace('"candidates": 1,', '"candidates": 2,', 1))
    assert verify(tmp_path / "c")
    path.write_text(text)
    rollouts = tmp_path / "c" / "rollouts.safetensors"
    content = bytearray(rollouts.read_bytes())
    content[-9] ^= 1
    rollouts.write_bytes(content)
    assert verify(tmp_path / "c")


def test_tasks_are_certified_each_with_one_confidence_for_all():
    whole = table(150, tasks=(("task a", 60), ("task b", 90)))
    made = certify(whole, seed=0)
    names = [s.name for s in made.statements]
    assert names == [
        f"{kind}, task {task}" for task in "ab" for kind in ("undiscounted return", "success")
    ]
    assert {entry.share for entry in made.ledger} == {"1/4"}
    assert made.joint_confidence == pytest.approx(0.965)
    for task, rows in (("a", slice(0, 60)), ("b", slice(60, 150))):
        statement = made.statement(f"success, task {task}")
        count, n = int(whole.success[rows].sum()), rows.stop - rows.start
        assert statement.n == n
        expected = beta.ppf(DELTA / 4, count, n - count + 1)
        assert statement.value == pytest.approx(expected, rel=2e-5)
    assert "each of 2 tasks" in str(made)


def test_two_tasks_or_properties_of_one_name_never_spend_one_share_twice():
    rows = table(150, tasks=(("task a", 60), ("task a", 90)))
    with pytest.raises(InputError, match="names that differ, found 'undiscounted return, task a'"):
        certify(rows, seed=0)
    both = table(150, tasks=(("c", 60), ("b, c", 90)))
    own = dict.fromkeys(("a", "a, b"), lambda episode: float(episode.rewards[0]))
    with pytest.raises(InputError, match="found 'property: a, b, c' 2 times"):
        certify(both, seed=0, properties=own)


def test_the_best_of_several_evaluations_takes_as_many_candidates():
    one, best = (certify(table(candidates=k), seed=0) for k in (1, 5))
    assert best.settings.candidates == 5
    assert best.ledger[0].failure == pytest.approx(one.ledger[0].failure / 5)
    assert best.statement("success").value < one.statement("success").value
    assert any("chosen from at most 5" in each for each in best.assumptions)


def test_rows_that_drift_are_marked_and_counts_have_no_order_to_drift():
    drifting = table(success=False)
    rising = np.sort(drifting.returns)
    made = certify(ResultsTable(**{**vars(drifting), "returns": rising}), seed=0)
    assert made.statuses[0].key == "drift"
    assert certify(table(), seed=0).statuses[0].key == "holds"
    tasks = (("a", 40), ("b", 40), ("c", len(rising) - 80))
    late = np.arange(40) >= 20  # of the second task alone: seen among six columns of three tasks
    success = table().success.copy()
    success[40:80] = late
    several = table(success=False)
    mixed = certify(ResultsTable(**{**vars(several), "success": success, "tasks": tasks}), seed=0)
    assert mixed.checks.drift == LEVEL
    counts = certify("74/80", seed=0)
    assert counts.checks.drift is None
    assert counts.statuses[0].key == "holds"


def test_an_expected_return_needs_a_floor_and_a_range():
    with pytest.raises(InputError, match="no `return_floor` for a table without `return_range`"):
        certify(table(), return_floor=0.0)
    made = certify(table(), return_floor=0.0, return_range=(0.0, 400.0), seed=0)
    found = made.statement("expected undiscounted return").value_raw
    assert 200 < found < 250
    with pytest.raises(InputError, match="no return below the `return_floor` 240"):
        certify(table(), return_floor=240.0, return_range=(240.0, 400.0))


def test_options_of_predictions_and_roll_outs_are_refused():
    several = table(4, tasks=(("task a", 3), ("task b", 1)))
    for source, options, words in (
        (table(), {"scheme": "rec-6"}, "no `scheme` for a table of results"),
        (table(), {"fit_episodes": 10}, "no `fit_episodes` for a table"),
        (table(), {"until": "rms<=3"}, "no `until` for a table"),
        (table(), {"termination": "failure"}, "no `termination` for a table"),
        (table(), {"env": "Hopper-v4"}, "no `env` for the recorded episodes"),
        ("74/80", {"fail_below": 3.0}, "no `fail_below` for a table without returns"),
        (several, {}, "at least 2 episodes of task b, found 1"),
    ):
        with pytest.raises(InputError, match=words):
            certify(source, **options)


def test_the_command_certifies_a_table_without_torch_gymnasium_or_pandas(tmp_path):
    rows = table(60)
    lines = [f"{r},{s}" for r, s in zip(rows.returns, rows.success, strict=True)]
    (tmp_path / "results.csv").write_text("return,success\n" + "\n".join(lines))
    program = """
import sys
from tightrope.cli import main
assert main(["certify", "results.csv", "--out", "c", "--quiet"]) == 0
assert main(["verify", "c", "--quiet"]) == 0
assert main(["check", "c", "--max-failure", "0.5", "--quiet"]) == 0
assert main(["report", "c", "--quiet"]) == 0
heavy = {"torch", "gymnasium", "pandas", "matplotlib"} & set(sys.modules)
assert not heavy, heavy
"""
    done = subprocess.run(
        [sys.executable, "-c", program],
        cwd=tmp_path,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
    )
    assert (done.returncode, done.stdout) == (0, ""), done.stderr
    assert tightrope("certify", "results.csv", "--out", "d", cwd=tmp_path).returncode == 0
