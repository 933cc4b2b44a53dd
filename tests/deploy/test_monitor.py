"""The monitor: the same numbers as at calibration, from plain arrays, one step at a time."""

import subprocess
import sys
import textwrap

import numpy as np
import pytest
from recordings import recording, short

import tightrope as tr
from tightrope.deploy import Monitor
from tightrope.deploy.monitor import Status
from tightrope.errors import InputError

STEPS = 45


@pytest.fixture(scope="module")
def certificate():
    return tr.certify(
        recording(33, STEPS, seed=2), preset_values=short(), test_episodes=3, gamma=0.9, seed=0
    )


@pytest.fixture
def monitor(certificate):
    return Monitor(certificate)


def replay(monitor, episode, *, bonus=0.0):
    """Every status of a recorded episode."""
    statuses = [monitor.reset(episode.observations[0])]
    last = len(episode.rewards) - 1
    for t, reward in enumerate(episode.rewards):
        end = t == last
        observation = episode.observations[0 if end else t + 1]  # of the last, nothing counts
        statuses.append(monitor.step(reward + bonus, observation, False, end))
    return statuses


def test_alarms_among_calibration_episodes_are_those_beyond_the_order_statistic(
    certificate, monitor
):
    """The score at the threshold itself raises none; every larger one does."""
    (statement,) = [s for s in certificate.statements if s.kind == "monitor"]
    largest, alarms = [], 0
    for episode in certificate.calibration:
        statuses = replay(monitor, episode)
        alarms += statuses[-1].alarm
        largest.append(max(abs(s.value) / s.threshold for s in statuses[1:]))
    below = sorted(each for each in largest if each <= 1.0)
    assert alarms == len(largest) - len(below) <= (1 - statement.share) * statement.n
    assert len(largest) == statement.n
    assert 0.999 < below[-1] <= 1.0


def test_the_calibration_is_that_of_the_statement(certificate, monitor):
    (statement,) = [s for s in certificate.statements if s.kind == "monitor"]
    calibration = monitor.calibration
    assert calibration.false_alarms == 1 - statement.share
    assert calibration.confidence == statement.confidence
    (first, second, *_, last), window = statement.chosen["widths"], statement.chosen["window"]
    slack = 1e-5 * certificate.width
    for step, width in ((1, first), (window, first), (window + 1, second), (10**6, last)):
        assert monitor.threshold(step) == statement.value_raw * width + slack


def test_an_episode_that_earns_otherwise_than_predicted_raises_an_alarm_that_stays(
    certificate, monitor
):
    for bonus in (3.0, -3.0):
        statuses = replay(monitor, certificate.rollouts[-1], bonus=bonus)
        since = next(s.step for s in statuses if abs(s.value) > s.threshold)
        for status in statuses:
            assert status.alarm is (status.step >= since)
            assert status.since == (since if status.step >= since else None)
        assert np.sign(statuses[since].value) == np.sign(bonus)
    first = replay(monitor, certificate.rollouts[-1])[0]  # a reset forgets
    assert first == Status(0, 0.0, monitor.threshold(1), False, None)


def test_folder_object_and_saved_file_give_the_same_monitor(certificate, tmp_path):
    first = Monitor(certificate, gamma=0.9)
    certificate.save(tmp_path / "auto")
    saved = tmp_path / "monitor.safetensors"
    first.save(saved)
    episode = certificate.rollouts[-1]
    for source in (tmp_path / "auto", str(tmp_path / "auto"), saved):
        other = Monitor(source)
        assert replay(other, episode) == replay(first, episode)
        assert other.calibration == first.calibration
    with pytest.raises(InputError, match="already there"):
        first.save(saved)
    with pytest.raises(InputError, match=r"ending in .safetensors, found 'monitor.npz'"):
        first.save("monitor.npz")


def test_a_saved_monitor_runs_without_torch(certificate, tmp_path):
    Monitor(certificate).save(tmp_path / "monitor.safetensors")
    program = """
        import sys
        import tightrope
        monitor = tightrope.Monitor("monitor.safetensors")
        monitor.reset([0.0, 0.0, 0.0])
        assert monitor.step(1.0, [0.5, 0.0, 0.0], False, False).step == 1
        assert not {"torch", "gymnasium", "scipy"} & set(sys.modules), "too much was imported"
    """
    given = {"capture_output": True, "text": True, "cwd": tmp_path}
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(program)], **given)
    assert done.returncode == 0, done.stderr


# --- what is refused ----------------------------------------------------------------------------


WRONG = [
    (0.5, [0.0, 0.0], r"expected an observation of 3 finite numbers, found .* of shape \(2,\)"),
    (0.5, [[0.0, 0.0, 0.0]], r"expected an observation of 3 .* of shape \(1, 3\)"),
    *(
        (0.5, observation, "expected an observation of 3 finite numbers, found")
        for observation in ([0.0, 1e300, 0.0], ["left", "right", "up"])
    ),
    *(
        (reward, np.zeros(3), "expected a finite number as reward, found")
        for reward in (np.nan, "much")
    ),
]


def test_wrong_numbers_are_refused_and_leave_the_monitor_as_it_was(monitor):
    monitor.reset(np.zeros(3))
    expected = monitor.step(0.5, np.zeros(3), False, False)
    for reward, observation, words in WRONG:
        if reward == 0.5:
            with pytest.raises(InputError, match=words):
                monitor.reset(observation)
        monitor.reset(np.zeros(3))
        with pytest.raises(InputError, match=words):
            monitor.step(reward, observation, False, False)
        assert monitor.step(0.5, np.zeros(3), False, False) == expected


def test_steps_outside_an_episode_or_beyond_its_time_limit_are_refused(monitor):
    with pytest.raises(InputError, match="found one that has not begun: call `reset`"):
        monitor.step(0.0, np.zeros(3), False, False)
    for terminated in (True, False):
        monitor.reset(np.zeros(3))
        monitor.step(0.0, np.zeros(3), False, False)
        monitor.step(0.0, np.zeros(3), terminated, not terminated)
        with pytest.raises(InputError, match="found one that has ended after 2 steps"):
            monitor.step(0.0, np.zeros(3), False, False)
    monitor.reset(np.zeros(3))
    for _ in range(STEPS - 1):
        monitor.step(0.0, np.zeros(3), False, False)
    with pytest.raises(InputError, match="expected the episode to end at its time limit of 45"):
        monitor.step(0.0, np.zeros(3), False, False)
    assert monitor.step(0.0, np.zeros(3), False, True).step == STEPS


def test_what_has_no_monitor_and_another_discount_are_refused(certificate, tmp_path):
    options = {"preset_values": short(), "pilot_episodes": 3, "mc_passes": 1, "seed": 0}
    without = tr.certify(recording(12), scheme="rec-2", **options)
    without.save(tmp_path / "without")
    (tmp_path / "other.safetensors").write_bytes(b"12345678")
    lacking = "expected a certificate with a monitor statement, found one of scheme rec-2"
    for source, words in (
        (without, lacking),
        (tmp_path / "without", lacking),
        (tmp_path / "nothing", "expected a certificate at"),
        ({}, "a saved monitor, found dict"),
        (tmp_path / "other.safetensors", "damaged or no file of tightrope"),
    ):
        with pytest.raises(InputError, match=words):
            Monitor(source)
    with pytest.raises(InputError, match=r"expected the discount 0.9 .* found 0.95: certify with"):
        Monitor(certificate, gamma=0.95)
