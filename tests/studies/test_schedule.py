"""Every job after what it needs, the longest way first, and the rest goes on when one fails."""

import itertools
import random

import pytest
from trivial_jobs import job

from tightrope.studies.engines import Outcome
from tightrope.studies.schedule import makespan, run_jobs, ways


class Instant:
    """An engine on which a job ends as soon as somebody waits; `fails` of the names do not."""

    def __init__(self, slots=2, fails=(), flaky=()):
        self.slots, self.fails, self.flaky = slots, set(fails), set(flaky)
        self.begun, self.open, self.most = [], [], 0

    def submit(self, one):
        self.begun.append(one.label)
        self.open.append(one)
        self.most = max(self.most, len(self.open))

    def wait(self, seconds):
        one = self.open.pop(0)
        if one.label in self.flaky:
            self.flaky.remove(one.label)
            return [Outcome(one, "flaky")]
        return [Outcome(one, "broken" if one.label in self.fails else None)]

    def close(self):
        pass


def random_graph(seed, count=40):
    rng = random.Random(seed)
    jobs = []
    for index in range(count):
        needs = rng.sample(jobs, k=min(len(jobs), rng.randint(0, 3)))
        jobs.append(job(f"j {index}", needs=needs, seconds=rng.uniform(0.1, 5.0)))
    return jobs


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("slots", [1, 3])
def test_every_job_runs_once_after_what_it_needs_and_no_more_at_once_than_fit(seed, slots):
    jobs, engine = random_graph(seed), Instant(slots)
    ended = run_jobs(jobs, engine)
    assert sorted(engine.begun) == sorted(each.label for each in jobs)
    place = {label: index for index, label in enumerate(engine.begun)}
    named = {each.id: each.label for each in jobs}
    for each in jobs:
        assert all(place[named[need]] < place[each.label] for need in each.needs)
    assert engine.most <= slots
    assert ended.done == set(named)


def test_what_is_done_is_not_run():
    first = job("a 1")
    second = job("b 1", needs=(first,))
    engine = Instant()
    run_jobs([first, second], engine, done=[first.id])
    assert engine.begun == ["b 1"]


def test_the_longest_way_goes_first():
    short, long = job("a short", seconds=5), job("a long", seconds=1)
    tail = job("b tail", needs=(long,), seconds=10)
    engine = Instant(slots=1)
    run_jobs([short, long, tail], engine)
    assert engine.begun == ["a long", "b tail", "a short"]


def test_a_failure_is_tried_once_more_then_given_up_while_the_rest_goes_on():
    bad, good = job("a bad"), job("a good")
    after = job("b after", needs=(bad,))
    engine, told = Instant(fails=["a bad"]), []
    ended = run_jobs([bad, good, after], engine, failed=lambda one, why: told.append((one, why)))
    assert engine.begun.count("a bad") == 2
    assert ended.failed == {bad.id: "broken"}
    assert told == [(bad, "broken")]
    assert ended.done == {good.id}
    assert "b after" not in engine.begun


def test_a_job_that_fails_once_is_done_in_the_end():
    one = job("a 1")
    ended = run_jobs([one], Instant(flaky=["a 1"]))
    assert ended.done == {one.id}
    assert not ended.failed


@pytest.mark.parametrize("seed", range(3))
def test_the_way_is_the_longest_chain(seed):
    jobs = random_graph(seed, 12)
    after = {each.id: [o for o in jobs if each.id in o.needs] for each in jobs}

    def longest(one):  # by plain recursion
        return one.seconds + max((longest(o) for o in after[one.id]), default=0.0)

    found = ways(jobs)
    assert all(abs(found[each.id] - longest(each)) < 1e-9 for each in jobs)


def test_the_expected_time_lies_between_its_limits_and_is_exact_where_there_is_one_way():
    jobs = random_graph(0)
    work = sum(each.seconds for each in jobs)
    assert makespan(jobs, 1) == pytest.approx(work)
    for slots in (2, 4, 100):
        found = makespan(jobs, slots)
        assert max(work / slots, max(ways(jobs).values())) <= found + 1e-9
        assert found <= work
    assert makespan(jobs, 100) == pytest.approx(max(ways(jobs).values()))
    assert makespan(jobs, 2, done=[each.id for each in jobs]) == 0


def test_ten_thousand_jobs_are_scheduled_in_order_of_their_way():
    jobs = [job(f"j {index}", seconds=float(index)) for index in range(10_000)]
    engine = Instant(slots=1)
    run_jobs(jobs, engine)
    assert engine.begun == [each.label for each in reversed(jobs)]
    assert len(list(itertools.chain(engine.begun))) == 10_000
