"""What the tests of several verbs share: a folder to work in, and a certificate."""

import shutil
from pathlib import Path

import pytest
from command import POLICY
from recordings import recording, short_fits

from tightrope.certificates.certify import certify
from tightrope.certificates.folder import write
from tightrope.reports import write_page
from tightrope.rollouts import export_arrays


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """An otherwise empty working directory with a log and policies; fits are short in it."""
    monkeypatch.chdir(tmp_path)
    export_arrays(recording(24, seed=1), Path("log.npz"))
    Path("policy.py").write_text(POLICY)
    with short_fits():
        yield tmp_path


@pytest.fixture(scope="session")
def issued(tmp_path_factory):
    """The folder of a certificate of each scheme's kinds, as the command writes it."""
    place = tmp_path_factory.mktemp("issued") / "certificate"
    with short_fits():
        made = certify(recording(24, seed=1), scheme="rec-2", mc_passes=2, pilot_episodes=4, seed=0)
    write(made, place, page=write_page)
    return place


@pytest.fixture
def certificate(issued, tmp_path, monkeypatch):
    """A copy of it to do harm to, in a working directory of its own."""
    monkeypatch.chdir(tmp_path)
    with short_fits():
        yield Path(shutil.copytree(issued, "certificate"))
