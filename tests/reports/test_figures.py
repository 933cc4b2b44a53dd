"""Figures draw the numbers that they are given, and those of a certificate are its own."""

import numpy as np
import pytest
from matplotlib.figure import Figure
from tightrope.certificates.figures import PALETTE, draw_certificate, predictions, scores


@pytest.fixture
def ax():
    return Figure().subplots()


def band(ax):
    """Lower and upper edge of the one filled area, by its x."""
    (area,) = ax.collections
    edges = {}
    for x, y in area.get_paths()[0].vertices:
        low, high = edges.get(float(x), (np.inf, -np.inf))
        edges[float(x)] = (min(low, float(y)), max(high, float(y)))
    return edges


def test_predictions_draws_returns_predictions_and_a_band_around_these(ax):
    step = np.array([0, 3, 6, 9])
    returns, mean = np.array([4.0, 3.0, 2.5, 1.0]), np.array([3.5, 3.25, 2.0, 1.5])
    assert predictions(ax, step, returns, mean, 0.25) is ax
    drawn = {line.get_label(): line for line in ax.lines}
    assert list(drawn) == ["return", "prediction"]
    for name, values in (("return", returns), ("prediction", mean)):
        np.testing.assert_array_equal(drawn[name].get_xdata(), step)
        np.testing.assert_array_equal(drawn[name].get_ydata(), values)
    assert drawn["return"].get_color() == PALETTE["return"]
    assert band(ax) == {float(x): (m - 0.25, m + 0.25) for x, m in zip(step, mean, strict=True)}
    assert [text.get_text() for text in ax.get_legend().get_texts()] == [
        *("return", "prediction", "certified RMS error")
    ]


def test_scores_draws_each_group_in_order_with_the_share_up_to_each(ax):
    groups = {"bound": np.array([3.0, 1.0, 2.0, 4.0]), "test": np.array([2.5, 0.5])}
    assert scores(ax, groups, [(3.5, "90.0 % of new episodes")]) is ax
    first, second, limit = ax.lines
    np.testing.assert_array_equal(first.get_xdata(), [1.0, 2.0, 3.0, 4.0])
    np.testing.assert_array_equal(first.get_ydata(), [25.0, 50.0, 75.0, 100.0])
    np.testing.assert_array_equal(second.get_xdata(), [0.5, 2.5])
    np.testing.assert_array_equal(second.get_ydata(), [50.0, 100.0])
    for line, name in ((first, "bound"), (second, "test")):
        assert line.get_drawstyle() == "steps-post"  # the share of values at most x
        assert line.get_color() == PALETTE[name]
    assert list(limit.get_xdata()) == [3.5, 3.5]
    assert [text.get_text() for text in ax.texts] == ["at least 90.0 % of new episodes"]


def test_scores_without_limits_or_test_episodes_draws_the_one_group(ax):
    scores(ax, {"bound": np.array([1.0])}, [])
    assert len(ax.lines) == 1
    assert len(ax.texts) == 0


def test_colours_are_told_apart():
    assert len(set(PALETTE.values())) == len(PALETTE)


def plain_returns(rewards, gamma):
    total, found = 0.0, []
    for reward in reversed(rewards):
        total = reward + gamma * total
        found.append(total)
    return np.array(found[::-1])


@pytest.fixture(scope="module")
def drawn(certificate):
    """The axes, and per episode: certified steps, returns there by a plain loop, predictions."""
    episodes = []
    for episode in certificate.rollouts:
        steps = np.arange(0, len(episode.rewards), certificate.thin)
        predicted = certificate.predictor(episode.observations[steps], elapsed=steps).mean
        returns = plain_returns(episode.rewards, certificate.options.gamma)[steps]
        episodes.append((steps, returns, predicted))
    axes = Figure().subplots(1, 2)
    draw_certificate(certificate, axes)
    return axes, episodes


def test_the_left_panel_is_the_last_test_episode_with_the_certified_error(certificate, drawn):
    (left, _), episodes = drawn
    steps, returns, predicted = episodes[-1]
    lines = {line.get_label(): line for line in left.lines}
    np.testing.assert_array_equal(lines["return"].get_xdata(), steps)
    np.testing.assert_allclose(lines["return"].get_ydata(), returns, rtol=1e-12)
    np.testing.assert_allclose(lines["prediction"].get_ydata(), predicted, rtol=1e-5, atol=1e-6)
    widths = [high - low for low, high in band(left).values()]
    np.testing.assert_allclose(widths, 2 * certificate.rms_raw, rtol=1e-9)


def test_the_right_panel_has_the_error_of_every_episode_that_was_not_fitted_to(certificate, drawn):
    (_, right), episodes = drawn
    errors = [np.sqrt(np.mean((returns - mean) ** 2)) for _, returns, mean in episodes]
    counts = certificate.episodes
    assert counts.free > 0
    assert counts.test == 5
    first = counts.pilot + counts.free
    last = counts.pilot + counts.validation
    lines = {line.get_label(): line for line in right.lines}
    for label, expected in (
        ("episodes of the bound", errors[first:last]),
        ("test episodes", errors[last:]),
    ):
        np.testing.assert_allclose(lines[label].get_xdata(), np.sort(expected), rtol=1e-5)


def test_promised_limits_are_where_the_statements_say_and_on_an_error_that_is_drawn(
    certificate, drawn
):
    """A tolerance is an order statistic of the same errors: figure and promise agree."""
    (_, right), _ = drawn
    promised = [s for s in certificate.statements if s.kind == "tolerance"]
    assert promised
    (bound,) = (line for line in right.lines if line.get_label() == "episodes of the bound")
    limits = [line.get_xdata()[0] for line in right.lines if line.get_linestyle() == ":"]
    assert limits == [statement.value_raw for statement in promised]
    for limit in limits:
        assert np.isclose(bound.get_xdata(), limit, rtol=1e-5).any()
