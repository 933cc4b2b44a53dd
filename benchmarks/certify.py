"""Time of one rec-6 certificate and of 5 repetitions x 4 schemes, and of a plain loop, in one run.

    python benchmarks/certify.py [--preset tight] [--threads 2]

The data are synthetic: 100 validation episodes of 166 thinned steps with 27 features, so 16,600
pairs. The plain side computes the same rec-6 certificate one member at a time in unbatched
PyTorch: torch.distributions for the weights' KL, one optimiser step per mini-batch, no shared
first-layer moments in the evaluation.
"""

import argparse
import time

import numpy as np
import torch

from tightrope.bounds import monte_carlo_lower, monte_carlo_upper, pac_bayes_kl, split_kl
from tightrope.certificates import Options, certify_many
from tightrope.certificates.assess import links
from tightrope.certificates.data import prepare
from tightrope.posteriors import OBJECTIVES, initial_prior
from tightrope.rollouts import Episode, Episodes, join

SCHEMES = ("nonrec-noninf", "nonrec-inf", "rec-2", "rec-6")


def synthetic(episodes: int, steps: int, features: int) -> Episodes:
    rng = np.random.default_rng(0)
    direction = rng.standard_normal(features)
    parts = []
    for _ in range(episodes):
        observations = rng.standard_normal((steps, features)).cumsum(axis=0) * 0.1
        rewards = np.tanh(observations @ direction) + 0.1 * rng.standard_normal(steps)
        parts.append(Episode(observations.astype(np.float32), rewards, False, True))
    return join(parts)


def plain_forward(means, log_variances, inputs):
    hidden = inputs
    for index, (mean, log_variance) in enumerate(zip(means, log_variances, strict=True)):
        centre = hidden @ mean[:-1] + mean[-1]
        variance = log_variance.exp()
        spread = hidden**2 @ variance[:-1] + variance[-1]
        hidden = centre + torch.sqrt(spread) * torch.randn_like(centre)
        if index < 2:
            hidden = torch.relu(torch.nn.functional.layer_norm(hidden, (hidden.shape[-1],)))
    return hidden.squeeze(-1)


def plain_kl(means, log_variances, prior_means, prior_log_variances):
    normal = torch.distributions.Normal
    total = torch.zeros(())
    for layer in zip(means, log_variances, prior_means, prior_log_variances, strict=True):
        mean, log_variance, prior_mean, prior_log_variance = layer
        posterior = normal(mean, (0.5 * log_variance).exp())
        prior = normal(prior_mean, (0.5 * prior_log_variance).exp())
        total = total + torch.distributions.kl_divergence(posterior, prior).sum()
    return total


