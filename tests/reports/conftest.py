"""Certificates of every kind for the pages of these tests, and a real browser to look at them."""

import dataclasses
import json
import shutil

import pytest
from pages import HOSTILE
from recordings import recording, short_fits
from study_folders import study_folder
from study_tables import study_table

from tightrope.certificates.certify import certify
from tightrope.reports import write_study_page


@pytest.fixture(scope="session")
def issue():
    """A function that certifies a small recording with short fits."""

    def made(episodes=None, **options):
        given = {"pilot_episodes": 4, "test_episodes": 5, "mc_passes": 2, "thin": 2, "seed": 0}
        with short_fits():
            return certify(episodes or recording(40, seed=1), **{**given, **options})

    return made


@pytest.fixture(scope="session")
def certificate(issue):
    return dataclasses.replace(issue(), test_error=0.001)  # as if the short fit were a good one


@pytest.fixture(scope="session")
def hostile(certificate):
    """Names that a stranger chose, wherever a certificate shows some."""
    named = dataclasses.replace(
        certificate.statements[0], kind=HOSTILE, quantity=HOSTILE, note=HOSTILE
    )
    return dataclasses.replace(
        certificate,
        subject={
            "policy": {"name": HOSTILE, "digest": HOSTILE, "actions": HOSTILE},
            "environment": {"id": f"</pre>{HOSTILE}"},
            "versions": {HOSTILE: HOSTILE},
            HOSTILE: [HOSTILE],
        },
        assumptions=(*certificate.assumptions, f"</ul>{HOSTILE}"),
        statements=(named, *certificate.statements[1:]),
        headline=0,
    )


@pytest.fixture(scope="session")
def browser():
    """Debian's Chromium, once for all tests; they are skipped where there is none."""
    programs = {name: shutil.which(name) for name in ("chromium", "chromedriver")}
    missing = [name for name, path in programs.items() if path is None]
    if missing:
        pytest.skip("no browser: apt-get install chromium chromium-driver")
    from selenium import webdriver

    options = webdriver.ChromeOptions()
    options.binary_location = programs["chromium"]
    for flag in (
        *("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"),
        *("--disable-background-networking", "--no-first-run", "--hide-scrollbars"),
    ):
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    driver = webdriver.Chrome(
        options=options, service=webdriver.ChromeService(programs["chromedriver"])
    )
    yield driver
    driver.quit()


@pytest.fixture(scope="session")
def study(tmp_path_factory):
    """The folder of a finished study with 48 certificates of planted numbers."""
    table = study_table(
        environments=("Hopper-v4",),
        levels=("starter", "expert"),
        schemes=("nonrec-inf", "rec-2"),
        presets=("paper",),
        repetitions=2,
        episodes=(50, 100),
    )
    return study_folder(tmp_path_factory.mktemp("study") / "synthetic", table)


@pytest.fixture(scope="session")
def hostile_study(tmp_path_factory):
    """The page of a study whose names, and paths of certificates, a stranger chose."""
    table = study_table(
        agents=(HOSTILE,),
        environments=(f"</script>{HOSTILE}",),
        levels=(HOSTILE,),
        schemes=("rec-2",),
        presets=("paper",),
        repetitions=1,
    )
    place = tmp_path_factory.mktemp("hostile")
    (place / "secret.json").write_text("{}")
    folder = study_folder(place / "s", table, name=HOSTILE, about=f"</p>{HOSTILE}", results=False)
    names = ("../../../secret.json", "javascript:alert(1)")
    for job, name in zip(sorted((folder / "jobs").iterdir()), names, strict=False):
        (row,) = json.loads((job / "rows.json").read_text())
        (job / "rows.json").write_text(json.dumps([{**row, "certificate": name}]))
    write_study_page(folder)
    return folder
