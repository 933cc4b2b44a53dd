"""Pictures of episodes: replayed exactly, drawn off screen, and left out where that fails."""

import base64
import ctypes.util
import dataclasses
import io

import pytest
from pages import Page

from tightrope.errors import InputError
from tightrope.reports import certificate_page
from tightrope.reports.filmstrip import filmstrips
from tightrope.rollouts import collect


@pytest.fixture(scope="module")
def hopper(issue, small_policy):
    """A certificate of a policy that soon falls."""
    episodes = collect(small_policy(11, 3), "Hopper-v4", episodes=24, seed=3, workers=1)
    return issue(episodes, pilot_episodes=4, test_episodes=6)


def drawable():
    if not ctypes.util.find_library("OSMesa"):
        pytest.skip("nothing to draw with: apt-get install libosmesa6")


def test_the_best_and_the_worst_test_episode_are_replayed_and_drawn(hopper, monkeypatch):
    from PIL import Image

    drawable()
    monkeypatch.setenv("MUJOCO_GL", "osmesa")
    best, worst = filmstrips(hopper)
    assert best.title.startswith("Best predicted: episode ")
    assert worst.title.startswith("Worst predicted: episode ")
    assert best.title.split()[-1] != worst.title.split()[-1]
    for strip in (best, worst):
        length = hopper.rollouts.lengths[int(strip.title.split()[-1])]
        steps = [frame.step for frame in strip.frames]
        assert (steps[0], steps[-1]) == (0, length - 1)
        pictures = []
        for frame in strip.frames:
            kind, _, text = frame.image.partition(",")
            assert kind == "data:image/jpeg;base64"
            pictures.append(Image.open(io.BytesIO(base64.b64decode(text))))
        assert max(pictures[0].size) == 220
        assert len({picture.tobytes() for picture in pictures}) == len(pictures)  # it moves
    text = certificate_page(hopper, strips=(best, worst))
    assert Page(text).tags.count("img") == len(best.frames) + len(worst.frames)
    assert len(text) < 2e6


def test_a_replay_that_is_another_episode_is_not_shown(hopper, monkeypatch):
    drawable()
    monkeypatch.setenv("MUJOCO_GL", "osmesa")
    other = dataclasses.replace(hopper.rollouts, seeds=hopper.rollouts.seeds + 1)
    with pytest.raises(InputError, match="the replay departs from the recording at step"):
        filmstrips(dataclasses.replace(hopper, rollouts=other))


def test_where_nothing_can_draw_the_reason_is_one_line(hopper, monkeypatch):
    monkeypatch.setenv("MUJOCO_GL", "nothing")
    with pytest.raises(InputError) as caught:
        filmstrips(hopper)
    assert "nothing" in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_log_has_no_filmstrip(certificate):
    with pytest.raises(InputError, match="expected a policy that was rolled out here"):
        filmstrips(certificate)
