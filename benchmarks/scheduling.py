"""What scheduling costs: a study of trivial jobs through the local engine.

``python benchmarks/scheduling.py`` runs 10,000 jobs that write one small file each, in three stages
that need each other, and prints milliseconds per job (wall time times workers), beside the same
work in one loop without any engine, and the memory of the scheduling process along the way.
"""

import argparse
import resource
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

from tightrope.studies.engines import LocalEngine
from tightrope.studies.jobs import Job, run_job
from tightrope.studies.schedule import Progress, run_jobs

_EVERY = 1000  # jobs between two looks at the memory


def trivial(spec, needs, out):
    """Write one number."""
    (out / "number").write_text(str(spec["number"]))


def chains(count):
    """Jobs in chains of three, as train, collect and certify are."""
    jobs = []
    for number in range(count):
        needs = (jobs[-1].id,) if number % 3 else ()
        stage = ("train", "collect", "certify")[number % 3]
        jobs.append(Job(stage, "scheduling:trivial", {"number": number}, needs))
    return jobs


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jobs", type=int, default=10_000)
    parser.add_argument("--workers", type=int, default=2)
    given = parser.parse_args()
    jobs = chains(given.jobs)
    memory = {}

    def watch(progress: Progress) -> None:
        done = len(progress.done) // _EVERY * _EVERY
        memory.setdefault(done, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)

    with tempfile.TemporaryDirectory() as folder:
        engine = LocalEngine(Path(folder) / "jobs", workers=given.workers)
        engine.folder.mkdir()
        first = chains(given.workers)  # start the workers: not a job's cost
        run_jobs(first, engine)
        begun = time.monotonic()
        ended = run_jobs(jobs, engine, done=[job.id for job in first], report=watch)
        engine_seconds = time.monotonic() - begun
        engine.close()
        assert not ended.failed
        begun = time.monotonic()
        for job in jobs:
            run_job(job, Path(folder) / "plain")
        plain_seconds = time.monotonic() - begun
    per_job = 1000 * engine_seconds / given.jobs
    print(f"{given.jobs} jobs, {given.workers} workers")
    print(f"engine: {engine_seconds:.1f} s, {per_job:.2f} ms of wall time per job")
    print(f"plain loop, one process: {1000 * plain_seconds / given.jobs:.2f} ms per job")
    ratio = engine_seconds * given.workers / plain_seconds
    print(f"engine's core time per job is {ratio:.2f} x that of the plain loop")
    for done, megabytes in memory.items():
        print(f"peak memory after {done:>6} jobs: {megabytes:.0f} MB")


if __name__ == "__main__":
    main()
