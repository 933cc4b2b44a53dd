"""Every job after what it needs, and the rest goes on when one fails."""

import random
from concurrent.futures import ThreadPoolExecutor

import pytest
from trivial_jobs import job

from tightrope.studies.jobs import JobError
from tightrope.studies.scheduler import run_jobs


class Threads:
    """Runs jobs in threads and remembers in what order; `fails` do not succeed, `flaky` once."""

    def __init__(self, slots=2, fails=(), flaky=()):
        self.slots, self.fails, self.flaky = slots, set(fails), set(flaky)
        self.begun, self.running, self.most = [], 0, 0
        self.threads = ThreadPoolExecutor(slots)

    def submit(self, one):
        self.begun.append(one.label)
        self.running += 1
        self.most = max(self.most, self.running)
        return self.threads.submit(self.run, one.label)

    def run(self, label):
        self.running -= 1
        if label in self.fails or label in self.flaky:
            self.flaky.discard(label)
            raise JobError("broken")

    def shutdown(self):
        self.threads.shutdown()


@pytest.mark.parametrize("seed", range(5))
def test_every_job_runs_once_after_what_it_needs_and_no_more_at_once_than_fit(seed):
    rng, jobs = random.Random(seed), []
    for index in range(60):
        needs = rng.sample(jobs, k=min(len(jobs), rng.randint(0, 3)))
        jobs.append(job(f"j {index}", needs=needs))
    executor = Threads(slots=1 + 2 * (seed % 2))
    known = {each.id for each in jobs[::7]}
    done = {each.id for each in jobs if each.id in known and not set(each.needs) - known}
    ended = run_jobs(jobs, executor, done=done)
    assert sorted(executor.begun) == sorted(each.label for each in jobs if each.id not in done)
    place = {label: index for index, label in enumerate(executor.begun)}
    named = {each.id: each.label for each in jobs}
    for each in jobs:
        for need in set(each.needs) - done if each.id not in done else ():
            assert place[named[need]] < place[each.label]
    assert executor.most <= executor.slots
    assert ended.done == set(named)
    assert ended.blocked == 0


def test_of_what_is_ready_the_first_of_the_plan_runs_first():
    """So a policy is finished before the next begins."""
    trained = [job(f"train {n}") for n in range(2)]
    collected = [job(f"collect {n}", needs=(one,)) for n, one in enumerate(trained)]
    certified = [job(f"certify {n}", needs=(one,)) for n, one in enumerate(collected)]
    pairs = [one for pair in zip(collected, certified, strict=True) for one in pair]
    executor = Threads(slots=1)
    run_jobs([*trained, *pairs], executor)
    order = ["train 0", "train 1", "collect 0", "certify 0", "collect 1", "certify 1"]
    assert executor.begun == order


def test_a_failure_is_tried_once_more_then_given_up_while_the_rest_goes_on():
    bad, good, flaky = job("a bad"), job("a good"), job("a flaky")
    after = job("b after", needs=(bad,))
    executor, told = Threads(slots=1, fails=["a bad"], flaky=["a flaky"]), []
    jobs = [bad, good, flaky, after]
    ended = run_jobs(jobs, executor, on_change=lambda p: told.append(dict(p.failed)))
    assert executor.begun.count("a bad") == executor.begun.count("a flaky") == 2
    assert ended.failed == told[-1] == {bad.id: "broken"}
    assert ended.done == {good.id, flaky.id}
    assert ended.blocked == 1
    assert "b after" not in executor.begun
