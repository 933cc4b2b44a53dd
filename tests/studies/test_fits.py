"""Certificates of a study share fits, and are those that each would be alone."""

import numpy as np
import pytest

from tightrope import posteriors
from tightrope.audit.generators import SYNTHETIC, TASKS
from tightrope.certificates import Options, as_text, settle, to_document
from tightrope.certificates.certify import issue
from tightrope.posteriors import PRESETS, Scaling
from tightrope.studies.tasks import remembered, shared_fits

TRAINING = Scaling(-2.0, 2.0, "training", np.zeros(2, np.float32), np.ones(2, np.float32))


@pytest.fixture(scope="module")
def episodes():
    return TASKS["correlated"].record(20, np.random.default_rng(0))


def certificate(episodes, scheme, preset, *, training=None, fit=None, **options):
    """Of twelve of the episodes, the first two of them pilots where the scheme has any."""
    given = {"gamma": 0.0, "thin": 1, "time_limit": 40, "mc_passes": 2, "seed": 3, **options}
    pilots = {} if scheme in ("auto", "holdout") else {"pilot_episodes": 2}
    if training is not None and preset == "paper":
        pilots = {}
    asked = Options(**{**given, "scheme": scheme, "episodes": 12, "test_episodes": 4, **pilots})
    short = PRESETS[preset].shortened(updates=10, width=6)
    settings = settle(asked, SYNTHETIC, preset=short, training=training)
    keywords = {} if fit is None else {"fit": fit}
    return issue(episodes, settings, options=asked, training=training, **keywords)


REQUESTS = [
    *(("auto", preset, {"unit": unit}) for preset in PRESETS for unit in ("episode", "step")),
    *(("holdout", "tight", {"seed": seed}) for seed in (3, 4)),
    *(
        (name, preset, {})
        for name in ("nonrec-noninf", "nonrec-inf", "rec-6")
        for preset in PRESETS
    ),
    *(("rec-2", "paper", {"unit": unit}) for unit in ("step", "episode")),
    ("rec-2", "paper", {"sampling": "weights"}),
    ("rec-2", "tight", {"kappa": 0.3}),
    ("rec-2", "tight", {"delta": 0.1}),
    ("nonrec-inf", "paper", {"training": TRAINING}),
    ("rec-2", "paper", {"training": TRAINING}),
]


def test_a_certificate_made_beside_others_is_the_one_made_alone_byte_for_byte(episodes):
    shared = shared_fits()
    for scheme, preset, options in REQUESTS:
        beside = certificate(episodes, scheme, preset, fit=shared, **options)
        alone = certificate(episodes, scheme, preset, **options)
        documents = [as_text(to_document(each)) for each in (beside, alone)]
        assert documents[0] == documents[1], (scheme, preset, options)


@pytest.mark.parametrize(
    ("preset", "training", "schemes", "regressions", "fitted"),
    [
        ("paper", TRAINING, ("nonrec-inf", "rec-2"), 0, 3),  # the same first half
        ("paper", TRAINING, ("rec-2", "nonrec-inf", "rec-2"), 0, 3),
        ("tight", None, ("nonrec-noninf", "rec-2", "rec-6"), 1, 1 + 2 + 6),  # the pilot's prior
        ("tight", None, ("auto", "holdout"), 1, 0),
        ("tight", None, ("auto", "nonrec-inf"), 2, 1),  # other fitting sets
    ],
)
def test_fits_of_the_same_content_are_made_once(
    episodes, monkeypatch, preset, training, schemes, regressions, fitted
):
    made = []
    for name in ("regress", "fit_posterior"):
        monkeypatch.setattr(posteriors, name, _counted(getattr(posteriors, name), made))
    shared = shared_fits()
    for scheme in schemes:
        certificate(episodes, scheme, preset, training=training, fit=shared, unit="step")
    assert (made.count("regress"), made.count("fit_posterior")) == (regressions, fitted)


def _counted(function, made):
    def counted(*arguments, **options):
        made.append(function.__name__)
        return function(*arguments, **options)

    return counted


def test_progress_is_no_part_of_the_content_and_every_option_is():
    calls = []
    fit = remembered(lambda *arguments, **options: calls.append(arguments) or len(calls))
    assert fit(1, seed=2, advance=print) == fit(1, advance=repr, seed=2) == fit(1, seed=2) == 1
    assert [fit(1, seed=3), fit(2, seed=2), fit(1, seed=2, exact=True)] == [2, 3, 4]
