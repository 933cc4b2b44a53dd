"""Fit a posterior: from a prior, by gradient descent on a bound."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Generator, Tensor

from tightrope.posteriors.gaussians import Gaussians, draw
from tightrope.posteriors.objectives import OBJECTIVES, PosteriorStep
from tightrope.posteriors.optimiser import Adam
from tightrope.posteriors.presets import FitSettings
from tightrope.system import threads

__all__ = ["Curves", "fit_posterior"]


@dataclass(frozen=True)
class Curves:
    """Means over each epoch of a fit."""

    loss: tuple[float, ...]
    kl: tuple[float, ...]
    objective: tuple[float, ...]


def fit_posterior(
    prior: Gaussians,
    inputs: NDArray[np.float32],
    targets: NDArray[np.float32],
    step: PosteriorStep,
    settings: FitSettings,
    seed: int,
    *,
    device: str = "cpu",
    advance: Callable[[int], None] | None = None,
) -> tuple[Gaussians, Curves]:
    """The posterior, started at its prior, and how the fit went.

    The reference of an excess is the prior itself, drawn once for every row before the fit: its
    losses do not change while the posterior does.

    Args:
        prior: where the fit starts and what the KL is measured from.
        inputs: (rows, features) of all rows; the fit sees those from step.start to step.stop only.
        targets: (rows,) normalised returns.
        step: the rows to use, and the bound that will be evaluated.
        settings: how to fit.
        seed: of mini-batches and noise.
        device: to compute on, where the noise is drawn as well: another one gives other numbers.
        advance: called with the number of updates just done.
    """
    objective = OBJECTIVES[settings.objective]
    rows = torch.from_numpy(inputs[step.start : step.stop]).to(device)
    goals = torch.from_numpy(targets[step.start : step.stop]).to(device)
    generator = Generator(device).manual_seed(seed)
    move = _Move(prior, settings.whitened, device)
    adam = Adam([move.shifts, move.ratios])
    sums = torch.zeros(settings.epochs, 3, dtype=torch.float64, device=device)

    def outputs(part: Tensor) -> Tensor:
        return draw(move.layers(), part, generator, settings.sampling, prior.layer_norm)

    with threads(1):  # the mini-batches are so small that more threads wait for each other
        before = None
        if step.kappa > 0:
            with torch.no_grad():
                drawn = torch.cat([outputs(part) for part in torch.split(rows, 4096)])
                before = (drawn.clamp(0.0, 1.0) - goals).square()
        batches = _batches(len(rows), settings.batch, generator)
        for epoch in range(settings.epochs):
            rate = settings.learning_rate * settings.decay ** (epoch // settings.decay_epochs)
            for _ in range(settings.epoch_steps):
                picked = next(batches)
                raw = outputs(rows[picked])
                # Clipped in value, but with a gradient outside [0, 1] as well.
                drawn = raw + (raw.clamp(0.0, 1.0) - raw).detach()
                losses = (drawn - goals[picked]).square()
                kl = move.kl()
                value = objective(losses, None if before is None else before[picked], kl, step)
                adam.descend(value, rate, settings.clip)
                sums[epoch] += torch.stack([losses.mean(), kl, value]).detach()
            if advance is not None:
                advance(settings.epoch_steps)
    curves = (sums / settings.epoch_steps).T.tolist()
    with torch.no_grad():
        fitted = [(mean.cpu().numpy(), value.cpu().numpy()) for mean, value in move.layers()]
    means, log_variances = zip(*fitted, strict=True)
    return Gaussians(means, log_variances, prior.layer_norm), Curves(*map(tuple, curves))


def _batches(rows: int, size: int, generator: Generator) -> Iterator[Tensor]:
    """Row numbers of mini-batches without end: permutations, one after the other."""
    size = min(size, rows)
    while True:
        order = torch.randperm(rows, generator=generator, device=generator.device)
        yield from torch.split(order[: rows - rows % size], size)


class _Move:
    """A posterior as a move away from its prior: shifts of the means, ratios of the variances.

    Both are one flat tensor for all layers: what is done to every number alike is then one
    operation instead of one per layer.
    """

    def __init__(self, prior: Gaussians, whitened: bool, device: str) -> None:
        self.shapes = [mean.shape for mean in prior.means]
        self.means, self.log_variances = (
            torch.from_numpy(np.concatenate([layer.ravel() for layer in layers])).to(device)
            for layers in (prior.means, prior.log_variances)
        )
        deviations = (0.5 * self.log_variances).exp()
        self.units = deviations if whitened else torch.ones_like(deviations)
        self.weights = (self.units / deviations).square()
        self.shifts = torch.zeros_like(self.means).requires_grad_()
        self.ratios = torch.zeros_like(self.means).requires_grad_()

    def layers(self) -> list[tuple[Tensor, Tensor]]:
        """Means and log-variances of each layer of the posterior."""
        means = torch.addcmul(self.means, self.units, self.shifts)
        log_variances = self.log_variances + self.ratios
        sizes = [rows * columns for rows, columns in self.shapes]
        parts = zip(
            *(torch.split(v, sizes) for v in (means, log_variances)), self.shapes, strict=True
        )
        return [(mean.view(shape), value.view(shape)) for mean, value, shape in parts]

    def kl(self) -> Tensor:
        """The same as kl_divergence, in float32 and with a gradient."""
        terms = torch.addcmul(torch.expm1(self.ratios) - self.ratios, self.weights, self.shifts**2)
        return 0.5 * terms.sum()
