"""Sixty digits for whatever mpmath computes, and random numbers."""

import mpmath as mp
import numpy as np
import pytest


@pytest.fixture
def rng():
    return np.random.default_rng(20250105)


@pytest.fixture(autouse=True)
def sixty_digits():
    with mp.workdps(60):
        yield
