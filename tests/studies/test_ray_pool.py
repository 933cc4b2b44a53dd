"""The Ray pool on a real cluster of two nodes on this machine: the local pool's numbers."""

import os
import socket
import warnings
from functools import partial

import pandas as pd
import pytest
from trivial_jobs import job, result
from waiting import wait_until

from tightrope.errors import InputError
from tightrope.studies.jobs import JobError
from tightrope.studies.local_pool import LocalPool
from tightrope.studies.ray_pool import RayPool
from tightrope.studies.runner import run_study
from tightrope.studies.scheduler import run_jobs

pytest.importorskip("ray")


@pytest.fixture(scope="module")
def cluster(import_path):
    """A head and a node with one core each."""
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


@pytest.fixture
def pool(cluster, tmp_path):
    (tmp_path / "jobs").mkdir()
    made = RayPool(tmp_path / "jobs", cluster.address)
    yield made
    made.shutdown()


def test_jobs_that_are_refused_or_killed_cost_only_themselves(pool, tmp_path):
    assert pool.slots == 2
    first, second = job("a 1", value=3), job("a 2", value=4)
    last = job("b 1", value=10, needs=(first, second), function="add_one_thread")
    bad = job("a bad", function="refuse")
    dying = job("a dying", function="die_once", mark=str(tmp_path / "mark"))
    ended = run_jobs([first, second, last, bad, dying], pool)
    assert ended.failed == {bad.id: "expected something else, found this"}
    assert result(pool.folder, last) == 17
    assert result(pool.folder, dying) == 1


def test_a_study_on_a_cluster_that_loses_a_node_ends_with_the_local_pools_numbers(
    cluster, small, tmp_path
):
    study = small(certify=[{"schemes": ["rec-2"], "repetitions": 1, "episodes": [6]}])
    local = run_study(study, tmp_path / "local", executor=partial(LocalPool, workers=1))
    doomed = cluster.add_node(num_cpus=1)
    cluster.wait_for_nodes()
    lost = []

    class Losing(RayPool):
        """Kills a node as soon as something has been rolled out."""

        def submit(self, one):
            if one.stage == "certify" and not lost:
                lost.append(one)
                cluster.remove_node(doomed, allow_graceful=False)
            return super().submit(one)

    far = run_study(study, tmp_path / "far", executor=lambda f: Losing(f, cluster.address))
    assert lost
    assert not far.failed
    assert len(far.results.table) == len(local.results.table) == 2
    tables = [pd.read_csv(tmp_path / name / "results/table.csv") for name in ("local", "far")]
    pd.testing.assert_frame_equal(*tables)


def test_a_node_that_does_not_see_the_folder_says_so_in_one_line(pool):
    """Another folder of that name on its own disk is not it."""
    (pool.folder / ".shared").write_text("another")
    with pytest.raises(
        JobError, match=r"expected the study's folder .* a disk that all nodes share"
    ):
        pool.submit(job("a 1")).result()
    assert not (pool.folder / job("a 1").id).exists()


def test_shutdown_cancels_what_runs(pool, tmp_path):
    mark = tmp_path / "mark"
    held = job("a held", function="hold", mark=str(mark), go=str(tmp_path / "never"))
    pool.submit(held)
    wait_until(lambda: mark.exists() and mark.read_text())
    pool.shutdown()
    wait_until(lambda: not os.path.exists(f"/proc/{mark.read_text()}"))
    assert not (pool.folder / held.id).exists()


def test_what_is_no_address_or_does_not_answer_is_refused(tmp_path):
    with socket.socket() as taken:  # a port that nobody listens at
        taken.bind(("127.0.0.1", 0))
        silent = f"127.0.0.1:{taken.getsockname()[1]}"
        with pytest.raises(InputError, match="found none that answers"):
            RayPool(tmp_path, silent)
    for address in ("nowhere", "host:", ":6379", "host:port"):
        with pytest.raises(InputError, match="such as"):
            RayPool(tmp_path, address)
