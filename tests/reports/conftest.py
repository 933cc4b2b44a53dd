"""One certificate with test episodes, for the pages and figures of these tests."""

import dataclasses

import pytest
from recordings import recording, short_fits

from tightrope.certificates import certify


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
