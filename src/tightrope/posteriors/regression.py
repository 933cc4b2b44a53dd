"""Plain regression on data that no bound is evaluated on, so that it may be fitted hard.

A cross-fitted ensemble: the episodes are dealt into folds; one network leaves out each fold, and
one more sees everything. The folds left out say when to stop, and how large the errors on new
episodes will be, without touching any episode of a bound.

Each network is fitted by itself, side by side with the others, while torch has one thread: it stays
in the processor's cache, and the numbers do not depend on how many cores there are.
"""

import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import repeat
from threading import Event

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional

from tightrope.posteriors.gaussians import Layers, kaiming_means
from tightrope.posteriors.horizons import Horizons
from tightrope.posteriors.optimiser import Adam
from tightrope.posteriors.presets import Regression
from tightrope.seeds import Stream, child_seed
from tightrope.system import threads

__all__ = ["Ensemble", "regress"]

_CHECKS = 9  # at which the folds left out are looked at, ever further apart
_FIRST = 1 / 10  # of all steps: the first look
_PATIENCE = 2.5  # stop when nothing has improved while the steps grew by this factor
_BLOCK = 2048  # rows predicted at a time


@dataclass(frozen=True)
class Ensemble:
    """The networks of a regression.

    Attributes:
        layers: (networks, inputs + 1, outputs) each; the last row is the bias.
        left_out: (rows,) the clipped prediction for each row by the network that has not seen the
            targets of its episode; of a single episode nothing can be left out, and it was seen.
        checks: updates at which the folds were looked at.
        errors: mean squared error of the left-out predictions there.
        steps: updates after which the networks were taken.
    """

    layers: Layers
    left_out: NDArray[np.float64]
    checks: tuple[int, ...]
    errors: tuple[float, ...]
    steps: int

    @property
    def single(self) -> Layers:
        """The one network that saw every row: the last one."""
        return tuple(layer[-1] for layer in self.layers)


def regress(
    inputs: NDArray[np.float32],
    targets: NDArray[np.float32],
    episode: NDArray[np.int64],
    settings: Regression,
    seed: int,
    *,
    layer_norm: bool = True,
    exact: bool = False,
    device: str = "cpu",
    horizons: Horizons | None = None,
    advance: Callable[[int], None] | None = None,
) -> Ensemble:
    """Networks fitted to the rows, as they were when their left-out predictions were best.

    Args:
        inputs: (rows, features) scaled observations, and the clock's features.
        targets: (rows,) normalised returns.
        episode: (rows,) the episode of each row: folds are whole episodes.
        settings: how.
        seed: of folds, first weights and mini-batches.
        layer_norm: whether hidden layers are normalised.
        exact: work in float64, so that the fit can be repeated elsewhere to many digits: updates
            enlarge rounding errors, and float32 fits end far apart on another processor.
        device: to compute on; all is drawn on the CPU, and the result comes back there.
        horizons: returns of the rows under earlier time limits, for half of each mini-batch.
        advance: called with the number of updates just done, at last with those not needed.
    """
    dtype = torch.float64 if exact else torch.float32
    task = _Task(
        inputs=torch.from_numpy(inputs).to(device, dtype),
        targets=torch.from_numpy(targets).to(device, dtype),
        batch=settings.exact_batch if exact else settings.batch,
        settings=settings,
        layer_norm=layer_norm,
        horizons=horizons,
        stop=Event(),
    )
    dealt = _deal(episode, settings.folds, seed)
    steps = settings.updates(exact)
    looks = np.unique((np.geomspace(steps * _FIRST, steps, _CHECKS) + 1e-6).astype(int))
    checks: list[int] = []
    errors: list[float] = []
    done = best = 0
    with threads(1), ThreadPoolExecutor(os.cpu_count()) as pool:
        networks = [
            _Network(task, seen, left_out, child_seed(seed, Stream.REGRESSION, k))
            for k, (seen, left_out) in enumerate(dealt)
        ]
        try:
            for step in looks[looks > 0].tolist():
                found = list(pool.map(_Network.fit, networks, repeat(step)))
                predictions = np.empty(len(targets))
                for (_, rows), (_, own) in zip(dealt, found, strict=True):
                    predictions[rows] = own
                checks.append(step)
                errors.append(float(np.mean(np.square(predictions - targets))))
                if advance is not None:
                    advance(step - done)
                done = step
                if not best or errors[-1] <= min(errors):
                    best, left_out = step, predictions
                    kept = [layers for layers, _ in found]
                elif step >= _PATIENCE * best:
                    break
        finally:
            task.stop.set()  # an interrupted fit ends after the next update of each network
    if advance is not None:
        advance(steps - done)
    layers = tuple(np.stack(layer).astype(np.float32) for layer in zip(*kept, strict=True))
    return Ensemble(
        layers=layers,
        left_out=left_out,
        checks=tuple(checks),
        errors=tuple(errors),
        steps=best,
    )


