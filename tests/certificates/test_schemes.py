"""Schemes: how whole episodes are divided, against brute force."""

import itertools
from fractions import Fraction

import pytest

from tightrope.certificates import Options, portion_sizes, scheme
from tightrope.errors import InputError


@pytest.mark.parametrize(
    ("name", "kind", "sizes"),
    [
        ("nonrec-noninf", "recursive", [100]),
        ("nonrec-inf", "informed", [50, 50]),
        ("rec-1", "recursive", [100]),
        ("rec-2", "recursive", [50, 50]),
        ("rec-3", "recursive", [25, 25, 50]),
        ("rec-6", "recursive", [3, 4, 6, 12, 25, 50]),
        ("holdout", "holdout", [50, 50]),
        ("10,20,70", "recursive", [10, 20, 70]),
        ("1,1", "recursive", [50, 50]),
        ("1,3", "recursive", [25, 75]),
    ],
)
def test_a_hundred_episodes_are_divided_as_the_paper_or_the_user_says(name, kind, sizes):
    found = scheme(name)
    assert (found.name, found.kind) == (name, kind)
    assert found.sizes(100) == sizes


def compositions(total, parts):
    """All ways to write `total` as a sum of `parts` positive whole numbers."""
    for cuts in itertools.combinations(range(1, total), parts - 1):
        ends = (0, *cuts, total)
        yield [b - a for a, b in itertools.pairwise(ends)]


def distance(sizes, weights, episodes):
    shares = [Fraction(weight * episodes, sum(weights)) for weight in weights]
    return sum((size - share) ** 2 for size, share in zip(sizes, shares, strict=True))


@pytest.mark.parametrize("weights", [(1, 1), (3, 4, 6, 12, 25, 50), (1, 2, 4), (5, 1, 1), (7, 9)])
def test_no_other_division_is_closer_to_the_proportions(weights):
    """Largest remainders minimise the squared distance from exact shares; so does the code.

    With each portion at least 1, against all divisions there are.
    """
    for episodes in range(len(weights), 20):
        sizes = portion_sizes(weights, episodes)
        assert sum(sizes) == episodes
        assert min(sizes) >= 1
        best = min(distance(s, weights, episodes) for s in compositions(episodes, len(weights)))
        assert distance(sizes, weights, episodes) == best, (weights, episodes, sizes)


