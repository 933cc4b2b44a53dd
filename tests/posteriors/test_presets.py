"""Presets are values: what the paper's says, and what a shortened one keeps."""

import dataclasses

import pytest

from tightrope.posteriors import OBJECTIVES, PRESETS


def test_the_papers_preset_is_the_papers():
    """Log-variance -4.6 everywhere, no regression, no clock."""
    paper = PRESETS["paper"]
    assert paper.prior_log_variance == paper.informed_log_variance == -4.6
    assert paper.regression is None
    assert not paper.clock


@pytest.mark.parametrize("name", PRESETS)
def test_a_shortened_preset_has_no_more_updates_and_is_otherwise_the_same(name):
    whole = PRESETS[name]
    assert (whole.name, whole.layer_norm) == (name, True)
    assert whole.fit.objective in OBJECTIVES
    for updates in (1, 60, 10_000):
        short = whole.shortened(updates=updates)
        assert 0 < short.fit.steps <= min(updates, whole.fit.steps)
        epochs = {"epochs": whole.fit.epochs, "epoch_steps": whole.fit.epoch_steps}
        assert dataclasses.replace(short.fit, **epochs) == whole.fit
        for exact in (False, True) if whole.regression else ():
            assert short.regression.updates(exact) == min(updates, whole.regression.updates(exact))
        assert dataclasses.replace(short, fit=whole.fit, regression=whole.regression) == whole
    narrow = whole.shortened(width=16)
    assert narrow.hidden == (16, 16)
    assert narrow.fit == whole.fit
    assert narrow.regression is None or narrow.regression.hidden == (16, 16)
