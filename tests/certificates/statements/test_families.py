"""Which statements there are, and how they share the failure probability: in exact fractions."""

from dataclasses import replace
from fractions import Fraction

import pytest
from constructed import certificate, made_up, recorded

from tightrope.certificates import Options, Property, settle
from tightrope.certificates.ledger import STEPS
from tightrope.certificates.properties import measure_properties, properties_of
from tightrope.certificates.statements import FAMILIES, families_for, family_of, ledger_for
from tightrope.errors import InputError
from tightrope.rollouts import policy_source

RECORDED = recorded(made_up()[0], success=[True, False] * 15)
BARE = recorded(made_up()[0])


def ledger_of(source=BARE, recording=BARE, properties=None, **options):
    options, own = Options(**{"seed": 1, **options}), properties_of(properties)
    settings = settle(options, source, properties=own)
    found = families_for(settings, recording)
    return found, ledger_for(settings, found)


def joint(ledger):
    return {e.statement: Fraction(e.share) for e in ledger.entries if e.budget == "joint"}


def alone(ledger):
    return [(e.statement, e.budget, e.share) for e in ledger.entries if e.budget != "joint"]


def parts(share, *names):
    """A share in equal parts."""
    return dict.fromkeys(names, Fraction(*share) / len(names))


FIXED = {**parts((1, 2), "tolerance"), **parts((1, 5), "band", "monitor")}
RETURNS = ("discounted return", "undiscounted return")
EXPECTED = tuple(f"expected {name}" for name in RETURNS)
ENDS, EVERY = ("early termination",), Fraction(1)
PROPERTIES = {"a": Property(len, limit=1.0), "b": len}
# options; the returns, which divide 3/20, and the events, which do, too
CASES = {
    "default": ({}, RETURNS, ENDS),
    "undiscounted": ({"gamma": 1.0}, RETURNS[1:], ENDS),
    "a floor": ({"return_floor": -99.0}, (*RETURNS, EXPECTED[1]), ENDS),
    "two floors": (
        {"return_floor": -99.0, "discounted_floor": -99.0}, (*RETURNS, *EXPECTED), ENDS
    ),
    "success": ({"termination": "success"}, RETURNS, ("success",)),
    "recorded": (
        {"recording": RECORDED, "fail_below": 3.0}, RETURNS, (*ENDS, "success", "low return")
    ),
    "properties": ({"properties": PROPERTIES}, RETURNS, ENDS),
}  # fmt: skip


@pytest.mark.parametrize("candidates", [1, 7])
@pytest.mark.parametrize(("given", "returns", "events"), CASES.values(), ids=CASES)
def test_shares_of_the_joint_failure_probability_are_exactly_those_of_the_design(
    given, returns, events, candidates
):
    """Instances of a kind divide its share; the best of K costs every statement a K-th."""
    expected = {**FIXED, **parts((3, 20), *returns), **parts((3, 20), *events)}
    if "properties" in given:  # they divide a fifth, the others keep four fifths of theirs
        expected = {name: Fraction(4, 5) * share for name, share in expected.items()}
        own = ("property: a", "property limit: a", "property: b")
        expected |= parts((1, 5), *own)
    _, ledger = ledger_of(**given, candidates=candidates)
    assert {entry.source for entry in ledger.entries} == {"both"}
    assert joint(ledger) == {name: share / candidates for name, share in expected.items()}
    assert sum(joint(ledger).values()) == Fraction(1, candidates)
    assert alone(ledger) == [(STEPS, STEPS, str(Fraction(1, candidates)))]
    both = Fraction(0.025) + Fraction(0.01)
    assert Fraction(ledger.failure(STEPS)) <= both / candidates
    spent = sum(Fraction(ledger.failure(name)) for name in joint(ledger))
    assert both / candidates * (1 - Fraction(1, 10**12)) <= spent <= both / candidates
    # whichever is chosen, the confidence is the one of the default
    assert ledger.joint_confidence == pytest.approx(0.965, abs=1e-15)
    for name in (*expected, STEPS):
        own = float(both * expected.get(name, EVERY))
        assert ledger.confidence_in(name) == pytest.approx(1 - own, abs=1e-12)


def test_the_shares_of_the_kinds_add_up_to_one():
    """The first five hold jointly; the last two are those of a search, which has no other."""
    shares = list(FAMILIES.values())
    assert sum(shares[:5]) == sum(shares[5:]) == 1


@pytest.mark.parametrize(
    ("unit", "expected", "outside"),
    [
        ("episode", {"mean over episodes": Fraction(3, 4), "large errors": Fraction(1, 4)}, []),
        ("step", {"large errors": Fraction(1)}, [STEPS]),
    ],
)
def test_a_search_states_its_mean_and_the_share_of_large_errors_alone(unit, expected, outside):
    """No level, band or monitor: (T.1) holds for a number of episodes fixed beforehand."""
    source = policy_source(lambda observation: [0.0], "Pendulum-v1")
    found, ledger = ledger_of(source, until="rms<=20", unit=unit)
    assert [(f.name, f.unit) for f in found] == [
        (f"mean over {unit}s", unit), ("large errors", "episode")
    ]  # fmt: skip
    assert joint(ledger) == expected
    assert [name for name, *_ in alone(ledger)] == outside


def test_in_scheme_holdout_every_statement_has_everything_of_its_own():
    found, ledger = ledger_of(scheme="holdout", properties={"a": len})
    names = ("mean over episodes", "mean over steps", "monitor", *RETURNS[::-1], *ENDS)
    assert [family.name for family in found] == [*names, "property: a"]
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
        for other in (s for s in best.statements if (s.name, s.share) == (one.name, one.share)):
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
    names = [family.name for family in own]
    assert set(names) == {s.name for s in found.statements}
    assert len(set(names)) == len(names)
    for s in found.statements:
        family = family_of(s, own)
        assert (family.name, family.kind, family.target) == (s.name, s.kind, s.target)
        entry = next(e for e in found.ledger if e.statement == family.budget)
        assert s.confidence == pytest.approx(1 - entry.failure)


BETS = {"bets": [0.5], "weights": [1.0]}
WRONG = {  # of each kind of statement, what no honest certificate has chosen
    "band": [{}, {"profile": []}, {"profile": "wide"}, {"profile": [1.0], "top": 1.0}],
    "monitor": [
        {"widths": [1.0]},
        *({"window": window, "widths": [1.0]} for window in (0, 2.5, "3", True)),
        *({"window": 3, "widths": widths} for widths in ([], None)),
    ],
    "mean over steps": [
        {"bets": [0.5], "weights": []}, {"bets": 0.5, "weights": 0.5}, {"bets": [0.5]},
        {"bets": [0.5] * 1001, "weights": [1e-4] * 1001}, {**BETS, "bet": 0.5},
    ],
    "tolerance": [BETS, {"top": 1.0}],
    "early termination": [BETS],
    "undiscounted return": [{"top": [1.0]}, BETS],
}  # fmt: skip


def test_a_stored_choice_that_no_family_makes_is_refused():
    """A wide profile would make a narrow band of any errors."""
    found = certificate(recorded(*made_up(episodes=80)))
    for name, choices in WRONG.items():
        statement = found.statement(name)
        for chosen in choices:
            with pytest.raises(InputError, match="other entries in what was chosen") as error:
                replace(statement, chosen=chosen)
            assert "\n" not in str(error.value)
