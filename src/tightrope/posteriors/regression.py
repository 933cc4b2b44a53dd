"""Plain regression on data that no bound is evaluated on, so that it may be fitted hard.

A cross-fitted ensemble: the episodes are dealt into folds; one network leaves out each fold, and
one more sees everything. The folds left out say when to stop, and how large the errors on new
episodes will be, without touching any episode of a bound.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from tightrope.posteriors.gaussians import kaiming_means
from tightrope.posteriors.network import BLOCK, HIDDEN, Network, forward
from tightrope.posteriors.rows import Rows
from tightrope.seeds import Stream, child_seed

__all__ = ["Regressed", "Regression", "regress"]

Tick = Callable[[int], None]  # called with the number of steps just done
_CHECKS = 9  # at which the folds left out are looked at, ever further apart
_FIRST = 1 / 10  # of all steps: the first look
_PATIENCE = 2.5  # stop when nothing has improved while the steps grew by this factor


@dataclass(frozen=True)
class Regression:
    """How to regress.

    Attributes:
        folds: how many networks leave out a fold each.
        steps: updates at the most.
        batch: rows per mini-batch and network.
        exact_steps: updates at the most where the fit is exact: float64 takes twice the time, and a
            prior that a posterior moves away from gains little from more (docs/tightness.md).
        exact_batch: rows per mini-batch there.
        learning_rate: of Adam.
        memory: updates over which the weights are averaged.
        hidden: widths of the hidden layers.
    """

    folds: int
    steps: int
    batch: int
    exact_steps: int
    exact_batch: int
    learning_rate: float
    memory: int
    hidden: tuple[int, ...] = HIDDEN

    def updates(self, exact: bool) -> int:
        """How many there are at the most."""
        return self.exact_steps if exact else self.steps


@dataclass(frozen=True)
class Regressed:
    """What came out.

    Attributes:
        network: the average of all networks.
        single: the one network that saw every row.
        left_out: (rows,) the clipped prediction for each row by the network that has not seen the
            targets of its episode; of a single episode nothing can be left out, and it was seen.
        checks: updates at which the folds were looked at.
        errors: mean squared error of the left-out predictions there.
        steps: updates after which the networks were taken.
    """

    network: Network
    single: Network
    left_out: NDArray[np.float64]
    checks: tuple[int, ...]
    errors: tuple[float, ...]
    steps: int


def regress(
    rows: Rows,
    episode: NDArray[np.int64],
    settings: Regression,
    seed: int,
    *,
    exact: bool = False,
    device: str = "cpu",
    tick: Tick | None = None,
) -> Regressed:
    """Fit a cross-fitted ensemble to rows by least squares.

    A network knows nothing of the targets that it leaves out, not even their mean; only the number
    of updates is chosen on all of them.

    Args:
        rows: inputs and targets; none of them may be part of a bound.
        episode: (rows,) the episode of each row: folds are whole episodes.
        settings: how.
        seed: of folds, first weights and mini-batches.
        exact: work in float64, so that the fit can be repeated elsewhere to many digits: updates
            enlarge rounding errors, and float32 fits end far apart on another processor.
        device: to compute on; all is drawn on the CPU, and the result comes back there.
        tick: progress.
    """
    dtype = torch.float64 if exact else torch.float32
    batch = settings.exact_batch if exact else settings.batch
    steps = settings.updates(exact)
    inputs, targets = rows.inputs.to(device, dtype), rows.targets.to(device, dtype)
    dealt, fold = _deal(episode, settings.folds, seed)
    seen, fold = [each.to(device) for each in dealt], fold.to(device)
    members = len(seen)
    own = [targets[each] for each in seen]
    centre = torch.stack([each.mean() for each in own])[:, None]  # (members, 1)
    spread = torch.stack([each.std(correction=0) for each in own])[:, None].clamp(min=1e-6)
    *first, batches = (child_seed(seed, Stream.REGRESSION, k) for k in range(members + 1))
    layers = kaiming_means((inputs.shape[1], *settings.hidden, 1), first)
    parameters = [layer.to(device, dtype) for layer in layers]
    parameters[-1] = torch.zeros_like(parameters[-1])  # start at the mean
    parameters = [layer.requires_grad_() for layer in parameters]
    optimiser = torch.optim.Adam(parameters, lr=settings.learning_rate, fused=True)
    generator = torch.Generator().manual_seed(batches)
    lengths = torch.tensor([len(each) for each in seen], device=device)[:, None]
    table = torch.nn.utils.rnn.pad_sequence(seen, batch_first=True)  # (members, most rows)
    average = [layer.detach().clone() for layer in parameters]
    looks = set(np.geomspace(steps * _FIRST, steps, _CHECKS).astype(int))
    checks: list[int] = []
    errors: list[float] = []
    best, kept = 0, _in_units(average, centre, spread)
    left_out = _left_out(kept, inputs, fold)
    for step in range(1, steps + 1):
        draws = torch.rand(members, batch, generator=generator, dtype=torch.float64, device="cpu")
        picked = table.gather(1, (draws.to(device) * lengths).long())  # (members, batch)
        goal = (targets[picked] - centre) / spread
        loss = (forward(parameters, inputs[picked]) - goal).square().mean(dim=1).sum()
        optimiser.zero_grad(set_to_none=True)
        loss.backward()  # type: ignore[no-untyped-call]
        optimiser.step()
        share = max(1 / settings.memory, 1 / (1 + step / 10))
        for mean, layer in zip(average, parameters, strict=True):
            mean.lerp_(layer.detach(), share)
        if step in looks:
            if tick is not None:
                tick(step - (checks[-1] if checks else 0))
            now = _in_units(average, centre, spread)
            found = _left_out(now, inputs, fold)
            checks.append(step)
            errors.append(float((found - targets).square().mean(dtype=torch.float64)))
            if errors[-1] <= min(errors):
                best, kept, left_out = step, now, found
            elif step >= _PATIENCE * best:
                break
    if tick is not None:
        tick(steps - checks[-1])
    network = Network(tuple(layer.float().cpu() for layer in kept))
    return Regressed(
        network=network,
        single=network.member(members - 1),
        left_out=left_out.double().cpu().numpy(),
        checks=tuple(checks),
        errors=tuple(errors),
        steps=best,
    )


def _deal(episode: NDArray[np.int64], folds: int, seed: int) -> tuple[list[Tensor], Tensor]:
    """Rows that each network sees (the last one all), and for each row who leaves it out."""
    names = np.unique(episode)
    everything = torch.from_numpy(np.arange(len(episode)))
    folds = min(folds, len(names))
    if folds < 2:  # one episode: nothing can be left out
        return [everything], torch.zeros_like(everything)
    of_episode = np.empty(len(names), dtype=np.int64)
    of_episode[np.random.default_rng(seed).permutation(len(names))] = np.arange(len(names)) % folds
    fold = of_episode[np.searchsorted(names, episode)]
    seen = [torch.from_numpy(np.flatnonzero(fold != k)) for k in range(folds)]
    return [*seen, everything], torch.from_numpy(fold)


def _in_units(layers: list[Tensor], centre: Tensor, spread: Tensor) -> list[Tensor]:
    """A copy of networks of standardised targets that predicts the targets themselves."""
    *hidden, last = (layer.clone() for layer in layers)
    last *= spread[:, None]
    last[:, -1] += centre
    return [*hidden, last]


def _left_out(layers: list[Tensor], inputs: Tensor, fold: Tensor) -> Tensor:
    """(rows,) what the network that leaves out a row's fold predicts for it, clipped to [0, 1]."""
    result = torch.empty(len(inputs), dtype=inputs.dtype, device=inputs.device)
    with torch.inference_mode():
        for k in range(int(fold.max()) + 1):
            rows = (fold == k).nonzero().squeeze(1)
            own = [layer[k : k + 1] for layer in layers]
            for part in torch.split(rows, BLOCK):
                result[part] = forward(own, inputs[part])[0]
    return result.clamp_(0.0, 1.0)
