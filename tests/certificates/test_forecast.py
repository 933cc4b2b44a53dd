"""Forecasts: with the episodes there are they say what is; with others, what the bounds would."""

import numpy as np
import pytest
from command import run
from recordings import recording, short_fits
from tightrope.certificates.forecast import episodes_for, forecast, terms

from tightrope.bounds import betting_upper
from tightrope.certificates import certify, write
from tightrope.certificates.breakdown import PARTS
from tightrope.errors import InputError
from tightrope.rollouts import save

SCHEMES = ["auto", "holdout", "sequential", "nonrec-inf", "nonrec-noninf", "rec-2"]


@pytest.fixture(scope="module")
def issued():
    """One certificate of each scheme, in both units."""
    episodes = recording(44, 30, seed=1)
    with short_fits():
        return {
            (scheme, unit): certify(
                episodes, scheme=scheme, unit=unit, pilot_episodes=4, mc_passes=3, gamma=0.9, seed=0
            )
            for scheme in SCHEMES
            for unit in ("step", "episode")
        }


@pytest.mark.parametrize("unit", ["step", "episode"])
@pytest.mark.parametrize("scheme", SCHEMES)
def test_the_forecast_for_the_episodes_there_are_is_the_certificate(issued, scheme, unit):
    """To a per cent: bets are planned anew, and the threshold's rounding is left out."""
    certificate = issued[scheme, unit]
    said = forecast(certificate, 40)
    assert [s.kind for s in said] == [s.kind for s in certificate.statements]
    for one, other in zip(said, certificate.statements, strict=True):
        assert one.value == pytest.approx(other.value, rel=0.02), other
        assert one.n == pytest.approx(other.n, rel=0.01)
        if other.share is not None:
            assert one.share == pytest.approx(other.share, rel=1e-6)


@pytest.mark.parametrize("scheme", SCHEMES)
def test_more_episodes_never_loosen_a_mean_risk_or_a_promised_share(issued, scheme):
    certificate = issued[scheme, "step"]
    shrinking = [forecast(certificate, number) for number in (40, 80, 400, 4000)]
    for kind in ("mean-risk", "failure"):
        values = [[s.value for s in said if s.kind == kind] for said in shrinking]
        assert all(np.all(np.diff(column) <= 1e-9) for column in zip(*values, strict=True))
    shares = [[s.share for s in said if s.kind == "monitor"] for said in shrinking]
    assert all(np.all(np.diff(column) > 0) for column in zip(*shares, strict=True))


def test_the_forecast_of_many_steps_is_the_bound_on_so_many_like_these(issued):
    """Against the bound itself, on losses repeated as often as there are more of them."""
    certificate = issued["sequential", "step"]
    rows = certificate.portions[0].n
    from tightrope.certificates.forecast import _Forecast

    losses = _Forecast(certificate).found.losses
    assert len(losses) == rows
    before = certificate.beforehand
    expected = betting_upper(
        np.tile(losses, 5), delta=0.035, bets=before.bets, weights=before.weights
    )
    (found, _) = [s for s in forecast(certificate, 20 + 5 * 20) if s.kind == "mean-risk"]
    assert found.value == pytest.approx(float(expected), rel=1e-6)


@pytest.mark.parametrize("scheme", SCHEMES)
def test_the_terms_of_a_bound_add_up_to_it(issued, scheme):
    for unit in ("step", "episode"):
        certificate = issued[scheme, unit]
        made = terms(certificate)
        if certificate.bound < 1:
            assert made.parts.total == pytest.approx(certificate.bound, rel=1e-6)
        fixed = scheme in ("auto", "holdout", "sequential")
        assert (made.parts.kl == made.parts.draws == 0) is fixed
        assert (made.dependence > 0) is (unit == "step") or certificate.bound == 1
        assert made.dominating in PARTS.values()


@pytest.mark.parametrize("scheme", ["auto", "rec-2"])
def test_the_episodes_for_a_target_are_the_fewest_that_reach_it(issued, scheme):
    certificate = issued[scheme, "step"]
    target = 0.9 * certificate.rms_raw
    count = episodes_for(certificate, target)

    assert 40 < count < 400

    def rms(episodes):
        said = [s for s in forecast(certificate, episodes) if s.kind == "mean-risk"]
        return next(s.rms_raw for s in said if s.unit == "step")

    assert rms(count) <= target < rms(count - 2 - count // 50)
    assert episodes_for(certificate, 1e-3) is None


def test_wrong_numbers_of_episodes_are_refused(issued):
    with pytest.raises(InputError, match="`episodes` must be a whole number of at least 1"):
        forecast(issued["auto", "step"], 0)
    with pytest.raises(InputError, match="more than 20 validation episodes for sequential"):
        forecast(issued["sequential", "step"], 10)


# --- the command --------------------------------------------------------------------------------


def test_the_command_forecasts_from_a_certificate(issued, capsys, tmp_path):
    write(issued["auto", "step"], tmp_path / "certificate")
    code, out, said = run(
        capsys, "plan", tmp_path / "certificate", "--numbers", 100, 1000, "--target", "rms<=3"
    )
    assert (code, said) == (0, [])
    assert "A forecast, not a promise" in out
    assert "Largest: " in out
    assert "rms<=3: about " in out
    for kind in ("tolerance", "mean-risk", "band", "monitor", "return", "failure"):
        assert f"\n{kind}" in out


def test_a_target_that_no_number_reaches_is_said_with_the_floor(issued, capsys, tmp_path):
    write(issued["auto", "step"], tmp_path / "certificate")
    code, out, _ = run(capsys, "plan", tmp_path / "certificate", "--target", "rms<=0.01")
    assert code == 1
    assert "rms<=0.01: no number of episodes would do; the error itself is" in out


def test_the_command_certifies_a_recording_first_and_writes_nothing(capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    save(recording(24, seed=1), tmp_path / "log.safetensors")
    with short_fits():
        code, out, said = run(
            capsys, "plan", "log.safetensors", "--pilot-episodes", 4, "--numbers", 50, "--seed", 0
        )
    assert (code, said) == (0, [])
    assert "now [20]" in out
    assert [path.name for path in tmp_path.iterdir()] == ["log.safetensors"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--target", "rms>=3"], "expected a target such as 'rms<=20' for --target"),
        (["--numbers", "0"], "--numbers must be at least 1 each, found [0]"),
        (["--delta", "0.1"], "expected no options of certify for a certificate"),
    ],
)
def test_wrong_options_are_one_line(issued, capsys, tmp_path, arguments, message):
    write(issued["auto", "step"], tmp_path / "certificate")
    code, out, said = run(capsys, "plan", tmp_path / "certificate", *arguments)
    assert (code, out, len(said)) == (2, "", 1)
    assert message in said[0]


def test_a_policy_is_refused(capsys, helpers):
    code, _, said = run(capsys, "plan", "custom_environments:still")
    assert (code, len(said)) == (2, 1)