def _deal(
    episode: NDArray[np.int64], folds: int, seed: int
) -> list[tuple[NDArray[np.int64], NDArray[np.int64]]]:
    """Rows that each network sees (the last one all), and those that it predicts as left out."""
    names = np.unique(episode)
    everything = np.arange(len(episode))
    folds = min(folds, len(names))
    if folds < 2:  # one episode: nothing can be left out
        return [(everything, everything)]
    of_episode = np.empty(len(names), dtype=np.int64)
    of_episode[np.random.default_rng(seed).permutation(len(names))] = np.arange(len(names)) % folds
    fold = of_episode[np.searchsorted(names, episode)]
    dealt = [(np.flatnonzero(fold != k), np.flatnonzero(fold == k)) for k in range(folds)]
    return [*dealt, (everything, everything[:0])]


@dataclass(frozen=True)
class _Task:
    """What the networks of a regression share."""

    inputs: Tensor  # (rows, features)
    targets: Tensor  # (rows,)
    batch: int
    settings: Regression
    layer_norm: bool
    horizons: Horizons | None
    stop: Event

    def rows(self, rows: Tensor, generator: torch.Generator) -> tuple[Tensor, Tensor]:
        """Inputs and targets of rows, of the first half of them under a drawn time limit."""
        there = rows.to(self.inputs.device)
        inputs, targets = self.inputs[there], self.targets[there]
        if self.horizons is not None:
            half = len(rows) // 2
            uniform = torch.rand(half, generator=generator, dtype=torch.float64)
            drawn = self.horizons.draw(rows[:half].numpy(), uniform.numpy())
            clock, returns = (torch.from_numpy(part).to(inputs) for part in drawn)
            inputs[:half, -clock.shape[1] :] = clock
            targets[:half] = returns
        return inputs, targets


class _Network:
    """One network on its way, and the running average of its weights."""

    def __init__(
        self, task: _Task, seen: NDArray[np.int64], left_out: NDArray[np.int64], seed: int
    ) -> None:
        self.task, self.step = task, 0
        device, dtype = task.inputs.device, task.inputs.dtype
        self.seen, self.left_out = torch.from_numpy(seen), torch.from_numpy(left_out).to(device)
        own = task.targets[self.seen.to(device)]
        self.centre, self.spread = own.mean(), own.std(correction=0).clamp(min=1e-6)
        self.random = torch.Generator().manual_seed(child_seed(seed, Stream.REGRESSION, 0))
        layers = kaiming_means((task.inputs.shape[1], *task.settings.hidden, 1), seed)
        layers[-1][:] = 0.0  # start at the mean
        # Weights and bias of one layer after the other.
        self.parameters = [
            torch.tensor(part, dtype=dtype, device=device, requires_grad=True)
            for layer in layers
            for part in (layer[:-1], layer[-1])
        ]
        self.average = [part.detach().clone() for part in self.parameters]
        self.adam = Adam(self.parameters)

    def fit(self, until: int) -> tuple[list[NDArray[np.floating]], NDArray[np.floating]]:
        """Update up to that step; layers in units of the targets, and left-out predictions."""
        task = self.task
        while self.step < until and not task.stop.is_set():
            self.step += 1
            places = torch.randint(len(self.seen), (task.batch,), generator=self.random)
            inputs, targets = task.rows(self.seen[places], self.random)
            goal = (targets - self.centre) / self.spread
            outputs = _forward(self.parameters, inputs, task.layer_norm)
            self.adam.descend((outputs - goal).square().mean(), task.settings.learning_rate)
            share = max(1 / task.settings.memory, 1 / (1 + self.step / 10))
            with torch.no_grad():
                torch._foreach_lerp_(self.average, self.parameters, share)
        with torch.inference_mode():
            *hidden, weight, bias = self.average
            units = [*hidden, weight * self.spread, bias * self.spread + self.centre]
            blocks = torch.split(self.left_out, _BLOCK)
            found = [_forward(units, task.inputs[block], task.layer_norm) for block in blocks]
            layers = [torch.cat([w, b[None]]) for w, b in zip(units[::2], units[1::2], strict=True)]
            predictions = torch.cat(found).clamp(0.0, 1.0)
        return [layer.cpu().numpy() for layer in layers], predictions.cpu().numpy()


def _forward(parameters: Sequence[Tensor], inputs: Tensor, layer_norm: bool) -> Tensor:
    """(rows,) unclipped outputs of a plain network."""
    hidden = inputs
    for index in range(0, len(parameters), 2):
        if index:
            hidden = functional.layer_norm(hidden, hidden.shape[-1:]) if layer_norm else hidden
            hidden = hidden.relu()
        hidden = torch.addmm(parameters[index + 1], hidden, parameters[index])
    return hidden.squeeze(1)
