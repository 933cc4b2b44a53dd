"""The perceptron in numpy is torch's function, and the same after reading its file back."""

import dataclasses
import hashlib
import json

import custom_environments
import numpy as np
import pytest
import torch
from refusals import refused
from safetensors import safe_open
from safetensors.numpy import load_file, save_file
from torch.nn import functional

from tightrope import demo
from tightrope.environments import make_env
from tightrope.errors import InputError
from tightrope.files import tensors_format
from tightrope.policies import (
    POLICY_FORMAT,
    Normalizer,
    check_fit,
    load_mlp,
    load_policy,
    save_mlp,
)
from tightrope.rollouts import collect, is_recording, save

RNG = np.random.default_rng(0)
OBSERVATIONS = RNG.normal(0, 1, (64, 5)).astype(np.float32)
NOISE = RNG.normal(0, 1, (64, 2)).astype(np.float32)
NORMALIZER = Normalizer(np.full(5, 0.5, np.float32), np.full(5, 2.0, np.float32), 0.75)
NORMS = tuple(
    (RNG.normal(1, 0.5, 16).astype(np.float32), RNG.normal(0, 0.5, 16).astype(np.float32))
    for _ in range(2)
)
DOUBLED = tuple(RNG.normal(0, 0.5, (a, b)).astype("f4") for a, b in ((5, 16), (32, 16), (32, 2)))
STATE_DEPENDENT = (RNG.normal(0, 0.1, (16, 2)).astype(np.float32), np.zeros(2, np.float32))

VARIANTS = {
    "clipped": {},
    "squashed": {"head": "squashed"},
    "discrete": {"head": "discrete", "low": np.zeros(0, "f4"), "high": np.zeros(0, "f4")},
    "another activation": {"activation": "ELU"},
    "normalised": {"normalizer": NORMALIZER},
    "with a spread": {"log_std": (None, np.full(2, -1.0, np.float32))},
    "with layer norm": {"norms": NORMS},
    "as our agents have it": {"norms": NORMS, "weights": DOUBLED, "activation": "CReLU"},
    "with a spread of each state": {"head": "squashed", "log_std": STATE_DEPENDENT},
}


OURS = VARIANTS["as our agents have it"]


def by_torch(policy, rows):
    """Layer norm and CReLU in float64, written out independently of the package."""
    hidden = torch.from_numpy(rows).double()
    for index, (weight, bias) in enumerate(zip(policy.weights, policy.biases, strict=True)):
        output = hidden @ torch.from_numpy(weight).double() + torch.from_numpy(bias)
        if index < len(policy.norms):
            scale, shift = (torch.from_numpy(each).double() for each in policy.norms[index])
            output = functional.layer_norm(output, scale.shape, scale, shift)
        hidden = torch.cat([output.relu(), (-output).relu()], dim=1)
    return output.numpy()


def test_actions_are_the_outputs_of_the_torch_network(small_policy):
    """Also where the epsilon of layer norm decides: nearly equal pre-activations in a row."""
    wide = {"low": np.full(2, -1e6, "f4"), "high": np.full(2, 1e6, "f4")}
    policy = dataclasses.replace(small_policy(5, 2), **OURS, **wide)
    flat = (policy.weights[0] * np.float32(1e-3), *policy.weights[1:])
    rows = OBSERVATIONS.copy()
    for weights in (policy.weights, flat):
        changed = dataclasses.replace(policy, weights=weights)
        expected = by_torch(changed, OBSERVATIONS)
        np.testing.assert_allclose(changed.act(rows, NOISE), expected, rtol=1e-3, atol=1e-4)
    np.testing.assert_array_equal(rows, OBSERVATIONS)  # left as they were


def test_layers_that_do_not_fit_are_an_input_error(small_policy):
    policy = dataclasses.replace(small_policy(5, 2), **OURS)
    ones = lambda *shape: np.ones(shape, np.float32)  # noqa: E731
    first, second, last = policy.weights
    for changes in (
        *[{"weights": (first, ones(16, 16), last)}, {"weights": (first, second, ones(16, 2))}],
        *[{"weights": (first, ones(32), last)}, {"weights": (ones(), second, last)}],
        *[{"biases": (ones(7), *policy.biases[1:])}, {"biases": policy.biases[:2]}],
        *[{"norms": NORMS[:1]}, {"norms": (*NORMS, NORMS[0])}, {"weights": (), "biases": ()}],
        {"norms": (NORMS[0], (ones(12), ones(16)))},
        *[{"log_std": (ones(16, 2), ones(2))}, {"log_std": (None, ones(3))}],
        *[{"normalizer": Normalizer(np.zeros(1), np.ones(1), 1.0)}, {"head": "wooden"}],
        *[{"low": ones(4), "high": ones(4)}, {"activation": "Sine"}],
    ):
        with refused(r"expected .*found"):
            dataclasses.replace(policy, **changes)
    for changes in ({"norms": ()}, {"log_std": (ones(32, 2), ones(2))}):
        dataclasses.replace(policy, **changes)


