"""Trainings that are interrupted."""

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
