"""Schemes: how whole episodes are divided, against brute force."""

import itertools
from fractions import Fraction

import pytest

from tightrope.certificates import Options
from tightrope.certificates.options import portion_sizes, scheme
from tightrope.errors import InputError


@pytest.mark.parametrize(
    ("name", "kind", "sizes"),
    [
        ("auto", "auto", [25, 75]),
        ("holdout", "holdout", [25, 75]),
        ("nonrec-noninf", "recursive", [100]),
        ("nonrec-inf", "informed", [50, 50]),
        ("rec-1", "recursive", [100]),
        ("rec-2", "recursive", [50, 50]),
        ("rec-3", "recursive", [25, 25, 50]),
        ("rec-6", "recursive", [3, 4, 6, 12, 25, 50]),
        ("10,20,70", "recursive", [10, 20, 70]),
        ("1,1", "recursive", [50, 50]),
        ("1,3", "recursive", [25, 75]),
    ],
)
def test_a_hundred_episodes_are_divided_as_the_paper_or_the_user_says(name, kind, sizes):
    """A fixed predictor is fitted to so many episodes; the other schemes divide by themselves."""
    found = scheme(name)
    assert (found.name, found.kind) == (name, kind)
    assert found.sizes(100, 25) == sizes
    assert found.fixed is (kind in ("auto", "holdout"))
    assert found.reproducible_prior is (kind == "recursive")


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


@pytest.mark.parametrize(
    ("name", "needed"), [("rec-6", 6), ("rec-2", 2), ("nonrec-inf", 2), ("1,1,1", 3)]
)
def test_fewer_episodes_than_portions_are_refused_with_the_number_needed(name, needed):
    words = f"at least {needed} validation episodes for {name}, found {needed - 1}: record more"
    with pytest.raises(InputError, match=words) as error:
        scheme(name).sizes(needed - 1, 0)
    assert "\n" not in str(error.value)
    assert scheme(name).sizes(needed, 0) == [1] * needed


@pytest.mark.parametrize("name", ["auto", "holdout"])
@pytest.mark.parametrize(("episodes", "fit"), [(10, 0), (10, 10), (10, 11), (1, 1)])
def test_a_fixed_predictor_needs_episodes_on_either_side(name, episodes, fit):
    words = f"`fit_episodes` of at least 1 and below {episodes} episodes in all, found {fit}"
    with pytest.raises(InputError, match=words):
        scheme(name).sizes(episodes, fit)
    assert scheme(name).sizes(10, 9) == [9, 1]


@pytest.mark.parametrize(
    "name",
    [
        *("", "rec", "rec-", "rec-0", "rec-01", "rec-100", "rec-2.5", "rec--2", "Rec-2", "rec-6 "),
        *("nonrec", "Auto", "100", "10,", ",10", "10,0", "10,-5", "10;20", "10, 20", "1e2,3"),
        *("rec-21", "rec-\uff12", "1\u0662,3"),  # too deep; digits of other scripts
        "sequential",
    ],
)
def test_an_unknown_scheme_is_refused_with_the_known(name):
    with pytest.raises(
        InputError, match="auto, nonrec-noninf, nonrec-inf, holdout, rec-T"
    ) as error:
        Options(scheme=name)
    assert f"found {name!r}" in str(error.value)
    assert "\n" not in str(error.value)
    # what holds at every number of episodes comes with a target alone
    assert ("give `until`" in str(error.value)) is (name == "sequential")


@pytest.mark.parametrize("value", [None, 3, ["rec-2"], 2.5])
def test_a_scheme_that_is_no_name_is_refused_too(value):
    with pytest.raises(InputError, match="`scheme` must be a text"):
        Options(scheme=value)