@pytest.fixture
def stored(tmp_path, small_policy):
    path = tmp_path / "policy.safetensors"
    save_mlp(small_policy(5, 2), path, environment="FiveWide-v0", about="random")
    return path


@pytest.mark.parametrize("changes", VARIANTS.values(), ids=VARIANTS)
def test_a_policy_read_is_the_policy_written(changes, tmp_path, small_policy):
    policy, path = dataclasses.replace(small_policy(5, 2), **changes), tmp_path / "p.safetensors"
    save_mlp(policy, path, environment="FiveWide-v0")
    samples = policy.log_std is not None
    for sample in {False, samples}:
        expected = policy if sample else dataclasses.replace(policy, log_std=None)
        found = load_mlp(path, sample=sample)
        assert found.deterministic is not sample
        assert found.noise_size == (2 if sample else 0)
        np.testing.assert_array_equal(
            found.act(OBSERVATIONS, NOISE), expected.act(OBSERVATIONS, NOISE)
        )


@pytest.fixture
def normed(tmp_path, small_policy):
    path = tmp_path / "normed.safetensors"
    policy = dataclasses.replace(small_policy(5, 2), **OURS)
    save_mlp(policy, path, environment="FiveWide-v0")
    return path


SPOILT = {
    "no norms": lambda a: [a.pop(name) for name in [*a] if ".norm." in name],
    "no norms of one layer": lambda a: [a.pop(name) for name in [*a] if name[:6] == "1.norm"],
    "half a norm": lambda a: a.pop("0.norm.bias"),
    "a norm too many": lambda a: a.update(
        {"2.norm.weight": NORMS[0][0], "2.norm.bias": NORMS[0][1]}
    ),
    "a norm of another width": lambda a: a.update({"1.norm.weight": np.ones(32, "f4")}),
    "a weight for half of CReLU": lambda a: a.update({"1.weight": np.ones((16, 16), "f4")}),
    "no bias": lambda a: a.pop("1.bias"),
    "no layers": lambda a: [a.pop(name) for name in [*a] if name[0].isdigit()],
}


@pytest.mark.parametrize("change", SPOILT.values(), ids=SPOILT)
def test_layers_that_are_missing_or_do_not_fit_are_one_line_with_the_file(change, normed):
    with safe_open(normed, framework="np") as archive:
        header = archive.metadata()
    arrays = load_file(normed)
    change(arrays)
    save_file(arrays, normed, metadata=header)
    with refused(r"normed\.safetensors"):
        load_mlp(normed)


def test_a_file_without_norms_is_as_it_always_was(stored):
    """And so the shipped policy, written before there were norms, is read."""
    with safe_open(stored, framework="np") as archive:
        about = json.loads(archive.metadata()["tightrope"])
    assert set(about) == {"format", "name", "activation", "head", "environment", "about"}
    assert load_mlp(demo.policy_path()).norms == ()


def test_a_file_has_its_digest_and_a_deterministic_policy_cannot_sample(stored):
    policy = load_policy(stored, make_env("FiveWide-v0"))
    assert policy.digest == hashlib.sha256(stored.read_bytes()).hexdigest()
    assert policy.name == "perceptron"
    with pytest.raises(InputError, match="leave out `sample`"):
        load_policy(stored, make_env("FiveWide-v0"), sample=True)


def test_policies_and_recordings_are_told_apart_although_they_share_a_suffix(stored, tmp_path):
    recording = tmp_path / "episodes.safetensors"
    save(collect(custom_environments.still, "Counting-v0", 1, workers=1), recording)
    assert tensors_format(stored) == POLICY_FORMAT
    assert not is_recording(stored)
    assert is_recording(recording)
    with pytest.raises(InputError, match=r"expected the format tightrope\.policy/1"):
        load_policy(recording, make_env("FiveWide-v0"))


def rewrite(path, change):
    """Change the tightrope header of the file and write it back."""
    with safe_open(path, framework="np") as archive:
        about = json.loads(archive.metadata()["tightrope"])
    change(about)
    save_file(load_file(path), path, metadata={"tightrope": json.dumps(about)})


FORGED = [
    lambda about: about.update(format="tightrope.episodes/1"),
    lambda about: about.update(activation="Sine"),
    lambda about: about.update(head="wooden"),
    *[lambda about, name=name: about.pop(name) for name in ("activation", "name", "norms")],
]


def test_a_header_that_makes_no_policy_is_an_input_error(normed):
    env, content = make_env("FiveWide-v0"), normed.read_bytes()
    check_fit(load_policy(normed, env), env)
    for change in FORGED:
        normed.write_bytes(content)
        rewrite(normed, change)
        with pytest.raises(InputError):
            load_policy(normed, env)
