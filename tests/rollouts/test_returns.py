"""Returns, first visits and thinning against plain loops."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tightrope.errors import InputError
from tightrope.rollouts import GAMMA, Episode, discounted_returns, first_visits, join, pairs

searched = settings(deadline=None, derandomize=True, max_examples=150)
# few values, so that observations repeat; both zeros, which are equal as numbers
coordinates = st.sampled_from([0.0, -0.0, 1.0, -1.0, 1e-45])
states = st.lists(
    st.lists(st.tuples(coordinates, coordinates), min_size=1, max_size=12), min_size=1, max_size=4
)


def from_rewards(ragged):
    return join(
        [
            Episode(np.arange(len(r), dtype=np.float32)[:, None], np.array(r), True, False)
            for r in ragged
        ]
    )


def from_states(ragged):
    return join([Episode(np.array(s, np.float32), np.zeros(len(s)), True, False) for s in ragged])


def loop_returns(ragged, gamma):
    """G_t = r_t + gamma G_{t+1}, one step after the other."""
    found = []
    for episode in ragged:
        following, backwards = 0.0, []
        for reward in reversed(episode):
            following = reward + gamma * following
            backwards.append(following)
        found += reversed(backwards)
    return found


def loop_visits(ragged):
    found = []
    for episode in ragged:
        seen = set()
        for state in episode:
            key = tuple(float(np.float32(value)) + 0.0 for value in state)
            found.append(key not in seen)
            seen.add(key)
    return found


def test_a_return_is_the_discounted_sum_to_the_end_of_its_own_episode():
    """By the definition, not the recursion: sum of gamma^(i-t) r_i."""
    rng = np.random.default_rng(0)
    ragged = [rng.normal(size=length).tolist() for length in (1, 7, 300, 2)]
    expected = [
        sum(0.9**lag * reward for lag, reward in enumerate(episode[start:]))
        for episode in ragged
        for start in range(len(episode))
    ]
    np.testing.assert_allclose(discounted_returns(from_rewards(ragged), 0.9), expected, atol=1e-12)


def test_the_discount_is_that_of_the_paper_unless_given():
    assert GAMMA == 0.99
    episodes = from_rewards([[1.0, 1.0]])
    assert discounted_returns(episodes).tolist() == [1.99, 1.0]
    assert pairs(episodes).returns.tolist() == [1.99, 1.0]


def test_a_discount_is_in_the_closed_unit_interval_and_thinning_a_whole_number():
    for gamma, expected in ((0, [1.0, 2.0, 3.0]), (1, [6.0, 5.0, 3.0])):
        assert discounted_returns(from_rewards([[1.0, 2.0, 3.0]]), gamma).tolist() == expected
    for gamma in (-0.01, 1.01, np.nan, np.inf):
        with pytest.raises(InputError, match=r"gamma must be in \[0, 1\]"):
            discounted_returns(from_rewards([[1.0]]), gamma)
    for thin in (0, -1, 1.5):
        with pytest.raises(InputError, match="thin must be a whole number"):
            pairs(from_rewards([[1.0]]), thin=thin)


@searched
@given(states, st.integers(1, 5), st.sampled_from([0, 0.5, 1]))
def test_pairs_are_every_kth_first_visit_with_its_return(ragged, thin, gamma):
    episodes = from_states(ragged)
    rng = np.random.default_rng(len(episodes.rewards))
    values = rng.normal(size=len(episodes.rewards))
    episodes.rewards[:] = values
    per_episode = np.split(values, episodes.offsets[1:-1])
    returns = loop_returns([list(part) for part in per_episode], gamma)
    visits, expected, step = loop_visits(ragged), [], 0
    assert first_visits(episodes).tolist() == visits
    for index, episode in enumerate(ragged):
        for time, state in enumerate(episode):
            if time % thin == 0 and visits[step]:
                expected.append((index, time, state, returns[step]))
            step += 1
    found = pairs(episodes, gamma=gamma, thin=thin)
    assert len(found) == len(expected)
    assert found.episodes == len(ragged)
    assert found.episode.tolist() == [index for index, *_ in expected]
    assert found.step.tolist() == [time for _, time, *_ in expected]
    assert found.step.dtype == np.int64
    np.testing.assert_array_equal(found.observations, np.float32([s for *_, s, _ in expected]))
    np.testing.assert_allclose(found.returns, [value for *_, value in expected], atol=1e-12)
