"""(G.1) against torch.distributions and mpmath; where the first means come from."""

import math

import mpmath
import numpy as np
import pytest
import torch

from tightrope.posteriors import Gaussians, kaiming_means, kl_divergence

SHAPES = ((4, 5), (6, 7), (8, 1))  # of one member's layers, the bias in the last row


def gaussians(seed, members=3, scale=1.0):
    generator = torch.Generator().manual_seed(seed)
    draw = lambda: tuple(  # noqa: E731
        scale * torch.randn(members, *shape, generator=generator) for shape in SHAPES
    )
    return Gaussians(draw(), tuple(value - 3.0 for value in draw()))


def normals(distribution, member):
    """Each layer of one member as float64 Normals of torch."""
    return [
        torch.distributions.Normal(mean[member].double(), (0.5 * value[member].double()).exp())
        for mean, value in zip(distribution.means, distribution.log_variances, strict=True)
    ]


@pytest.mark.parametrize("scale", [0.01, 1.0, 3.0])
def test_the_divergence_is_the_one_of_torch_distributions(scale):
    """(G.1), summed over weights and biases of all layers, for each member on its own."""
    posterior, prior = gaussians(1, scale=scale), gaussians(2, scale=scale)
    found = kl_divergence(posterior, prior)
    assert found.dtype == np.float64
    assert found.shape == (3,)
    for member in range(3):
        pairs = zip(normals(posterior, member), normals(prior, member), strict=True)
        expected = sum(float(torch.distributions.kl_divergence(a, b).sum()) for a, b in pairs)
        assert found[member] == pytest.approx(expected, rel=1e-12)


def one_number(mean, log_variance):
    return Gaussians((torch.tensor([[[mean]]]),), (torch.tensor([[[log_variance]]]),))


def test_one_number_by_hand_and_in_the_right_direction():
    # KL(N(1, 1) || N(0, 4)) = (1/4 + 1/4 - 1 + ln 4) / 2;  the other way round it is
    # KL(N(0, 4) || N(1, 1)) = (4 + 1 - 1 - ln 4) / 2.
    narrow, wide = one_number(1.0, 0.0), one_number(0.0, 2 * math.log(2))
    forth, back = kl_divergence(narrow, wide)[0], kl_divergence(wide, narrow)[0]
    assert forth == pytest.approx((math.log(4) - 0.5) / 2, abs=1e-7)  # ln 2 in float32
    assert back == pytest.approx((4 - math.log(4)) / 2, abs=1e-6)


@pytest.mark.parametrize("ratio", [1e-3, 1e-6, -1e-5])
def test_small_divergences_keep_their_digits(ratio):
    """exp(r) - 1 - r, which plain arithmetic would lose to cancellation, against mpmath."""
    prior, posterior = one_number(0.0, -4.0), one_number(0.0, -4.0 + ratio)
    exact = mpmath.mpf(float(posterior.log_variances[0])) + 4
    with mpmath.workdps(50):
        expected = float((mpmath.expm1(exact) - exact) / 2)
    assert kl_divergence(posterior, prior)[0] == pytest.approx(expected, rel=1e-9)


def test_the_divergence_from_itself_is_zero_and_from_others_positive():
    for seed in range(5):
        one, other = gaussians(seed), gaussians(seed + 10)
        assert kl_divergence(one, one).tolist() == [0.0, 0.0, 0.0]
        assert (kl_divergence(one, other) > 0).all()
        nearly = Gaussians(tuple(mean * (1 + 1e-7) for mean in one.means), one.log_variances)
        assert (kl_divergence(nearly, one) >= 0).all()


def test_no_learned_number_escapes_the_divergence():
    """Moving any single mean or variance, biases included, costs nats."""
    prior = gaussians(3, members=1)
    for layer, shape in enumerate(SHAPES):
        for kind in ("means", "log_variances"):
            for place in np.ndindex(*shape):
                moved = [value.clone() for value in getattr(prior, kind)]
                moved[layer][(0, *place)] += 0.1
                both = {"means": prior.means, "log_variances": prior.log_variances}
                both[kind] = tuple(moved)
                assert kl_divergence(Gaussians(**both), prior)[0] > 1e-4, (kind, layer, place)


# --- where the first means come from -----------------------------------------------------------


def test_means_start_as_torch_starts_a_linear_layer():
    """Weights and biases uniform up to 1 / sqrt(fan-in): the limits that nn.Linear shows."""
    sizes = (27, 256, 64, 1)
    for mean, inputs, outputs in zip(
        kaiming_means(sizes, range(4)), sizes[:-1], sizes[1:], strict=True
    ):
        assert mean.shape == (4, inputs + 1, outputs)
        limit = 1 / math.sqrt(inputs)
        for part, own in ((mean[:, :-1], "weight"), (mean[:, -1], "bias")):
            assert part.abs().max() <= limit
            reference = getattr(torch.nn.Linear(inputs, outputs), own)
            assert reference.abs().max() <= limit
            if part.numel() > 250:
                assert part.abs().max() > 0.98 * limit
                # uniform: mean 0 and variance limit^2 / 3, within five standard errors
                error = limit / math.sqrt(part.numel())
                assert abs(float(part.mean())) < 5 * error / math.sqrt(3)
                assert abs(float(part.square().mean()) - limit**2 / 3) < 5 * limit * error * 0.3


def test_means_depend_on_their_own_seed_only():
    three, one = kaiming_means((3, 8, 1), [5, 6, 7]), kaiming_means((3, 8, 1), [6])
    for together, alone in zip(three, one, strict=True):
        assert torch.equal(together[1:2], alone)
        assert not torch.equal(together[0], together[1])


def test_a_member_is_a_batch_of_one_of_its_own_numbers():
    posterior, prior = gaussians(4), gaussians(5)
    together = kl_divergence(posterior, prior)
    for index in range(3):
        alone = posterior.member(index)
        assert (alone.members, alone.features) == (1, 3)
        for whole, part in zip(posterior.means, alone.means, strict=True):
            assert torch.equal(whole[index : index + 1], part)
        assert kl_divergence(alone, prior.member(index)) == pytest.approx(
            together[index : index + 1]
        )


def test_what_is_printed_shows_sizes_and_no_numbers():
    sizes = Gaussians(kaiming_means((3, 8, 1), [0, 1]), kaiming_means((3, 8, 1), [2, 3]))
    assert repr(sizes) == "Gaussians(2 members, 3 x 8 x 1)"
