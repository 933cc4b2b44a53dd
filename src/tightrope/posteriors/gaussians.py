"""Independent Gaussians over every learned number of a batch of networks, and their KL.

All functions work on `members` networks at once: repetitions of the same fit share one tensor
program. A layer is one tensor of shape (members, inputs + 1, outputs); its last row is the bias.
"""

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

__all__ = ["Gaussians", "kaiming_means", "kl_divergence"]


@dataclass(frozen=True, repr=False)
class Gaussians:
    """A factorised Gaussian over the weights and biases of each member's network."""

    means: tuple[Tensor, ...]  # per layer (members, inputs + 1, outputs)
    log_variances: tuple[Tensor, ...]  # the same shapes

    @property
    def members(self) -> int:
        """How many networks there are."""
        return int(self.means[0].shape[0])

    @property
    def features(self) -> int:
        """How many inputs each network has."""
        return int(self.means[0].shape[1]) - 1

    def member(self, index: int) -> "Gaussians":
        """One member, as a batch of one."""
        pick = slice(index, index + 1)
        return Gaussians(
            tuple(mean[pick] for mean in self.means), tuple(v[pick] for v in self.log_variances)
        )

    def to(self, device: str) -> "Gaussians":
        """The same on that device."""
        return Gaussians(
            tuple(mean.to(device) for mean in self.means),
            tuple(v.to(device) for v in self.log_variances),
        )

    def __repr__(self) -> str:
        sizes = [self.features, *(mean.shape[2] for mean in self.means)]
        return f"Gaussians({self.members} members, {' x '.join(map(str, sizes))})"


def kaiming_means(sizes: Sequence[int], seeds: Sequence[int]) -> tuple[Tensor, ...]:
    """Kaiming-uniform weights and biases, as torch starts a linear layer; one set per seed.

    Always drawn on the CPU, so that whoever verifies a certificate can draw them again.
    """
    generators = [torch.Generator().manual_seed(seed) for seed in seeds]
    layers = []
    for inputs, outputs in itertools.pairwise(sizes):
        limit = 1.0 / math.sqrt(inputs)  # torch's a = sqrt(5) makes both limits 1/sqrt(fan-in)
        draws = [torch.rand(inputs + 1, outputs, generator=g, device="cpu") for g in generators]
        layers.append((2.0 * torch.stack(draws) - 1.0) * limit)
    return tuple(layers)


def kl_divergence(posterior: Gaussians, prior: Gaussians) -> NDArray[np.float64]:
    r"""KL of posterior from prior, one per member, in float64 and closed form.

    .. math:: \tfrac12\sum_i \Bigl(\tfrac{\sigma_i^2 + (\mu_i-\mu_{0,i})^2}{\sigma_{0,i}^2} - 1
              + \ln\tfrac{\sigma_{0,i}^2}{\sigma_i^2}\Bigr)  \quad (G.1)
    """
    total = torch.zeros(posterior.members, dtype=torch.float64, device=posterior.means[0].device)
    layers = zip(
        posterior.means, posterior.log_variances, prior.means, prior.log_variances, strict=True
    )
    for mean, log_variance, prior_mean, prior_log_variance in layers:
        ratio = log_variance.double() - prior_log_variance.double()
        shift = (mean.double() - prior_mean.double()).square() * (
            -prior_log_variance.double()
        ).exp()
        # exp(r) - 1 - r is at least 0; expm1 keeps its digits for small r
        total += 0.5 * (torch.expm1(ratio) - ratio + shift).sum(dim=(1, 2))
    return total.clamp(min=0.0).cpu().numpy()