def largest_remainder(weights, episodes):
    """The textbook rule, for episodes enough that no portion is empty; ties go to the earlier."""
    total = sum(weights)
    floors = [weight * episodes // total for weight in weights]
    rests = [weight * episodes % total for weight in weights]
    order = sorted(range(len(weights)), key=lambda i: (-rests[i], i))
    for index in order[: episodes - sum(floors)]:
        floors[index] += 1
    return floors


@pytest.mark.parametrize(
    "weights", [(1, 1), (3, 4, 6, 12, 25, 50), (1, 1, 2, 4), (10, 20, 70), (1, 1, 1)]
)
def test_many_episodes_are_divided_by_largest_remainders(weights):
    enough = -(-sum(weights) // min(weights))
    for episodes in range(enough, enough + 250):
        assert portion_sizes(weights, episodes) == largest_remainder(weights, episodes)


def test_few_episodes_by_hand():
    # Shares of 10 episodes in rec-6 are 0.3, 0.4, 0.6, 1.2, 2.5, 5.0; their floors, at least 1, are
    # 1, 1, 1, 1, 2, 5 and add up to 11. One has to go: 5 -> 4 adds 1 to the squared distance,
    # 2 -> 1 adds 1.5^2 - 0.5^2 = 2.
    assert scheme("rec-6").sizes(10) == [1, 1, 1, 1, 2, 4]
    assert scheme("rec-6").sizes(6) == [1, 1, 1, 1, 1, 1]
    assert scheme("rec-2").sizes(7) == [4, 3]


@pytest.mark.parametrize(
    ("name", "episodes", "needed"),
    [("rec-6", 5, 6), ("rec-2", 1, 2), ("holdout", 1, 2), ("nonrec-inf", 1, 2), ("1,1,1", 2, 3)],
)
def test_too_few_episodes_are_an_input_error_with_the_number_needed(name, episodes, needed):
    words = f"at least {needed} validation episodes for {name}, found {episodes}"
    with pytest.raises(InputError, match=words):
        scheme(name).sizes(episodes)
    assert scheme(name).sizes(needed) == [1] * needed


@pytest.mark.parametrize(
    "name",
    [
        *("", "rec", "rec-", "rec-0", "rec-01", "rec-100", "rec-2.5", "rec--2", "Rec-2", "rec-6 "),
        *("nonrec", "auto", "100", "10,", ",10", "10,0", "10,-5", "10;20", "10, 20", "1e2,3"),
    ],
)
def test_an_unknown_scheme_is_an_input_error_that_lists_the_known(name):
    with pytest.raises(InputError, match="nonrec-noninf, nonrec-inf, rec-T") as error:
        scheme(name)
    assert repr(name) in str(error.value)
    with pytest.raises(InputError):
        Options(scheme=name)


# --- options -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"delta": 0.0}, r"delta must be in \(0, 1\)"),
        ({"delta": 1.0}, r"delta must be in \(0, 1\)"),
        ({"delta": float("nan")}, r"delta must be in \(0, 1\)"),
        ({"delta_prime": -0.1}, r"delta_prime must be in \(0, 1\)"),
        ({"delta": 0.6, "delta_prime": 0.4}, r"delta \+ delta_prime must be below 1"),
        ({"unit": "row"}, "a unit among step, episode, found 'row'"),
        ({"preset": "loose"}, "a preset among paper, tight, found 'loose'"),
        ({"sampling": "none"}, "a sampling among local, weights"),
        ({"kappa": 0.0}, r"kappa must be in \(0, 1\]"),
        ({"kappa": 1.1}, r"kappa must be in \(0, 1\]"),
        ({"mc_passes": 0}, "mc_passes must be at least 1"),
        ({"seed": -1}, "seed must be at least 0"),
    ],
)
def test_an_option_outside_its_set_is_an_input_error_that_names_it(changes, words):
    with pytest.raises(InputError, match=words):
        Options(**changes)


AT_ONCE = {
    "gamma": ({"gamma": 1.5}, "gamma"),
    "thin": ({"thin": 0}, "thin"),
    "an empty range": ({"return_range": (2.0, 1.0)}, "range"),
    "too few episodes": ({"episodes": 5}, "6 validation episodes"),
    "a negative number of episodes": ({"test_episodes": -1}, "test"),
    "a threshold that is no number": ({"fail_below": float("nan")}, "fail_below"),
    "an endless threshold": ({"fail_below": float("inf")}, "fail_below"),
}


@pytest.mark.parametrize(("changes", "words"), AT_ONCE.values(), ids=AT_ONCE)
def test_what_options_alone_show_to_be_wrong_is_refused_with_them(changes, words):
    with pytest.raises(InputError, match=words):
        Options(**changes)


def test_the_confidence_of_every_scheme_is_one_minus_both_failure_probabilities():
    for name in ("nonrec-noninf", "nonrec-inf", "rec-2", "rec-6", "holdout", "10,20,70"):
        for sampling in ("local", "weights"):
            ledger = Options(scheme=name, sampling=sampling).ledger()
            assert ledger.confidence == pytest.approx(0.965, abs=1e-15)
            for source in ("delta", "delta_prime"):
                shares = [e.share for e in ledger.entries if e.source == source]
                assert sum(shares) == 1, (name, source)


def test_one_number_of_portions_is_one_number_of_statements():
    for name, portions in (("nonrec-noninf", 1), ("nonrec-inf", 1), ("rec-2", 2), ("rec-6", 6)):
        risks = [e for e in Options(scheme=name).ledger().entries if e.source == "delta"]
        assert len(risks) == portions
