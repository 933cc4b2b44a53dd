"""(T.1) and (T.4) against exact binomial tails, enumeration and plain draws."""

from itertools import product

import mpmath as mp
import numpy as np
import pytest

from tightrope.bounds import (
    episodes_needed,
    joint_tolerance,
    mean_from_tolerance,
    tolerance_rank,
    tolerance_share,
)
from tightrope.bounds.tolerance import _joint_failure

WANTED = [0.5, 0.8, 0.9, 0.95]


def exact_failure(rank, share, n):
    """P(U_(r) < p) = P(at least r of n uniforms are below p)."""
    share = mp.mpf(float(share))
    return mp.fsum(
        mp.binomial(n, k) * share**k * (1 - share) ** (n - k) for k in range(rank, n + 1)
    )


def enumerated_failure(ranks, shares, n):
    """P(U_(r_j) < p_j for some j): every way to put n uniforms into the cells between the p_j."""
    shares = [mp.mpf(float(p)) for p in shares]
    widths = [b - a for a, b in zip([0, *shares], [*shares, 1], strict=True)]
    failed = mp.mpf(0)
    for cells in product(range(len(widths)), repeat=n):
        below = [sum(cell <= j for cell in cells) for j in range(len(shares))]
        if any(count >= rank for count, rank in zip(below, ranks, strict=True)):
            failed += mp.fprod(widths[cell] for cell in cells)
    return failed


def counted_failure(ranks, shares, n):
    """The same from multinomial coefficients at 60 digits, for more uniforms."""
    shares = [mp.mpf(float(p)) for p in shares]
    alive = {0: mp.mpf(1)}  # number below the last share -> n!/(n - k)! times its weight
    before = mp.mpf(0)
    for rank, share in zip(ranks, shares, strict=True):
        following = {}
        for k, weight in alive.items():
            for more in range(rank - k):
                term = weight * (share - before) ** more / mp.factorial(more)
                following[k + more] = following.get(k + more, 0) + term
        alive, before = following, share
    hold = sum(w * (1 - before) ** (n - k) / mp.factorial(n - k) for k, w in alive.items())
    return 1 - mp.factorial(n) * hold


