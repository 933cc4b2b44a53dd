"""An engine for tests that runs its jobs in this process."""

from tightrope.studies.engines import Outcome
from tightrope.studies.worker import attempt


class Inline:
    """Does its jobs here and now; `stop_after` of them and it is interrupted."""

    slots = 1

    def __init__(self, folder, stop_after=None):
        self.folder, self.left, self.ended = folder, stop_after, []

    def submit(self, job):
        if self.left == 0:
            raise KeyboardInterrupt
        self.left = None if self.left is None else self.left - 1
        self.ended.append(Outcome(job, attempt(job, self.folder)))

    def wait(self, seconds):
        ended, self.ended = self.ended, []
        return ended

    def close(self):
        pass
