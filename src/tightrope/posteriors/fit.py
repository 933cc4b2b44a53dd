"""Fit one portion: from a prior to a posterior, several members at once."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from tightrope.devices import threads
from tightrope.posteriors.gaussians import Gaussians
from tightrope.posteriors.network import Sampling, draw, predict
from tightrope.posteriors.objectives import OBJECTIVES, Stage
from tightrope.posteriors.rows import Rows

__all__ = ["Curves", "FitSettings", "fit", "settled"]

Tick = Callable[[int], None]  # called with the number of steps just done


@dataclass(frozen=True)
class FitSettings:
    """How to fit.

    Attributes:
        objective: a key of OBJECTIVES.
        sampling: local reparameterisation or weight sampling (Bayes by backprop).
        learning_rate: of Adam, at the start.
        decay: factor on the learning rate after every `decay_epochs` epochs.
        decay_epochs: epochs between decays.
        epochs: how many.
        epoch_steps: mini-batches per epoch: fixed, so that a portion of three episodes gets as
            many updates as one of a hundred.
        batch: rows per mini-batch.
        clip: largest norm of the gradient of one member.
        whitened: learn shifts of the means in units of the prior's standard deviation, so that one
            learning rate serves every prior scale.
    """

    objective: str
    sampling: Sampling
    learning_rate: float
    decay: float
    decay_epochs: int
    epochs: int
    epoch_steps: int
    batch: int
    clip: float
    whitened: bool

    @property
    def steps(self) -> int:
        """Updates in one fit."""
        return self.epochs * self.epoch_steps


@dataclass(frozen=True)
class Curves:
    """Means over each epoch, one row per member, and whether the fit had settled at the end."""

    loss: NDArray[np.float64]  # (members, epochs)
    kl: NDArray[np.float64]
    objective: NDArray[np.float64]

    @property
    def converged(self) -> NDArray[np.bool_]:
        """(members,) whether each member's objective had settled."""
        return np.array([settled(curve) for curve in self.objective])