@pytest.mark.parametrize("n", [1, 2, 10, 100, 1000])
def test_the_share_is_the_exact_one_rounded_down(n):
    """(T.1): at the share the binomial tail is at most delta; 1e-8 above it is not."""
    for rank in sorted({1, n // 3 + 1, n - n // 10, n}):
        for delta in (1e-9, 0.025, 0.7):
            share = tolerance_share(rank, n=n, delta=delta)
            assert exact_failure(rank, share, n) <= delta
            assert exact_failure(rank, share * (1 + 1e-8), n) > delta


def test_the_largest_score_has_a_closed_form():
    """delta^(1/n), and 0.9638 for the 100 episodes of the paper."""
    for n in (1, 7, 100, 10**6, 10**15):
        for delta in (1e-300, 0.025, 1 - 2**-53):
            exact = mp.mpf(delta) ** (mp.mpf(1) / n)
            found = mp.mpf(float(tolerance_share(n, n=n, delta=delta)))
            assert 0 <= exact - found < 1e-11 * exact
    assert tolerance_share(100, n=100, delta=0.025) == pytest.approx(0.96378, abs=1e-5)


def test_the_rank_is_the_smallest_that_reaches_the_share():
    """(T.1), by trying every rank; 0 where even the largest score does not reach it."""
    for n in (1, 2, 30, 101):
        shares = tolerance_share(np.arange(1, n + 1), n=n, delta=0.025)
        assert (np.diff(shares) > 0).all()
        for wanted in (1e-6, 0.3, 0.5, 0.9, float(shares[-1]), 0.999):
            reaching = [r for r in range(1, n + 1) if shares[r - 1] >= wanted]
            assert tolerance_rank(wanted, n=n, delta=0.025) == (min(reaching) if reaching else 0)


def test_the_number_of_episodes_is_the_smallest_that_reaches_the_share():
    """59 for 95 % / 95 % and 299 for 99 % / 95 %, as tabulated since Wilks (1941)."""
    assert episodes_needed([0.95, 0.99], delta=0.05).tolist() == [59, 299]
    for share in (0.01, 0.5001, 0.89, 0.999, 0.999999):
        for delta in (1e-6, 0.025, 0.9):
            n = int(episodes_needed(share, delta=delta))
            assert mp.mpf(share) ** n <= delta, (share, delta)
            assert n == 1 or mp.mpf(share) ** (n - 1) > delta, (share, delta)
    assert episodes_needed(1 - 1e-12, delta=1e-300) > 6e14


# --- Several statements at once -------------------------------------------------------------------


@pytest.mark.parametrize("n", [1, 2, 3, 4, 5, 6])
def test_the_joint_law_is_that_of_all_ways_to_place_the_uniforms(n, rng):
    """Enumeration of every cell of every uniform; ranks in any order, rounded up."""
    for size in (1, 2, 3):
        for _ in range(3):
            shares = np.sort(rng.random(size))
            ranks = rng.integers(1, n + 1, size).tolist()
            exact = enumerated_failure(ranks, shares, n)
            found = mp.mpf(_joint_failure(ranks, shares, n))
            assert exact <= found <= exact * (1 + mp.mpf("1e-10")), (ranks, shares)
            assert abs(counted_failure(ranks, shares, n) - exact) < mp.mpf("1e-50")


@pytest.mark.parametrize(("n", "level"), [(40, 0.01), (150, 1e-12)])
def test_the_joint_law_is_rounded_up_for_many_uniforms(n, level):
    """Relative to the failure probability itself, which may be tiny."""
    shares = [0.3, 0.6, 0.8]
    ranks = [int(r) or n for r in tolerance_rank(shares, n=n, delta=level)]
    exact = counted_failure(ranks, shares, n)
    assert 0 < exact < 3 * level
    assert exact <= mp.mpf(_joint_failure(ranks, shares, n)) <= exact * (1 + mp.mpf("1e-8"))


@pytest.mark.parametrize(
    ("wanted", "n", "delta"),
    [
        *((WANTED, n, delta) for n in (1, 5, 20, 59, 110) for delta in (0.001, 0.025, 0.3)),
        ([0.19, 0.5, 0.55], 60, 0.1),  # here a common level of all ranks leaves one too high
        ([0.38, 0.63, 0.67], 46, 0.3),
    ],
)
def test_joint_statements_hold_jointly_and_none_can_be_sharpened(wanted, n, delta):
    """(T.1): within delta by 60-digit counting; a rank less, or a larger top share, is not."""
    found = joint_tolerance(wanted, n=n, delta=delta)
    ranks, shares = [t.rank for t in found], [t.share for t in found]
    assert ranks == sorted(set(ranks))
    assert shares == sorted(set(shares))
    assert ranks[-1] == n
    assert set(shares[:-1]) <= set(wanted)
    assert counted_failure(ranks, shares, n) <= delta
    least = [*shares[:-1], (0.8 * delta) ** (1 / n) * (1 - 1e-12)]  # the top as promised first
    for j in range(len(ranks) - 1):
        lower = [r - (i == j) for i, r in enumerate(ranks)]
        assert lower[j] == 0 or counted_failure(lower, least, n) > delta
    assert counted_failure(ranks, [*shares[:-1], shares[-1] + 1e-8], n) > delta
    assert (0.8 * delta) ** (1 / n) * (1 - 1e-9) <= shares[-1] <= delta ** (1 / n)


def test_a_share_that_was_left_out_is_implied():
    """By the largest score, or by a larger share with the same rank."""
    found = joint_tolerance([0.899, 0.95, 0.9, 0.999], n=100, delta=0.025)
    assert [t.share for t in found[:-1]] == [0.9]
    assert 0.95 < found[-1].share < 0.999
    assert tolerance_rank(0.95, n=100, delta=0.025) == 100


def test_without_other_statements_the_top_gets_all_of_delta():
    for n in (1, 50, 1000):
        (only,) = joint_tolerance([], n=n, delta=0.025)
        assert only.rank == n
        assert only.share == pytest.approx(0.025 ** (1 / n), rel=1e-9)
        assert only.share <= tolerance_share(n, n=n, delta=0.025)


def test_joint_statements_cost_less_than_a_union_bound():
    """At n = 1000 every rank is at most the one at an equal share of delta, or the top better."""
    found = joint_tolerance(WANTED, n=1000, delta=0.025, top=0.2)
    union = tolerance_rank(WANTED, n=1000, delta=0.025 / 5)
    assert all(t.rank <= r for t, r in zip(found[:-1], union, strict=True))
    assert found[-1].share >= tolerance_share(1000, n=1000, delta=0.025 / 5)


# --- The mean -------------------------------------------------------------------------------------


def test_the_mean_is_the_exact_sum_rounded_up(rng):
    """(T.4)."""
    tolerances = joint_tolerance(WANTED, n=60, delta=0.05)
    scores = rng.beta(0.5, 5, (20, 60))
    for row, found in zip(scores, mean_from_tolerance(scores, tolerances=tolerances), strict=True):
        exact, before = mp.mpf(0), mp.mpf(0)
        for t in tolerances:
            exact += (mp.mpf(t.share) - before) * mp.mpf(float(sorted(row)[t.rank - 1]))
            before = mp.mpf(t.share)
        exact += 1 - before
        assert 0 <= mp.mpf(float(found)) - exact < 1e-14
        alone = mean_from_tolerance(row, tolerances=tolerances)
        assert isinstance(alone, np.float64)
        assert alone == pytest.approx(found, rel=1e-12)
