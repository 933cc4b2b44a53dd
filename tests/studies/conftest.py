"""A small study of policies of one's own, with short fits; figures have tests of their own."""

import pytest

from tightrope.studies import graph, results
from tightrope.studies.spec import study_from

SMALL = {
    "name": "small",
    "test_episodes": 3,
    "policies": [{"folder": "mine"}],
    "certify": [
        {
            "schemes": ["auto", "nonrec-inf", "rec-2"],
            "repetitions": 2,
            "episodes": [6, 10],
            "options": {"mc_passes": 2, "thin": 20},
        }
    ],
}


@pytest.fixture
def small(tmp_path, trained, monkeypatch):
    """A function from changes to the study; its policies are in the working directory."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(graph, "_WORK", "trivial_jobs")
    monkeypatch.setattr(results, "draw_figures", lambda table: {})
    for name in ("one", "two"):
        (tmp_path / "mine" / name).mkdir(parents=True)
        trained(tmp_path / "mine" / name)

    def make(**changes):
        return study_from({**SMALL, **changes})

    return make
