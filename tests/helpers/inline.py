"""An executor for tests that runs its jobs in this process."""

from concurrent.futures import Future

from tightrope.studies.jobs import run_job


class Inline:
    """Does its jobs here and now; `stop_after` of them and it is interrupted."""

    slots = 1

    def __init__(self, folder, stop_after=None):
        self.folder, self.left = folder, stop_after

    def submit(self, job):
        if self.left == 0:
            raise KeyboardInterrupt
        self.left = None if self.left is None else self.left - 1
        ended = Future()
        try:
            run_job(job, self.folder)
        except Exception as error:
            ended.set_exception(error)
        else:
            ended.set_result(None)
        return ended

    def shutdown(self):
        pass
