"""Forecasts: with the episodes there are they give what is; with others, what the bounds would."""

import numpy as np
import pytest
from command import run
from constructed import certificate as constructed
from constructed import made_up, recorded
from recordings import recording, short

from tightrope.bounds import betting_upper
from tightrope.certificates.certify import certify
from tightrope.deploy import Conditions
from tightrope.deploy.plan import _Forecast, episodes_for, forecast
from tightrope.errors import InputError
from tightrope.posteriors import PRESETS
from tightrope.rollouts import save
from tightrope.rollouts.results_table import ResultsTable

FIXED, POSTERIOR = ["auto", "holdout"], ["nonrec-inf", "nonrec-noninf", "rec-2"]


@pytest.fixture(scope="module")
def issued():
    """One certificate of each scheme: 40 episodes to fit and to calibrate."""
    found = {
        (scheme, unit): constructed(
            recorded(*made_up(seed=1, episodes=40, scale=0.5, longest=30)),
            scheme=scheme,
            unit=unit,
            fail_below=20.0,
        )
        for scheme in FIXED
        for unit in ("step", "episode")
    }
    for scheme in POSTERIOR:
        given = {"pilot_episodes": 4, "mc_passes": 3, "gamma": 0.9, "seed": 0}
        found[scheme, "step"] = certify(
            recording(44, 30, seed=1), scheme=scheme, preset_values=short(), **given
        )
    return found


def test_the_forecast_for_the_episodes_there_are_is_the_certificate_and_more_never_loosen(issued):
    """To a per cent: beyond the largest score there is an exponential tail."""
    for key, certificate in issued.items():
        now, *more = (forecast(certificate, number) for number in (40, 400, 4000))
        assert [s.name for s in now] == [s.name for s in certificate.statements]
        for one, other in zip(now, certificate.statements, strict=True):
            assert one.n == pytest.approx(other.n, rel=0.01)
            if other.share is None:
                assert one.value == pytest.approx(other.value, rel=0.02), (key, other)
            else:
                assert one.share == pytest.approx(other.share, rel=1e-6), (key, other)
        for kind in ("mean-risk", "failure"):
            values = [[s.value for s in each if s.kind == kind] for each in (now, *more)]
            assert (np.diff(values, axis=0) <= 1e-9).all(), (key, kind)
        first = [[s for s in each if s.share == 0.8] for each in (now, *more)]
        levels = [s.limit for each in first for s in each if s.kind == "tolerance"]
        assert (np.diff(levels) <= 1e-9).all(), key


def test_the_forecast_of_many_steps_is_the_bound_on_as_many_like_these(issued):
    """Against the bound itself, on losses repeated as often as there are more of them."""
    certificate = issued["holdout", "step"]
    statement = certificate.statement("mean over steps")
    losses = certificate.evidence(certificate.calibration).losses
    bets, weights = (statement.chosen[name] for name in ("bets", "weights"))
    delta = _Forecast(certificate).ledger.failure("mean over steps")
    expected = betting_upper(np.tile(losses, 5), delta=delta, bets=bets, weights=weights)
    (found, _) = [s for s in forecast(certificate, 10 + 5 * 30) if s.kind == "mean-risk"]
    assert found.value == pytest.approx(float(expected), rel=1e-4)


def test_the_episodes_for_a_target_are_the_fewest_that_reach_it(issued):
    certificate, named = issued["rec-2", "step"], "mean over steps"
    target = 0.9 * certificate.statement(named).rms_raw
    asked = {"unit": "step", "allow_clipped": 1.0}
    count = episodes_for(certificate, Conditions(max_rms=target, **asked))
    assert 40 < count < 4000

    def rms(episodes):
        return next(s.rms_raw for s in forecast(certificate, episodes) if s.name == named)

    assert rms(count) <= target < rms(count - 2 - count // 50)
    assert episodes_for(certificate, Conditions(max_rms=1e-3, **asked)) is None


def test_a_table_is_forecast_task_by_task():
    rng = np.random.default_rng(0)
    tasks = (("task a", 40), ("task b", 80))
    table = ResultsTable("t.csv", rng.normal(size=120), rng.random(120) < 0.9,
                         np.full(120, -1), tasks)  # fmt: skip
    made = certify(table, seed=0)
    for one, other in zip(forecast(made, 120), made.statements, strict=True):
        assert (one.name, one.n) == (other.name, other.n)
        assert one.value == pytest.approx(other.value, rel=0.02)
    assert [s.n for s in forecast(made, 1200) if s.kind == "failure"] == [400, 800]


def test_wrong_numbers_of_episodes_are_refused(issued):
    for key, count, words in (("auto", 0, "at least"), ("holdout", 10, "below 10 episodes in all")):
        with pytest.raises(InputError, match=words):
            forecast(issued[key, "step"], count)


# --- the command ----------------------------------------------------------------------------------


def test_the_command_forecasts_from_a_certificate(issued, capsys, tmp_path):
    issued["auto", "episode"].save(tmp_path / "certificate")
    code, out, said = run(
        *(capsys, "plan", tmp_path / "certificate", "--numbers", 100, 1000),
        *("--max-rms", 9, "--unit", "episode", "--allow-clipped", 1),
    )
    assert (code, said) == (0, [])
    assert "A forecast, not a promise" in out
    assert "The mean over episodes consists of: " in out
    assert "episodes to fit and to calibrate would meet these conditions" in out
    for name in dict.fromkeys(s.name for s in issued["auto", "episode"].statements):
        assert f"\n{name}" in out


def test_the_command_certifies_a_recording_first_and_writes_nothing(capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setitem(PRESETS, "tight", short())
    save(recording(24, seed=1), tmp_path / "log.safetensors")
    code, out, said = run(capsys, "plan", "log.safetensors", "--numbers", 50)
    assert (code, said) == (0, [])
    assert "now (24)" in out
    assert [path.name for path in tmp_path.iterdir()] == ["log.safetensors"]
