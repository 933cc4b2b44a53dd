"""The monitor: whether a running episode is still what was predicted; docs/theory.md, T.3."""

from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from pydantic import Field

from tightrope.errors import InputError
from tightrope.files import load_tensors, refuse_to_overwrite, save_tensors
from tightrope.posteriors.predictor import ReturnPredictor, damaged, pack, unpack
from tightrope.records import checked, plain

if TYPE_CHECKING:
    from tightrope.certificates import Certificate

__all__ = ["Calibration", "Monitor", "Status", "check_destination"]

FORMAT = "tightrope.monitor/2"
# Of the return range, added to every threshold: one row at a time is predicted with other rounding
# than a whole episode, and many episodes may have the very same score.
_ROUNDING = 1e-5
_LARGEST = np.finfo(np.float32).max

_Probability = Annotated[float, Field(ge=0, le=1)]


@checked
class Calibration:
    """What a certificate states of its monitor, and was fixed for it beforehand.

    Attributes:
        gamma: discount factor.
        window: steps of a window; None for a single one.
        widths: of the windows; the last one's is that of all later ones.
        threshold: largest departure, in return units and divided by the width.
        false_alarms: largest share of new episodes that raise an alarm.
        confidence: of that.
        subject: metadata of the certificate.
    """

    gamma: _Probability
    window: Annotated[int, Field(ge=1)] | None
    widths: Annotated[tuple[Annotated[float, Field(gt=0, le=1)], ...], Field(min_length=1)]
    threshold: Annotated[float, Field(ge=0)]
    false_alarms: _Probability
    confidence: _Probability
    subject: dict[str, Any]


@dataclass(frozen=True)
class Status:
    """What the monitor says after a step.

    Attributes:
        step: steps of the episode so far.
        value: departure of the episode from its prediction, M_t, in return units; positive if it
            goes better than predicted.
        threshold: that the departure may reach in either direction at this step.
        alarm: whether it has exceeded a threshold, now or earlier in the episode.
        since: step of the first alarm in the episode; None without one.
    """

    step: int
    value: float
    threshold: float
    alarm: bool
    since: int | None


def check_destination(path: str | Path) -> None:
    """Raise InputError unless `path` is a new name that a monitor can be written to."""
    if Path(path).suffix != ".safetensors":
        raise InputError(f"expected a name ending in .safetensors, found {str(path)!r}")
    refuse_to_overwrite(Path(path))


