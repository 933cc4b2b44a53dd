"""An audit finds claims that are violated, resumes, and can be added to."""

import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from inline import Inline

from tightrope.audit.auditing import run_audit
from tightrope.audit.experiment import Audit
from tightrope.audit.generators import TASKS
from tightrope.certificates import certify as certifying
from tightrope.certificates.statements import mean_risk
from tightrope.comparison import compare as comparing
from tightrope.errors import InputError

SMALL = {
    "schemes": ("auto", "nonrec-inf"),
    "repetitions": 12,
    "episodes": 24,
    "delta": 0.3,
    "delta_prime": 0.15,
    "mc_passes": 2,
    "updates": 10,
    "width": 8,
    "truth_episodes": 1000,
}
ONE = {"schemes": ("auto",)}


def small(**changes):
    return Audit(**{**SMALL, **changes})


def audited(subject, out, executor=Inline, **changes):
    found = run_audit(subject, None, small(**changes), out, executor=executor)
    assert not found.failed
    return found


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory):
    return audited("independent", tmp_path_factory.mktemp("audit") / "out")


@pytest.fixture
def halved(monkeypatch):
    """Certificates whose mean risks are stated as half of what was shown."""
    real = certifying.issue

    def mutant(*arguments, **keywords):
        made = real(*arguments, **keywords)
        half = (replace(s, value=s.value / 2) for s in made.statements)
        pairs = zip(made.statements, half, strict=True)
        return replace(made, statements=tuple(h if s.kind == "mean-risk" else s for s, h in pairs))

    monkeypatch.setattr(certifying, "issue", mutant)


def test_every_statement_of_every_scheme_is_counted_once_per_repetition(undisturbed):
    rows = undisturbed.coverage
    assert set(rows["runs"]) == {12}
    assert not rows.duplicated(["scheme", "statement"]).any()
    auto = rows[rows["scheme"] == "auto"].set_index("statement")
    assert {"mean over steps", "mean over episodes", "expected discounted return"} <= {*auto.index}
    assert auto["nominal"]["all at once"] == pytest.approx(0.45)
    literal = auto.index.str.endswith(": all steps, unclipped")
    assert set(auto["claim"][literal]) == {"not made"}
    assert set(auto["claim"][~literal]) == {"made"}
    assert undisturbed.violated.empty
    assert "fits: preset tight, at most 10 updates, hidden layers of 8" in str(undisturbed)
    assert re.search(r"auto +drift +12 +0", str(undisturbed))
    kept = pd.read_csv(undisturbed.results / "coverage.csv")
    pd.testing.assert_frame_equal(kept, rows, check_dtype=False, rtol=1e-5)
    each = pd.read_csv(undisturbed.results / "checks.csv")
    assert len(each) == kept["runs"].sum() + 12  # nothing is claimed of all at once in nonrec-inf
    first = each[(each["scheme"] == "auto") & (each["statement"] == "mean over steps")]
    assert first["value"].nunique() == 12  # seeds of their own


def test_a_statement_that_was_tampered_with_is_found_where_its_assumption_holds(halved, tmp_path):
    found = audited("independent", tmp_path / "out", **ONE)
    wrong = set(found.violated["statement"])
    assert "mean over steps" in wrong
    assert not any(name.startswith(("tolerance", "band")) for name in wrong)
    assert "VIOLATED: auto, mean over steps" in str(found)
    found = audited("drifting", tmp_path / "drifting", **ONE, repetitions=8)
    assert (found.coverage["verdict"] == "violated").any()
    assert set(found.coverage["claim"]) == {"assumption violated", "not made"}
    assert found.violated.empty
    assert "VIOLATED" not in str(found)


def test_an_interrupted_audit_goes_on_ends_as_an_undisturbed_one_and_grows(undisturbed, tmp_path):
    with pytest.raises(InputError, match="the same command resumes"):
        audited("independent", tmp_path, executor=lambda folder: Inline(folder, stop_after=1))
    assert len(list((tmp_path / "jobs").glob("repeat-*"))) == 1
    resumed = audited("independent", tmp_path)
    for name in ("coverage.csv", "checks.csv", "warnings.csv"):
        same = [(each / name).read_text() for each in (resumed.results, undisturbed.results)]
        assert same[0] == same[1]
    started = []

    class Counting(Inline):
        def submit(self, job):
            started.append((job.spec["first"], job.spec["last"]))
            return super().submit(job)

    more = audited("independent", tmp_path, executor=Counting, repetitions=13)
    assert started == [(10, 13)]
    assert set(more.coverage["runs"]) == {13}


def test_the_best_of_several_certificates_is_judged(tmp_path):
    """Its headline is the smallest, and its confidence accounts for the choice."""
    shares = []
    for count in (1, 4):
        audit = {**ONE, "repetitions": 3, "candidates": count}
        rows = audited("independent", tmp_path / str(count), **audit).coverage
        assert rows.set_index("statement")["nominal"]["all at once"] == pytest.approx(0.45)
        band = rows["statement"][rows["statement"].str.startswith("band")].iloc[0]
        shares.append(float(band.split()[1]))
    assert shares[0] > shares[1]  # a fourth of the failure probability covers fewer episodes


