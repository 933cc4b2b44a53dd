"""The monitor: along a running episode, whether it is still what was predicted; section T.3."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tightrope.errors import InputError, one_line
from tightrope.files import load_tensors, refuse_to_overwrite, save_tensors
from tightrope.monitors.plain import PlainPredictor

if TYPE_CHECKING:
    from tightrope.certificates import Certificate

__all__ = ["Monitor", "Status", "check_destination"]

FORMAT = "tightrope.monitor/1"


@dataclass(frozen=True)
class Status:
    """What the monitor says after a step.

    Attributes:
        step: steps of the episode so far.
        value: deviation of the episode from its prediction, M_t, in return units; positive if it
            goes better than predicted.
        threshold: that the deviation may reach in either direction at this step.
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
    """Watches episodes; raises false alarms in at most a stated share of them.

    >>> # monitor = Monitor("certificate-hopper")
    >>> # status = monitor.reset(observation)
    >>> # status = monitor.step(reward, observation, terminated, truncated)

    With the certificate's confidence, a new episode of the same policy in the same environment
    raises an alarm with probability at most `false_alarms`. What else raises one is measured, not
    promised: docs/monitor.md.

    Args:
        source: a certificate, its folder, or a file that :meth:`save` wrote.
        gamma: the discount factor that you expect; the certificate's own is always used, and
            another one is refused.

    Raises:
        InputError: the certificate has no monitor statement, or there is no such file.
    """

    def __init__(self, source: "Certificate | str | Path", *, gamma: float | None = None) -> None:
        if isinstance(source, str | Path):
            path = Path(source)
            if path.suffix == ".safetensors" and path.is_file():
                self._read(path)
            else:
                from tightrope.certificates.folder import load_certificate

                self._calibrated(load_certificate(path))
        else:
            self._calibrated(source)
        if gamma is not None and gamma != self.gamma:
            raise InputError(
                f"expected the discount {self.gamma:g} of the certificate as `gamma`, found "
                f"{gamma!r}: certify with that one to monitor with it"
            )
        self._running = False
        self._step = 0
        self._since: int | None = None

    def _calibrated(self, certificate: "Certificate") -> None:
        from tightrope.certificates.certificate import Certificate

        if not isinstance(certificate, Certificate):
            raise InputError(
                "expected a certificate, its folder or a saved monitor, found "
                f"{type(certificate).__name__}"
            )
        said = [each for each in certificate.statements if each.kind == "monitor"]
        if not said or said[0].share is None:
            raise InputError(
                "expected a certificate with a monitor statement, found one of scheme "
                f"{certificate.scheme}: its predictor is not fixed beforehand; certify with scheme "
                "auto or holdout"
            )
        self.predictor = PlainPredictor.of(certificate.chain, certificate.options.gamma)
        self._window = certificate.beforehand.window
        self._widths = certificate.beforehand.widths
        self._largest = said[0].value_raw
        self.false_alarms = 1.0 - said[0].share
        self.confidence = said[0].confidence
        self.subject: Mapping[str, Any] = certificate.subject

    @property
    def gamma(self) -> float:
        """Discount factor of the certificate."""
        return self.predictor.gamma

    @property
    def features(self) -> int:
        """Numbers in an observation."""
        return len(self.predictor.mean)

    def threshold(self, step: int) -> float:
        """What the deviation may reach after `step` steps of an episode, at least 1."""
        number = 0 if self._window is None else (max(step, 1) - 1) // self._window
        return self._largest * self._widths[min(number, len(self._widths) - 1)]

    def reset(self, observation: ArrayLike) -> Status:
        """Begin an episode with its first observation.

        Raises:
            InputError: the observation is of another size, or not finite.
        """
        predicted = self.predictor(self._checked(observation), 0)
        self._origin, self._earned, self._discount = predicted, 0.0, 1.0
        self._step, self._running = 0, True
        self._since = None
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
        try:
            gain = float(reward)
        except (TypeError, ValueError):
            gain = np.nan
        if not np.isfinite(gain):
            raise InputError(f"expected a finite number as reward, found {reward!r}")
        seen, elapsed, over = self._checked(observation), self._step + 1, terminated or truncated
        limit = self.predictor.limit
        if not over and limit is not None and elapsed >= limit:
            raise InputError(
                f"expected the episode to end at its time limit of {limit} steps, found one that "
                "goes on: say `truncated` at the limit, or certify with `clock` off"
            )
        ahead = 0.0 if over else self.predictor(seen, elapsed)
        self._earned += self._discount * gain
        self._discount *= self.gamma
        value = self._earned + self._discount * ahead - self._origin
        self._step, self._running = elapsed, not over
        if self._since is None and abs(value) > self.threshold(elapsed):
            self._since = elapsed
        if self._window is not None and elapsed % self._window == 0:
            self._origin, self._earned, self._discount = ahead, 0.0, 1.0
        return self._status(value)

    def _status(self, value: float) -> Status:
        alarm = self._since is not None
        return Status(self._step, value, self.threshold(self._step), alarm, self._since)

    def _checked(self, observation: ArrayLike) -> NDArray[np.float32]:
        try:
            with np.errstate(over="ignore"):  # what float32 cannot hold is not finite, and refused
                seen = np.asarray(observation, dtype=np.float32)
        except (TypeError, ValueError) as error:
            raise InputError(
                f"expected an observation of {self.features} numbers: {one_line(error)}"
            ) from None
        if seen.shape != (self.features,):
            raise InputError(
                f"expected an observation of shape ({self.features},), found {seen.shape}"
            )
        if not np.isfinite(seen).all():
            raise InputError("expected a finite observation, found NaN or infinity")
        return seen

    def save(self, path: str | Path) -> None:
        """Write the monitor to a new .safetensors file, for a machine with numpy alone.

        Raises:
            InputError: the file exists, cannot be written, or has another suffix.
        """
        check_destination(path)
        plain = self.predictor
        arrays = {f"layer.{index}": layer for index, layer in enumerate(plain.layers)}
        arrays |= {"mean": plain.mean, "deviation": plain.deviation}
        header = {
            "format": FORMAT,
            "layers": len(plain.layers),
            "low": plain.low,
            "width": plain.width,
            "limit": plain.limit,
            "gamma": plain.gamma,
            "window": self._window,
            "widths": list(self._widths),
            "threshold": self._largest,
            "false_alarms": self.false_alarms,
            "confidence": self.confidence,
            "subject": dict(self.subject),
        }
        save_tensors(Path(path), arrays, header)

    def _read(self, path: Path) -> None:
        arrays, header = load_tensors(path, FORMAT)
        try:
            self.predictor = PlainPredictor(
                layers=tuple(arrays[f"layer.{index}"] for index in range(header["layers"])),
                mean=arrays["mean"],
                deviation=arrays["deviation"],
                low=float(header["low"]),
                width=float(header["width"]),
                limit=header["limit"],
                gamma=float(header["gamma"]),
            )
            self._window, self._widths = header["window"], tuple(map(float, header["widths"]))
            self._largest = float(header["threshold"])
            self.false_alarms = float(header["false_alarms"])
            self.confidence = float(header["confidence"])
            self.subject = header["subject"]
            self.predictor(np.zeros(self.features, np.float32), 0)  # do the layers fit?
        except (LookupError, TypeError, ValueError) as error:
            what = f"no {error}" if isinstance(error, KeyError) else one_line(error)
            raise InputError(f"{str(path)!r} is damaged or no monitor: {what}") from None

    def __repr__(self) -> str:
        return (
            f"Monitor({self.features} features, threshold {self._largest:.4g}, false alarms at "
            f"most {self.false_alarms:.1%})"
        )
