"""Certificates and a study for the pages of these tests."""

import dataclasses

import pytest
from constructed import certificate as constructed
from constructed import made_up, recorded
from pages import HOSTILE
from recordings import certified, recording
from study_folders import study_folder
from study_tables import study_table

from tightrope.studies.certificate_records import read_table
from tightrope.studies.results import analyse


@pytest.fixture(scope="session")
def certificate():
    """A good predictor; half of the episodes terminate, 20 are for test."""
    rewards, errors = made_up(episodes=120, scale=0.5, shortest=4)
    episodes = recorded(rewards, errors, terminated=[True, False] * 60, gamma=0.5)
    return constructed(episodes, thin=3, gamma=0.5, test_episodes=20)


@pytest.fixture(scope="session")
def recursive():
    return certified(recording(60, seed=1), scheme="rec-2", pilot_episodes=4, test_episodes=5,
                     mc_passes=2, thin=2, seed=0)  # fmt: skip


@pytest.fixture(scope="session")
def hostile(certificate):
    """Names that a stranger chose, wherever a certificate shows some."""
    return dataclasses.replace(
        certificate,
        subject={
            "policy": {"name": HOSTILE, "digest": HOSTILE, "actions": HOSTILE},
            "environment": {"id": f"</pre>{HOSTILE}"},
            "versions": {HOSTILE: HOSTILE},
            HOSTILE: [HOSTILE],
        },
        assumptions=(*certificate.assumptions, f"</ul>{HOSTILE}"),
    )


@pytest.fixture(scope="session")
def study(tmp_path_factory):
    """The folder of a study with 72 certificates of planted numbers, and its results."""
    table = study_table(
        environments=("Hopper-v4",),
        levels=("starter", "expert"),
        schemes=("nonrec-inf", "rec-2"),
        presets=("paper", "tight"),
        repetitions=2,
        episodes=(50, 100),
    )
    keep = (table["preset"] == "paper") | (table["episodes"] == 100)
    folder = study_folder(tmp_path_factory.mktemp("study") / "synthetic", table[keep])
    return folder, analyse(read_table(folder))
