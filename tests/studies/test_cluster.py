"""The Ray engine on a real cluster of two nodes on this machine: the local engine's numbers."""

import os
import socket
import warnings

import pandas as pd
import pytest
from trivial_jobs import job, result
from waiting import wait_until

from tightrope.errors import InputError
from tightrope.studies.engines.cluster import RayEngine
from tightrope.studies.run import run_study
from tightrope.studies.schedule import run_jobs

pytest.importorskip("ray")


@pytest.fixture(scope="module")
def cluster(import_path):
    """A head without cores of its own for tasks, and a node with one core."""
    before = {name: os.environ.get(name) for name in ("PYTHONPATH", "RAY_USAGE_STATS_ENABLED")}
    os.environ |= {"PYTHONPATH": import_path, "RAY_USAGE_STATS_ENABLED": "0"}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import ray
        from ray.cluster_utils import Cluster

        made = Cluster(initialize_head=True, head_node_args={"num_cpus": 1})
        made.add_node(num_cpus=1)
        made.wait_for_nodes()
        yield made
        ray.shutdown()
        made.shutdown()
    for name, value in before.items():
        os.environ.pop(name) if value is None else os.environ.__setitem__(name, value)


@pytest.fixture(autouse=True)
def quiet():
    """Ray leaves sockets and processes to the garbage collector."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


@pytest.mark.parametrize("shared", [True, False])
def test_jobs_are_done_through_a_shared_folder_or_through_ray(cluster, tmp_path, shared):
    folder = tmp_path / "jobs"
    engine = RayEngine(folder, cluster.address, shared=shared)
    try:
        assert engine.slots == 2
        first, second = job("a 1", value=3), job("a 2", value=4)
        last = job("b 1", value=10, needs=(first, second))
        bad = job("a bad", function="refuse")
        ended = run_jobs([first, second, last, bad], engine)
    finally:
        engine.close()
    assert result(folder, last) == 17
    assert ended.failed == {bad.id: "expected something else, found this"}
    assert sorted(path.name for path in folder.iterdir()) == sorted(
        each.id for each in (first, second, last)
    )


def test_a_study_on_a_cluster_that_loses_a_node_ends_with_the_local_engines_numbers(
    cluster, small, tmp_path
):
    study = small(certify=[{"schemes": ["rec-2"], "repetitions": 2, "episodes": [6]}])
    local = run_study(study, tmp_path / "local", workers=1)
    doomed = cluster.add_node(num_cpus=1)
    cluster.wait_for_nodes()

    class Losing(RayEngine):
        """Kills a node as soon as something has been rolled out."""

        lost = False

        def wait(self, seconds):
            ended = super().wait(seconds)
            if ended and not self.lost:
                self.lost = True
                cluster.remove_node(doomed, allow_graceful=False)
            return ended

    far = run_study(study, tmp_path / "far", engine=lambda f: Losing(f, cluster.address))
    assert not far.failed
    assert len(far.results.table) == len(local.results.table) == 4
    tables = [pd.read_csv(tmp_path / name / "results/table.csv") for name in ("local", "far")]
    pd.testing.assert_frame_equal(*tables)


def test_a_task_whose_process_is_killed_runs_again(cluster, tmp_path):
    engine = RayEngine(tmp_path / "jobs", cluster.address)
    try:
        dying = job("a dying", function="die_once", mark=str(tmp_path / "mark"))
        assert not run_jobs([dying], engine).failed
    finally:
        engine.close()
    assert result(tmp_path / "jobs", dying) == 1


def test_closing_cancels_what_runs(cluster, tmp_path):
    engine = RayEngine(tmp_path / "jobs", cluster.address)
    mark = tmp_path / "mark"
    held = job("a held", function="hold", mark=str(mark), go=str(tmp_path / "go"))
    engine.submit(held)
    wait_until(mark.exists)
    engine.close()
    assert not (tmp_path / "jobs" / held.id).exists()


def test_an_address_that_does_not_answer_is_refused(tmp_path):
    with socket.socket() as taken:  # a port that nobody listens at
        taken.bind(("127.0.0.1", 0))
        with pytest.raises(InputError, match="found none that answers"):
            RayEngine(tmp_path, f"127.0.0.1:{taken.getsockname()[1]}")


@pytest.mark.parametrize("address", ["nowhere", "host:", ":6379", "host:port"])
def test_what_is_no_address_is_refused(tmp_path, address):
    with pytest.raises(InputError, match="such as"):
        RayEngine(tmp_path, address)