def test_comparisons_of_two_tasks_are_audited(tmp_path, monkeypatch):
    found = audited("independent:catastrophes", tmp_path / "a", episodes=150, repetitions=6)
    assert set(found.coverage["scheme"]) == {"compare"}
    assert {"return", "mean return", "all at once"} <= set(found.coverage["statement"])
    assert set(found.coverage["violated"]) == {0}
    real = comparing.intersect

    def narrow(*arguments):
        made = real(*arguments)
        wrong = made.effect + made.width / 4
        return replace(made, low=wrong, high=wrong)

    monkeypatch.setattr(comparing, "intersect", narrow)
    wrong = audited("independent:independent", tmp_path / "b", episodes=150, repetitions=6)
    assert "mean return" in set(wrong.violated["statement"])


def test_certificates_of_a_training_are_audited(tmp_path, monkeypatch):
    """A callback issues them; episodes are drawn here, without processes."""
    task, seeds = TASKS["independent"], []

    def collect(policy, environment, count, seed, **_):
        seeds.append(seed)
        return task.record(count, np.random.default_rng(seed))

    monkeypatch.setattr(certifying, "collect", collect)
    audit = {**ONE, "repetitions": 1, "candidates": 3, "via": "callback"}
    rows = audited("independent", tmp_path / "out", **audit).coverage
    assert len(set(seeds)) == 3
    assert rows.set_index("statement")["nominal"]["all at once"] == pytest.approx(0.45)


def test_a_policy_is_audited_in_its_environment(tmp_path, trained, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("mine").mkdir()
    trained(Path("mine"))
    audit = {"schemes": ("holdout",), "repetitions": 1, "episodes": 4, "truth_episodes": 100}
    with pytest.raises(InputError, match="expected a folder outside the policy"):
        audited("mine", Path("mine/out"), **audit)
    found = audited("mine", tmp_path / "out", **audit)
    assert found.subject == "mine in Pendulum-v1"
    claims = found.coverage.set_index("statement")["claim"]
    assert (claims["mean over steps"], claims["mean over episodes"]) == (
        *("assumption violated", "made"),
    )
    Path("mine/extra").write_text("another policy")
    with pytest.raises(InputError, match=r"\(digest \w+\), found"):
        audited("mine", tmp_path / "out", **audit)


def test_stops_at_a_target_are_audited_and_a_bound_that_is_none_is_found(tmp_path, monkeypatch):
    """In place of the bound: four fifths of the mean so far."""
    stopped = {**ONE, "until": "rms<=0.93", "unit": "step", "max_episodes": 90, "repetitions": 5}
    stopped |= {"delta": 0.05, "delta_prime": 0.05}
    honest = audited("independent", tmp_path / "honest", **stopped)
    assert set(honest.coverage["scheme"]) == {"sequential"}
    assert set(honest.coverage["violated"]) == {0}
    monkeypatch.setattr(mean_risk, "betting_upper", lambda values, **_: 0.8 * values.mean())
    eager = audited("independent", tmp_path / "eager", **stopped)
    assert "mean over steps" in set(eager.violated["statement"])


def test_what_cannot_be_audited_is_refused():
    for changes, words in (
        ({"schemes": ("auto", "auto")}, "expected different `schemes`"),
        ({"schemes": ("best",)}, "expected a scheme among"),
        ({"until": "rms<=1"}, "expected `schemes` auto with .* found auto nonrec-inf"),
        ({"via": "callback"}, "expected `schemes` auto with `until` or `via` callback"),
        ({**ONE, "via": "callback", "until": "rms<=1"}, "expected `until` or `via` callback"),
        ({**ONE, "until": "rms<=1", "max_episodes": 1}, "`max_episodes`"),
        ({"repetitions": 0}, "`repetitions` must be at least 1"),
    ):
        with pytest.raises(InputError, match=words):
            small(**changes)


def test_another_audit_in_the_same_folder_and_unknown_subjects_are_refused(undisturbed):
    two, folder = "independent:clipping", undisturbed.results.parent
    for subject, changes, words in (
        ("independent", {"delta": 0.2}, r"expected the audit that .* \(delta .*\), found 0.2"),
        ("correlated", {}, r"\(task independent\), found correlated"),
        ("independent:other", {}, "expected one or two synthetic tasks among"),
        (two, {**ONE, "via": "callback"}, "expected one synthetic task with `via` callback"),
        ("nowhere", {}, "expected a synthetic task among .* found 'nowhere'"),
    ):
        with pytest.raises(InputError, match=words):
            run_audit(subject, None, small(**changes), folder, executor=Inline)