def plain_rec_6(data, options: Options) -> float:
    torch.manual_seed(0)
    settings, objective = options.recipe.settings, OBJECTIVES[options.recipe.settings.objective]
    first = initial_prior(options.recipe, data.rows.inputs.shape[1], data.pilot, [0])
    prior = [m[0] for m in first.means], [v[0] for v in first.log_variances]
    bound, ledger = 0.0, options.ledger()
    starts = [0, *np.cumsum(options.plan.sizes(data.validation.episodes))]
    for t, link in enumerate(links(data, options)):
        units = [torch.exp(0.5 * v) if settings.whitened else torch.ones_like(v) for v in prior[1]]
        shifts = [torch.zeros_like(m, requires_grad=True) for m in prior[0]]
        ratios = [torch.zeros_like(m, requires_grad=True) for m in prior[0]]
        optimiser = torch.optim.Adam([*shifts, *ratios], lr=settings.learning_rate)
        schedule = torch.optim.lr_scheduler.StepLR(optimiser, settings.decay_epochs, settings.decay)
        inputs, targets = data.rows.inputs[: link.stop], data.rows.targets[: link.stop]
        with torch.no_grad():
            before = (plain_forward(*prior, inputs).clamp(0, 1) - targets) ** 2
        for step in range(settings.steps):
            picked = torch.randint(len(inputs), (min(settings.batch, len(inputs)),))
            x, y = inputs[picked], targets[picked]
            means = [m + u * s for m, u, s in zip(prior[0], units, shifts, strict=True)]
            spreads = [v + r for v, r in zip(prior[1], ratios, strict=True)]
            losses = (plain_forward(means, spreads, x) - y) ** 2
            reference = before[picked][None] if t else None
            kl = plain_kl(means, spreads, *prior)
            value = objective(losses[None], reference, kl[None], link.stage).sum()
            optimiser.zero_grad()
            value.backward()
            torch.nn.utils.clip_grad_norm_([*shifts, *ratios], settings.clip)
            optimiser.step()
            if (step + 1) % settings.epoch_steps == 0:
                schedule.step()
        posterior = [m.detach() for m in means], [v.detach() for v in spreads]
        begin = data.row_of_episode(int(starts[t]))
        x, y = data.rows.inputs[begin:], data.rows.targets[begin:]
        plus, minus = [], []
        with torch.no_grad():
            divergence = float(plain_kl(*posterior, *prior))
            for _ in range(options.mc_passes):
                excess = (plain_forward(*posterior, x).clamp(0, 1) - y) ** 2
                if t:
                    excess = excess - 0.5 * (plain_forward(*prior, x).clamp(0, 1) - y) ** 2
                plus.append(float(excess.clamp(min=0).mean()))
                minus.append(float((-excess).clamp(min=0).mean()))
        n, draws = len(y), options.mc_passes * len(y)
        if t == 0:
            upper = monte_carlo_upper(
                np.mean(plus), draws=draws, delta=ledger.failure("portion 1: draws")
            )
            bound = float(
                pac_bayes_kl(upper, kl=divergence, n=n, delta=ledger.failure("portion 1: risk"))
            )
        else:
            share = ledger.failure(f"portion {t + 1}: draws plus")
            upper = monte_carlo_upper(np.mean(plus), draws=draws, delta=share)
            lower = 0.5 * monte_carlo_lower(np.mean(minus) / 0.5, draws=draws, delta=share)
            delta = ledger.failure(f"portion {t + 1}: excess")
            excess_bound = split_kl(
                upper, lower, kl=divergence, n=n, delta=delta, low=-0.5, high=1.0, mu=0.0
            )
            bound = float(excess_bound) + 0.5 * bound
        prior = posterior
    return bound


def timed(function):
    start = time.perf_counter()
    result = function()
    return result, time.perf_counter() - start


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--preset", default="tight")
    parser.add_argument("--threads", type=int, default=2)
    chosen = parser.parse_args()
    torch.set_num_threads(chosen.threads)
    episodes = synthetic(110, 166, 27)
    request = {"preset": chosen.preset, "thin": 1, "gamma": 0.9}
    one = Options(scheme="rec-6", **request)
    data = prepare(episodes, one)
    (certificate,), single = timed(lambda: certify_many(episodes, [one], [0])[0])
    _, five = timed(lambda: certify_many(episodes, [one], range(5)))
    requests = [Options(scheme=scheme, **request) for scheme in SCHEMES]
    _, twenty = timed(lambda: certify_many(episodes, requests, range(5)))
    plain_bound, plain = timed(lambda: plain_rec_6(data, one))
    print(f"{len(data.validation):,} pairs x {data.rows.inputs.shape[1]} features, {chosen.preset}")
    print(f"  one rec-6 certificate          {single:7.1f} s   bound {certificate.bound:.5f}")
    print(f"  the same in a plain loop       {plain:7.1f} s   bound {plain_bound:.5f}")
    print(f"  five repetitions of rec-6      {five:7.1f} s   {five / single:.2f} x one")
    print(f"  5 repetitions x 4 schemes      {twenty:7.1f} s   {twenty / single:.2f} x one")


if __name__ == "__main__":
    main()
