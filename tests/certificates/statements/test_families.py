"""Which statements there are, and how they share the failure probability: in exact fractions."""

from fractions import Fraction

import pytest
from constructed import certificate, made_up, recorded

from tightrope.certificates import Options, Property, settle
from tightrope.certificates.ledger import STEPS
from tightrope.certificates.properties import measure_properties, properties_of
from tightrope.certificates.statements import (
    FAMILIES,
    families_for,
    family_of,
    ledger_for,
)
from tightrope.certificates.statements.base import Statement
from tightrope.certificates.statements.mean_risk import LargeError, MeanRisk
from tightrope.rollouts import policy_source

RECORDED = recorded(made_up()[0], success=[True, False] * 15)
BARE = recorded(made_up()[0])


def families(recording=BARE, properties=None, **options):
    options, own = Options.of({"seed": 1, **options}), properties_of(properties)
    settings = settle(options, recording, properties=own)
    return families_for(settings, recording), settings


def shares(*arguments, **options):
    found, settings = families(*arguments, **options)
    ledger = ledger_for(settings, found)
    assert {entry.source for entry in ledger.entries} == {"both"}
    return joint(ledger), ledger


def joint(ledger):
    return {e.statement: Fraction(e.share) for e in ledger.entries if e.budget == "joint"}


def alone(ledger):
    return [(e.statement, e.budget, e.share) for e in ledger.entries if e.budget != "joint"]


DEFAULT = {
    "tolerance": Fraction(1, 2),
    "band": Fraction(1, 10),
    "monitor": Fraction(1, 10),
    "discounted return": Fraction(3, 40),
    "undiscounted return": Fraction(3, 40),
    "early termination": Fraction(3, 20),
}
CASES = {
    "default": ({}, DEFAULT),
    "undiscounted": (
        {"gamma": 1.0},
        {n: s for n, s in DEFAULT.items() if n != "discounted return"}
        | {"undiscounted return": Fraction(3, 20)},
    ),
    "a floor": (
        {"return_floor": -99.0},
        DEFAULT
        | dict.fromkeys(
            ("discounted return", "undiscounted return", "expected undiscounted return"),
            Fraction(1, 20),
        ),
    ),
    "two floors": (
        {"return_floor": -99.0, "discounted_floor": -99.0},
        DEFAULT
        | {
            f"{expected}{kind}discounted return": Fraction(3, 80)
            for expected in ("", "expected ")
            for kind in ("", "un")
        },
    ),
    "success": (
        {"termination": "success"},
        {n: s for n, s in DEFAULT.items() if n != "early termination"}
        | {"success": Fraction(3, 20)},
    ),
    "recorded success": (
        {"recording": RECORDED, "fail_below": 3.0},
        DEFAULT | dict.fromkeys(("early termination", "success", "low return"), Fraction(1, 20)),
    ),
    "properties": (
        {"properties": {"a": Property(len, limit=1.0), "b": len}},
        {name: Fraction(4, 5) * share for name, share in DEFAULT.items()}
        | dict.fromkeys(("property: a", "property limit: a", "property: b"), Fraction(1, 15)),
    ),
    "one property": (
        {"properties": {"a": len}},
        {name: Fraction(4, 5) * share for name, share in DEFAULT.items()}
        | {"property: a": Fraction(1, 5)},
    ),
}


@pytest.mark.parametrize("candidates", [1, 7])
@pytest.mark.parametrize(("given", "expected"), CASES.values(), ids=CASES)
def test_shares_of_the_joint_failure_probability_are_exactly_those_of_the_design(
    given, expected, candidates
):
    """Instances of a kind divide its share; the best of K costs every statement a K-th."""
    given = dict(given)
    arguments = (given.pop("recording", BARE), given.pop("properties", None))
    found, ledger = shares(*arguments, **given, candidates=candidates)
    assert found == {name: share / candidates for name, share in expected.items()}
    assert sum(found.values()) == Fraction(1, candidates)
    assert alone(ledger) == [(STEPS, STEPS, str(Fraction(1, candidates)))]
    both = Fraction(0.025) + Fraction(0.01)
    assert Fraction(ledger.failure(STEPS)) <= both / candidates
    spent = sum(Fraction(ledger.failure(name)) for name in found)
    assert both / candidates * (1 - Fraction(1, 10**12)) <= spent <= both / candidates
    # whichever is chosen, the confidence is the one of the default
    assert ledger.confidence_of({"joint"}) == pytest.approx(0.965, abs=1e-15)
    for name in (*found, STEPS):
        own = float(both * Fraction(expected.get(name, 1)))
        assert ledger.confidence_in(name) == pytest.approx(1 - own, abs=1e-12)


