"""What a study costs on few and many machines, from a simulation of its job graph.

``python benchmarks/scale.py studies/paper.toml`` schedules the jobs as the engines do, with the
expected seconds of each (`tightrope.studies.costs`), and prints wall time, how busy the cores are,
and what bounds it. With ``--out DIR`` of a study that has begun, what its jobs took corrects
the expectations.
"""

import argparse
from pathlib import Path

from tightrope.studies.board import corrected, duration, size
from tightrope.studies.folder import Folder
from tightrope.studies.graph import build_graph
from tightrope.studies.schedule import makespan, ways
from tightrope.studies.spec import load_study

CORES = 2  # of each machine


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("spec", type=Path)
    parser.add_argument("--machines", type=int, nargs="+", default=[1, 16, 256])
    parser.add_argument("--out", type=Path)
    given = parser.parse_args()
    study = load_study(given.spec)
    graph = build_graph(study, given.spec.parent)
    took = Folder(given.out).done(graph.jobs) if given.out else {}
    jobs = corrected(graph.jobs, took)
    work, longest = sum(job.seconds for job in jobs), max(ways(jobs).values())
    print(f"{study.name}: {len(jobs)} jobs, {duration(work)} of one core, "
          f"{size(sum(job.size for job in jobs))}; longest chain {duration(longest)}")  # fmt: skip
    for stage in dict.fromkeys(job.stage for job in jobs):
        own = [job for job in jobs if job.stage == stage]
        seconds, disk = sum(job.seconds for job in own), sum(job.size for job in own)
        print(f"  {stage}: {len(own)} jobs, {seconds / 3600:.1f} core hours, {size(disk)}, "
              f"longest {duration(max(job.seconds for job in own))}")  # fmt: skip
    print("| machines | cores | wall time | cores busy | bound by |")
    print("|---|---|---|---|---|")
    for machines in given.machines:
        slots = CORES * machines
        wall = makespan(jobs, slots)
        bound = "the longest chain" if wall < 1.05 * longest else "cores"
        busy = work / slots / wall
        print(f"| {machines} | {slots} | {duration(wall)} | {busy:.0%} | {bound} |")


if __name__ == "__main__":
    main()
