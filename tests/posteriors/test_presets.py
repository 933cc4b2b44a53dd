"""First priors: drawn from a seed, or put around networks that were fitted to free data."""

import numpy as np
import pytest
import torch
from recordings import same

from tightrope.posteriors import (
    OBJECTIVES,
    PRESETS,
    Network,
    informed_prior,
    kaiming_means,
    kl_divergence,
    random_prior,
)
from tightrope.seeds import Stream, child_seed


@pytest.mark.parametrize("name", PRESETS)
@pytest.mark.parametrize("features", [3, 27])
def test_the_gaussians_hold_every_number_of_two_layers_of_256_and_nothing_else(name, features):
    """Layer normalisation has nothing to learn; biases are in the KL like everything else."""
    prior = random_prior(PRESETS[name], features, [0, 1])
    expected = (features + 1) * 256 + 257 * 256 + 257
    for numbers in (prior.means, prior.log_variances):
        assert sum(value[0].numel() for value in numbers) == expected
        assert all(len(value) == 2 for value in numbers)


def test_the_papers_prior_has_log_variance_minus_4_6_everywhere_and_learns_nothing_beforehand():
    for value in random_prior(PRESETS["paper"], 5, [0]).log_variances:
        assert (value == torch.tensor(-4.6)).all()
    assert PRESETS["paper"].regression is None
    assert not PRESETS["paper"].clock


@pytest.mark.parametrize("name", PRESETS)
def test_presets_go_by_their_own_name_and_by_objectives_that_there_are(name):
    assert PRESETS[name].name == name
    assert PRESETS[name].fit.objective in OBJECTIVES


@pytest.mark.parametrize("name", PRESETS)
def test_a_random_prior_has_the_presets_variance_and_kaiming_means_of_its_own_stream(name):
    prior = random_prior(PRESETS[name], 4, [8])
    expected = kaiming_means((4, 256, 256, 1), [child_seed(8, Stream.PRIOR_MEANS, 0)])
    for mean, value, own in zip(prior.means, prior.log_variances, expected, strict=True):
        assert torch.equal(mean, own)
        assert {float(v) for v in value.unique()} == {
            float(np.float32(PRESETS[name].prior_log_variance))
        }


def test_members_of_a_random_prior_depend_on_their_own_seed_and_are_unrelated():
    together = random_prior(PRESETS["tight"], 4, [1, 2, 3])
    for index, seed in enumerate((1, 2, 3)):
        assert same(together.member(index), random_prior(PRESETS["tight"], 4, [seed]))
    middle = together.means[1].flatten(start_dim=1).numpy()  # (3, 257 * 256)
    correlations = np.corrcoef(middle)[np.triu_indices(3, 1)]
    assert (abs(correlations) < 5 / np.sqrt(middle.shape[1])).all()


def networks(count, features=4):
    return [Network(kaiming_means((features, 256, 256, 1), [seed])) for seed in range(count)]


@pytest.mark.parametrize("name", PRESETS)
def test_an_informed_prior_has_the_networks_weights_and_the_presets_variance(name):
    given = networks(3)
    prior = informed_prior(PRESETS[name], given)
    assert (prior.members, prior.features) == (3, 4)
    for layer, (mean, value) in enumerate(zip(prior.means, prior.log_variances, strict=True)):
        assert mean.shape == value.shape
        for member in range(3):
            assert torch.equal(mean[member], given[member].layers[layer][0])
        assert {float(v) for v in value.unique()} == {
            float(np.float32(PRESETS[name].informed_log_variance))
        }
    assert same(prior.member(1), informed_prior(PRESETS[name], given[1:2]))


def test_priors_around_the_same_network_are_the_same_prior():
    one = networks(1)
    twice = informed_prior(PRESETS["tight"], one * 2)
    assert kl_divergence(twice.member(0), twice.member(1)).tolist() == [0.0]
    assert kl_divergence(informed_prior(PRESETS["tight"], networks(2)[1:]), twice.member(0)) > 1
