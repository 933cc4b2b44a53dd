"""A small study of policies of one's own, with short fits; figures have tests of their own."""

from pathlib import Path

import pytest

from tightrope.studies import results
from tightrope.studies.config import study_from

SMALL = {
    "name": "small",
    "test_episodes": 3,
    "updates": 20,
    "width": 16,
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
    monkeypatch.setattr(results, "draw_figures", lambda table: {})
    for name in ("one", "two"):
        (tmp_path / "mine" / name).mkdir(parents=True)
        trained(tmp_path / "mine" / name)
    return lambda **changes: study_from({**SMALL, **changes})


@pytest.fixture
def write_run(trained):
    """A function that writes a run with three levels, as train leaves it."""

    def write(folder: Path, seed=0):
        text = (
            f'{{"agent": "sac", "seed": {seed}, "environment": {{"id": "Pendulum-v1"}}, '
            '"levels": {"starter": 1, "intermediate": 2, "expert": 3}}'
        )
        for level in ("starter", "intermediate", "expert"):
            (folder / level).mkdir(parents=True)
            trained(folder / level)
        (folder / "run.json").write_text(text)
        (folder / "replay-buffer.npz").touch()

    return write
