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
def test_presets_go_by_their_own_name_and_by_objectives_that_there_are(name):
    assert PRESETS[name].name == name
    assert PRESETS[name].fit.objective in OBJECTIVES
    assert PRESETS[name].layer_norm


@pytest.mark.parametrize("updates", [1, 7, 60, 10_000])
@pytest.mark.parametrize("name", PRESETS)
def test_a_shortened_preset_has_no_more_updates_and_is_otherwise_the_same(name, updates):
    whole, short = PRESETS[name], PRESETS[name].shortened(updates=updates)
    assert 0 < short.fit.steps <= min(updates, whole.fit.steps)
    restored = dataclasses.replace(
        short.fit, epochs=whole.fit.epochs, epoch_steps=whole.fit.epoch_steps
    )
    assert restored == whole.fit
    if whole.regression is not None:
        for exact in (False, True):
            assert short.regression.updates(exact) == min(updates, whole.regression.updates(exact))
    assert dataclasses.replace(short, fit=whole.fit, regression=whole.regression) == whole


@pytest.mark.parametrize("name", PRESETS)
def test_a_narrowed_preset_is_narrow_in_every_fit(name):
    narrow = PRESETS[name].shortened(width=16)
    assert narrow.hidden == (16, 16)
    assert narrow.fit == PRESETS[name].fit
    assert narrow.regression is None or narrow.regression.hidden == (16, 16)