def settled(objective: Sequence[float] | NDArray[np.float64]) -> bool:
    """Whether the last quarter of a run changed the objective by no more than 2 %, or than noise.

    Means over a quarter of the run are compared; noise is two standard errors of their difference,
    from the scatter of the epochs within each (where there are enough to tell). A single epoch
    says nothing: it has not settled.
    """
    if len(objective) < 2:
        return False
    quarter = max(1, len(objective) // 4)
    last = np.asarray(objective, dtype=np.float64)[-2 * quarter :].reshape(2, -1)
    before, after = last.mean(axis=1)
    scatter = last.var(axis=1, ddof=1).sum() if quarter > 3 else 0.0
    return bool(abs(before - after) <= max(0.02 * abs(before), 2.0 * np.sqrt(scatter / quarter)))


def fit(
    prior: Gaussians,
    rows: Rows,
    stage: Stage,
    settings: FitSettings,
    seeds: Sequence[int],
    *,
    device: str = "cpu",
    tick: Tick | None = None,
) -> tuple[Gaussians, Curves]:
    """The posterior of each member, started at its prior, and how the fit went.

    The reference of an excess is the prior itself, drawn once for every row before the fit: its
    losses do not change while the posterior does.

    Args:
        prior: where the fit starts and what the KL is measured from.
        rows: the data that the posterior may see.
        stage: the bound that will be evaluated.
        settings: how to fit.
        seeds: one per member: mini-batches and noise; a member does not depend on the others.
        device: to compute on, where the noise is drawn as well: another one gives other numbers.
            The posterior comes back to the CPU.
        tick: progress.
    """
    objective = OBJECTIVES[settings.objective]
    prior, rows = prior.to(device), rows.to(device)
    move = _Move(prior, settings.whitened)
    parameters = [move.shifts, move.ratios]
    optimiser = torch.optim.Adam(parameters, lr=settings.learning_rate, fused=True)
    schedule = torch.optim.lr_scheduler.StepLR(optimiser, settings.decay_epochs, settings.decay)
    noise = [torch.Generator(device).manual_seed(seed) for seed in seeds]
    batches = _Batches(len(rows), settings.batch, noise)
    before = _prior_losses(prior, rows, noise, settings) if stage.kappa > 0 else None
    sums = torch.zeros(settings.epochs, 3, prior.members, dtype=torch.float64, device=device)
    # One network's mini-batches are so small that more threads wait for each other.
    with threads(1 if prior.members == 1 else torch.get_num_threads()):
        for epoch in range(settings.epochs):
            for _ in range(settings.epoch_steps):
                picked = batches.next()
                drawn = _predict_soft(move.posterior(), rows.inputs[picked], noise, settings)
                losses = (drawn - rows.targets[picked]).square()
                reference = None if before is None else before.gather(1, picked)
                kl = move.kl()
                value = objective(losses, reference, kl, stage)
                optimiser.zero_grad(set_to_none=True)
                value.sum().backward()  # type: ignore[no-untyped-call]
                _clip(parameters, settings.clip)
                optimiser.step()
                sums[epoch] += torch.stack([losses.mean(dim=1), kl, value]).detach()
            schedule.step()
            if tick is not None:
                tick(settings.epoch_steps)
    curves = (sums / settings.epoch_steps).permute(1, 2, 0).cpu().numpy()  # (3, members, epochs)
    with torch.no_grad():
        found = move.posterior()  # whose layers are views of one tensor
        layers = (tuple(map(torch.clone, part)) for part in (found.means, found.log_variances))
        return Gaussians(*layers).to("cpu"), Curves(*curves)


class _Move:
    """A posterior as a move away from its prior: shifts of the means, ratios of the variances.

    Both are one flat tensor for all layers, (members, learned numbers): what is done to every
    number alike is then one operation instead of one per layer.
    """

    def __init__(self, prior: Gaussians, whitened: bool) -> None:
        self.shapes = [mean.shape[1:] for mean in prior.means]
        self.means, self.log_variances = _flat(prior.means), _flat(prior.log_variances)
        deviations = (0.5 * self.log_variances).exp()
        self.units = deviations if whitened else torch.ones_like(deviations)
        self.weights = (self.units / deviations).square()
        self.shifts = torch.zeros_like(self.means).requires_grad_()
        self.ratios = torch.zeros_like(self.means).requires_grad_()

    def posterior(self) -> Gaussians:
        means = torch.addcmul(self.means, self.units, self.shifts)
        return Gaussians(self._layers(means), self._layers(self.log_variances + self.ratios))

    def kl(self) -> Tensor:
        """The same as kl_divergence, in float32 and with a gradient."""
        terms = torch.addcmul(torch.expm1(self.ratios) - self.ratios, self.weights, self.shifts**2)
        return 0.5 * terms.sum(dim=1)

    def _layers(self, flat: Tensor) -> tuple[Tensor, ...]:
        parts = torch.split(flat, [shape.numel() for shape in self.shapes], dim=1)
        whole = zip(parts, self.shapes, strict=True)
        return tuple(part.reshape(-1, *shape) for part, shape in whole)


def _flat(layers: Sequence[Tensor]) -> Tensor:
    return torch.cat([layer.flatten(1) for layer in layers], dim=1)


def _prior_losses(
    prior: Gaussians, rows: Rows, noise: list[torch.Generator], settings: FitSettings
) -> Tensor:
    """(members, rows) losses of predictors drawn from the prior."""
    with torch.no_grad():
        parts = torch.split(rows.inputs, 4096)
        drawn = torch.cat([predict(prior, part, noise, settings.sampling) for part in parts], dim=1)
        return (drawn - rows.targets).square()


def _predict_soft(
    posterior: Gaussians, inputs: Tensor, noise: list, settings: FitSettings
) -> Tensor:
    """Predictions for training: clipped in value, but with a gradient outside [0, 1] as well."""
    raw = draw(posterior, inputs, noise, settings.sampling)
    return raw + (raw.clamp(0.0, 1.0) - raw).detach()


class _Batches:
    """Mini-batches, each member's in an order of its own: permutations, one after the other."""

    def __init__(self, rows: int, size: int, noise: list[torch.Generator]) -> None:
        self.rows, self.size, self.noise = rows, min(size, rows), noise
        self.start = rows

    def next(self) -> Tensor:
        """(members, batch) row numbers."""
        if self.start + self.size > self.rows:
            orders = [
                torch.randperm(self.rows, generator=one, device=one.device) for one in self.noise
            ]
            self.orders, self.start = torch.stack(orders), 0
        self.start += self.size
        return self.orders[:, self.start - self.size : self.start]


def _clip(parameters: list[Tensor], limit: float) -> None:
    """Scale the gradient of each member to a norm of at most `limit`."""
    gradients = [p.grad for p in parameters if p.grad is not None]
    norms = torch.stack([torch.linalg.vector_norm(g, dim=1) for g in gradients])
    scale = (limit / (torch.linalg.vector_norm(norms, dim=0) + 1e-6)).clamp(max=1.0)
    for gradient in gradients:
        gradient.mul_(scale[:, None])
