"""The trace of a monitor on a screen: one line that moves, or plain lines where nobody watches."""

import contextlib
from math import ceil
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from tightrope.monitors.monitor import Status

if TYPE_CHECKING:
    from rich.console import Console

__all__ = ["Screen", "trace"]

_BARS = "▁▂▃▄▅▆▇█"
_WIDTH = 40
_REFRESH = 10  # steps from one look of the moving line to the next


def trace(values: NDArray[np.float64], thresholds: NDArray[np.float64], width: int = _WIDTH) -> str:
    """The size of the deviations over time as a line of bars, full at the threshold; ! beyond.

    >>> trace(np.array([0.1, -0.5, 0.9, 1.2]), np.ones(4), width=4)
    '▁▄█!'
    """
    sizes = np.abs(values) / thresholds
    parts = np.array_split(sizes, min(width, len(sizes)))
    return "".join("!" if p.max() > 1 else _BARS[max(ceil(8 * p.max()), 1) - 1] for p in parts)


class Screen:
    """Shows episodes as they run; a context, and the function that :func:`watch` calls.

    Args:
        console: to write on.
        every: steps from one line to the next where it is no terminal.
    """

    def __init__(self, console: "Console", every: int) -> None:
        self.console, self.every = console, every
        self.context = contextlib.ExitStack()

    def __enter__(self) -> "Screen":
        if self.console.is_terminal:
            from rich.live import Live

            live = Live(console=self.console, auto_refresh=False, transient=True)
            self.live = self.context.enter_context(live)
        return self

    def __exit__(self, *exception: object) -> None:
        self.context.close()

    def __call__(self, number: int, seed: int, said: list[Status], ended: bool) -> None:
        """After a step of an episode."""
        if ended:
            self._say(_ended(number, seed, said))
        elif self.console.is_terminal:
            if len(said) % _REFRESH == 0:
                self.live.update(_running(number, said), refresh=True)
        elif len(said) % self.every == 0:
            self._say(f"  {_running(number, said)}")

    def _say(self, line: str) -> None:
        self.console.print(line, highlight=False, markup=False, soft_wrap=True)


def _running(number: int, said: list[Status]) -> str:
    now = said[-1]
    alarm = "" if now.since is None else f", ALARM since step {now.since}"
    return (
        f"episode {number}, step {now.step}: {now.value:+.4g} of {now.threshold:.4g} "
        f"{_trace(said)}{alarm}"
    )


def _ended(number: int, seed: int, said: list[Status]) -> str:
    last = said[-1]
    largest = max(abs(each.value) / each.threshold for each in said)
    alarm = "no alarm" if last.since is None else f"ALARM at step {last.since}"
    return (
        f"episode {number} (seed {seed}): {last.step} steps, largest deviation {largest:.0%} of "
        f"the threshold, {alarm} {_trace(said)}"
    )


def _trace(said: list[Status]) -> str:
    values = np.array([each.value for each in said])
    return trace(values, np.array([each.threshold for each in said]))
