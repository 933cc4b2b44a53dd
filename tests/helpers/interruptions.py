"""Trainings and fits that are interrupted."""

import pytest
import torch

from tightrope.agents.training_statistics import TrainingStatistics


def interrupt_at(monkeypatch, step):
    """Ctrl-C in the middle of an episode, at that step of the run."""
    plain, count = TrainingStatistics.step, [0]

    def stepping(self, action):
        count[0] += 1
        if count[0] == step:
            raise KeyboardInterrupt
        return plain(self, action)

    monkeypatch.setattr(TrainingStatistics, "step", stepping)


def threads_when_interrupted(fit):
    """The threads of torch when `fit(advance)` is interrupted; it had two, and gets them back."""
    before, seen = torch.get_num_threads(), []

    def interrupt(_):
        seen.append(torch.get_num_threads())
        raise KeyboardInterrupt

    torch.set_num_threads(2)
    try:
        with pytest.raises(KeyboardInterrupt):
            fit(interrupt)
        assert torch.get_num_threads() == 2
        return seen
    finally:
        torch.set_num_threads(before)