class Monitor:
    """Watches episodes; raises false alarms in at most a certified share of them.

    >>> # monitor = Monitor("certificate-hopper")
    >>> # status = monitor.reset(observation)
    >>> # status = monitor.step(reward, observation, terminated, truncated)

    With the certificate's confidence, a new episode of the same policy in the same environment
    raises an alarm with probability at most `calibration.false_alarms`. How often a changed policy
    or environment raises one is measured, not certified: docs/monitor.md.

    Args:
        source: a certificate, its folder, or a file that :meth:`save` wrote.
        gamma: the discount factor that you expect: another one than the certificate's is refused.

    Attributes:
        predictor: of returns.
        calibration: what the certificate states of the monitor.

    Raises:
        InputError: the certificate has no monitor statement, or there is no such file.
    """

    def __init__(self, source: "Certificate | str | Path", *, gamma: float | None = None) -> None:
        if isinstance(source, str | Path) and Path(source).suffix == ".safetensors":
            read = _saved(Path(source))
        else:
            read = _certified(source)
        self.predictor, self.calibration = read
        if gamma not in (None, self.calibration.gamma):
            raise InputError(
                f"expected the discount {self.calibration.gamma:g} of the certificate as `gamma`, "
                f"found {gamma!r}: certify with that one to monitor with it"
            )
        self._step, self._running = 0, False
        self._since: int | None = None

    def save(self, path: str | Path) -> None:
        """Write the monitor to a new .safetensors file, for a machine with numpy alone.

        Raises:
            InputError: the file exists, cannot be written, or has another suffix.
        """
        check_destination(path)
        arrays, header = pack(self.predictor)
        save_tensors(Path(path), arrays, {**header, **asdict(self.calibration), "format": FORMAT})

    @property
    def features(self) -> int:
        """Numbers in an observation."""
        return len(self.predictor.scaling.mean)

    def threshold(self, step: int) -> float:
        """What the departure may reach after `step` steps of an episode, at least 1."""
        c = self.calibration
        number = 0 if c.window is None else (max(step, 1) - 1) // c.window
        width = c.widths[min(number, len(c.widths) - 1)]
        return c.threshold * width + _ROUNDING * self.predictor.scaling.width

    def reset(self, observation: ArrayLike) -> Status:
        """Begin an episode with its first observation.

        Raises:
            InputError: the observation is of another size, or not finite.
        """
        self._begin_window(self._predicted(self._checked(observation), 0))
        self._step, self._running, self._since = 0, True, None
        return self._status(0.0)

    def step(
        self, reward: float, observation: ArrayLike, terminated: bool, truncated: bool
    ) -> Status:
        """Go on by one step: what the environment returned for the last action.

        Raises:
            InputError: a number is not finite, the observation is of another size, there is no
                running episode, or it goes on beyond the time limit. The monitor is then as it was.
        """
        if not self._running:
            ended = f"has ended after {self._step} steps" if self._step else "has not begun"
            raise InputError(
                f"expected a step of a running episode, found one that {ended}: call `reset` with "
                "the first observation"
            )
        gain = float(_numbers(reward, (), "a finite number as reward"))
        seen, elapsed, over = self._checked(observation), self._step + 1, terminated or truncated
        clock = self.predictor.scaling.clock
        if not over and clock is not None and elapsed >= clock.limit:
            raise InputError(
                f"expected the episode to end at its time limit of {clock.limit} steps, found one "
                "that goes on: say `truncated` at the limit, or certify with `clock` off"
            )
        ahead = 0.0 if over else self._predicted(seen, elapsed)
        self._earned += self._discount * gain
        self._discount *= self.calibration.gamma
        value = self._earned + self._discount * ahead - self._origin
        self._step, self._running = elapsed, not over
        if self._since is None and abs(value) > self.threshold(elapsed):
            self._since = elapsed
        window = self.calibration.window
        if window is not None and elapsed % window == 0:
            self._begin_window(ahead)
        return self._status(value)

    def _begin_window(self, predicted: float) -> None:
        self._origin, self._earned, self._discount = predicted, 0.0, 1.0

    def _status(self, value: float) -> Status:
        alarm = self._since is not None
        return Status(self._step, value, self.threshold(self._step), alarm, self._since)

    def _checked(self, observation: ArrayLike) -> NDArray[np.float32]:
        count = self.features
        found = _numbers(observation, (count,), f"an observation of {count} finite numbers")
        return found.astype(np.float32)

    def _predicted(self, observation: NDArray[np.float32], elapsed: int) -> float:
        normalised = self.predictor.normalised(observation[None], [elapsed])
        return float(self.predictor.scaling.returns(normalised)[0])


def _numbers(values: Any, shape: tuple[int, ...], expected: str) -> NDArray[np.float64]:
    """Numbers of this shape that float32 can hold; InputError for anything else."""
    try:
        found = np.asarray(values, np.float64)
    except (TypeError, ValueError):
        found = np.array(np.nan)
    if found.shape != shape or not (np.abs(found) <= _LARGEST).all():
        shown = " ".join(str(values).split())[:80]
        raise InputError(f"expected {expected}, found {shown} of shape {np.shape(found)}")
    return found


def _saved(path: Path) -> tuple[ReturnPredictor, Calibration]:
    """What :meth:`Monitor.save` wrote."""
    arrays, header = load_tensors(path, FORMAT)
    with damaged(path, "monitor"):
        stated = {entry.name: header[entry.name] for entry in fields(Calibration)}
        return unpack(arrays, header), Calibration(**plain(stated))


def _certified(source: Any) -> tuple[ReturnPredictor, Calibration]:
    """The monitor of a certificate."""
    from tightrope.certificates.certificate import Certificate
    from tightrope.certificates.folder import load_certificate

    c = load_certificate(source) if isinstance(source, str | Path) else source
    if not isinstance(c, Certificate):
        raise InputError(
            "expected a certificate, its folder or a saved monitor, found " + type(c).__name__
        )
    for s in c.statements:
        if s.kind == "monitor" and s.share is not None:
            calibration = Calibration(
                gamma=c.settings.gamma,
                window=s.chosen["window"],
                widths=tuple(s.chosen["widths"]),
                threshold=s.value_raw,
                false_alarms=1.0 - s.share,
                confidence=s.confidence,
                subject=dict(c.subject),
            )
            return c.predictor, calibration
    raise InputError(
        f"expected a certificate with a monitor statement, found one of scheme {c.scheme}: "
        "certify with scheme auto or holdout"
    )
