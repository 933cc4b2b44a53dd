"""What a fit minimises: differentiable upper bounds on a risk or an excess.

An objective maps the losses of a mini-batch and the KL to one number. None of them needs to be
valid: the certificate is computed afterwards, by tightrope.bounds.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch
from torch import Tensor

from tightrope.bounds import kl_inverse_lower, kl_inverse_upper, xi

__all__ = ["OBJECTIVES", "Objective", "PosteriorStep", "inverse_kl", "mcallester"]


@dataclass(frozen=True)
class PosteriorStep:
    """One fit of a recursion: the rows it may use and the bound its posterior will be put into.

    Attributes:
        start: first row that the fit may use.
        stop: row after the last.
        n: independent units that the bound will be evaluated on.
        delta: failure probability of its statement.
        kappa: weight of the reference loss; 0 for a bound on the risk itself.
    """

    start: int
    stop: int
    n: int
    delta: float
    kappa: float

    @cached_property
    def nats(self) -> float:
        """What one statement costs in the budgets of (P.1) and (P.2), ln(xi(n) / delta)."""
        return math.log(float(xi(self.n)) / self.delta)


# (losses (rows,), reference losses or None, KL, step) -> a number, all with gradients
Objective = Callable[[Tensor, Tensor | None, Tensor, PosteriorStep], Tensor]


def mcallester(losses: Tensor, reference: Tensor | None, kl: Tensor, step: PosteriorStep) -> Tensor:
    r"""McAllester's bound, the paper's objective.

    .. math:: \hat E + (1+\kappa)\sqrt{(\mathrm{KL} + \ln(2\sqrt n/\delta)) / (2n)}  \quad (F.1)

    With delta = :math:`\delta/T` this is the paper's :math:`\ln(2T\sqrt{N_t}/\delta)`.
    """
    excess = losses if reference is None else losses - step.kappa * reference
    nats = math.log(2 * math.sqrt(step.n) / step.delta)
    penalty = ((kl + nats) / (2 * step.n)).sqrt()
    return excess.mean() + (1 + step.kappa) * penalty


def inverse_kl(losses: Tensor, reference: Tensor | None, kl: Tensor, step: PosteriorStep) -> Tensor:
    r"""The certificate's own bound, (P.1) or (P.2) at mu = 0, differentiated through its inverse.

    .. math:: \mathrm{kl}^{-1,+}(\hat x^+, \Psi) - \kappa\,\mathrm{kl}^{-1,-}(\hat x^-/\kappa, \Psi)
              \quad (F.2)
    """
    if reference is None:
        budget = (kl + step.nats) / step.n
        return _inverse(losses.mean(), budget, kl_inverse_upper)
    excess = losses - step.kappa * reference
    budget = (kl + step.nats + math.log(2)) / step.n  # for two statements
    plus = excess.clamp(min=0).mean()
    minus = (-excess).clamp(min=0).mean()
    upper = _inverse(plus, budget, kl_inverse_upper)
    lower = _inverse(minus / step.kappa, budget, kl_inverse_lower)
    return upper - step.kappa * lower


def _inverse(q: Tensor, budget: Tensor, inverse: Any) -> Tensor:
    result: Tensor = _Inverse.apply(q, budget, inverse)  # type: ignore[no-untyped-call]
    return result


class _Inverse(torch.autograd.Function):
    """kl inverses with gradients by the implicit function theorem: kl(q || p(q, c)) = c."""

    @staticmethod
    def forward(ctx: Any, q: Tensor, budget: Tensor, inverse: Any) -> Tensor:
        mean = q.detach().double().clamp(1e-9, 1 - 1e-9)
        p = inverse(mean.cpu().numpy(), budget.detach().double().cpu().numpy())
        p = torch.as_tensor(p, device=mean.device).clamp(1e-12, 1 - 1e-12)
        slope = (p - mean) / (p * (1 - p))  # of kl in p
        slope = torch.where(slope.abs() < 1e-9, torch.full_like(slope, 1e-9), slope)
        by_mean = torch.log(mean / p) - torch.log((1 - mean) / (1 - p))  # of kl in q
        ctx.save_for_backward(-by_mean / slope, 1 / slope)
        return p.to(q.dtype)

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:
        by_q, by_budget = ctx.saved_tensors
        (gradient,) = gradients
        return gradient * by_q.to(gradient.dtype), gradient * by_budget.to(gradient.dtype), None


OBJECTIVES: dict[str, Objective] = {"mcallester": mcallester, "inverse-kl": inverse_kl}