def test_the_shares_of_the_kinds_add_up_to_one():
    assert {kind.__name__: share for kind, share in FAMILIES.items()} == {
        "Tolerance": Fraction(1, 2),
        "Return": Fraction(3, 20),
        "Event": Fraction(3, 20),
        "Band": Fraction(1, 10),
        "MonitorThreshold": Fraction(1, 10),
        "LargeError": Fraction(1, 4),
        "MeanRisk": Fraction(3, 4),
    }
    assert sum(FAMILIES.values()) == 2  # the last two are those of a search, which has no other


@pytest.mark.parametrize(
    ("options", "expected", "outside"),
    [
        ({}, {"mean over episodes": Fraction(3, 4), "large errors": Fraction(1, 4)}, []),
        ({"unit": "step"}, {"large errors": Fraction(1)}, [STEPS]),
    ],
)
def test_a_search_states_its_mean_and_the_share_of_large_errors_alone(options, expected, outside):
    """No level, band or monitor: (T.1) holds for a number of episodes fixed beforehand."""
    source = policy_source(lambda observation: [0.0], "Pendulum-v1")
    settings = settle(Options.of({"until": "rms<=20", "seed": 1, **options}), source)
    found = families_for(settings, BARE)
    assert [type(family) for family in found] == [MeanRisk, LargeError]
    assert (found[0].unit, found[1].unit) == (settings.unit, "episode")
    ledger = ledger_for(settings, found)
    assert joint(ledger) == expected
    assert [name for name, *_ in alone(ledger)] == outside


def test_in_scheme_holdout_every_statement_has_everything_of_its_own():
    found, settings = families(scheme="holdout", properties={"a": len})
    ledger = ledger_for(settings, found)
    assert [family.name for family in found] == [
        "mean over episodes",
        "mean over steps",
        "monitor",
        "undiscounted return",
        "discounted return",
        "early termination",
        "property: a",
    ]
    assert alone(ledger) == [(family.name, family.name, "1") for family in found]


@pytest.mark.parametrize("candidates", [1, 4])
@pytest.mark.parametrize("properties", [None, {"length": Property(lambda e: len(e.rewards))}])
def test_what_holds_at_once_needs_independent_episodes_only(candidates, properties):
    """SPEC 12.9, in a whole certificate: its confidence, and who stands outside."""
    rewards, errors = made_up(episodes=120)
    own = properties_of(properties)
    episodes = measure_properties(recorded(rewards, errors), own)
    found = certificate(episodes, properties=own, candidates=candidates)
    assert found.joint_confidence == pytest.approx(0.965, abs=1e-12)
    for statement in found.statements:
        steps = statement.unit == "step"
        assert (statement.joint_confidence is None) is steps
        assert statement.assumes == ("independent steps" if steps else "independent episodes")
        if not steps:
            assert statement.joint_confidence == found.joint_confidence < statement.confidence
    total = sum(Fraction(e.failure) for e in found.ledger if e.budget == "joint")
    assert float(candidates * total) == pytest.approx(0.035, rel=1e-12)
    assert candidates * total <= Fraction(0.025) + Fraction(0.01)
    assert [entry.statement for entry in found.ledger if entry.budget != "joint"] == [STEPS]


def test_the_best_of_several_is_looser_in_every_statement():
    rewards, errors = made_up(episodes=200)
    alone, best = (certificate(recorded(rewards, errors), candidates=k) for k in (1, 5))
    loosened = 0
    for one in alone.statements:
        others = [s for s in best.statements if (s.name, s.share) == (one.name, one.share)]
        for other in others:
            assert other.confidence == pytest.approx(one.confidence, abs=1e-12)
            sign = 1 if one.direction == "at-most" else -1
            assert sign * other.limit >= sign * one.limit
            loosened += other.limit != one.limit
    assert loosened >= 6
    # the largest score of the levels covers less
    assert best.statements[best.headline].share < alone.statements[alone.headline].share


def test_every_statement_finds_its_family_and_its_budget():
    rewards, errors = made_up(episodes=80)
    episodes = recorded(rewards, errors, success=[True, False] * 40)
    found = certificate(episodes, fail_below=3.0, return_floor=-99.0)
    own = families_for(found.settings, episodes)
    assert len({family.name for family in own}) == len(own)
    for statement in found.statements:
        family = family_of(statement, own)
        assert (family.name, family.kind, family.target) == (
            statement.name, statement.kind, statement.target
        )  # fmt: skip
        assert isinstance(statement, Statement)
        entry = next(e for e in found.ledger if e.statement == family.budget)
        assert statement.confidence == pytest.approx(1 - entry.failure)
    names = [s.name for s in found.statements]
    assert set(names) == {family.name for family in own}
