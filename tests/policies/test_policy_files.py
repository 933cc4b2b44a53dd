"""A perceptron policy in tightrope's own file: the same function after reading it back."""

import dataclasses
import hashlib
import json

import custom_environments
import numpy as np
import pytest
from safetensors import safe_open
from safetensors.numpy import load_file, save_file

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
    changes = {"norms": NORMS, "weights": DOUBLED, "activation": "CReLU"}
    policy = dataclasses.replace(small_policy(5, 2), **changes)
    save_mlp(policy, path, environment="FiveWide-v0")
    return path


def respoil(path, change):
    """Change the arrays of the file and write them back under the same header."""
    with safe_open(path, framework="np") as archive:
        header = archive.metadata()
    arrays = load_file(path)
    change(arrays)
    save_file(arrays, path, metadata=header)


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
    respoil(normed, lambda arrays: None)
    load_mlp(normed)
    respoil(normed, change)
    with pytest.raises(InputError, match=r"normed\.safetensors") as refusal:
        load_mlp(normed)
    assert "\n" not in str(refusal.value)


def test_norms_that_the_header_does_not_mention_are_refused(normed):
    rewrite(normed, lambda about: about.pop("norms"))
    with pytest.raises(InputError, match="expected 0 layer norms"):
        load_mlp(normed)


def test_a_file_without_norms_is_as_it_always_was(stored):
    """And so the shipped policy, written before there were norms, is read."""
    with safe_open(stored, framework="np") as archive:
        about = json.loads(archive.metadata()["tightrope"])
    assert set(about) == {"format", "name", "activation", "head", "environment", "about"}
    assert load_mlp(demo.policy_path()).norms == ()


def test_the_digest_is_the_sha256_of_the_file(stored):
    policy = load_policy(stored, make_env("FiveWide-v0"))
    assert policy.digest == hashlib.sha256(stored.read_bytes()).hexdigest()
    assert policy.name == "perceptron"


def test_a_deterministic_policy_cannot_sample(stored):
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


def test_a_truncated_file_is_an_input_error(stored):
    content = stored.read_bytes()
    for kept in range(0, len(content), 29):
        stored.write_bytes(content[:kept])
        with pytest.raises(InputError):
            load_policy(stored, make_env("FiveWide-v0"))


def rewrite(path, change):
    """Change the tightrope header of the file and write it back."""
    content = path.read_bytes()
    size = int.from_bytes(content[:8], "little")
    header = json.loads(content[8 : 8 + size])
    about = json.loads(header["__metadata__"]["tightrope"])
    change(about)
    header["__metadata__"]["tightrope"] = json.dumps(about)
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    path.write_bytes(len(text).to_bytes(8, "little") + text + content[8 + size :])


FORGED = {
    "another format": lambda about: about.update(format="tightrope.episodes/1"),
    "an unknown activation": lambda about: about.update(activation="Sine"),
    "an unknown head": lambda about: about.update(head="wooden"),
    "no activation": lambda about: about.pop("activation"),
    "no name": lambda about: about.pop("name"),
}


@pytest.mark.parametrize("change", FORGED.values(), ids=FORGED)
def test_a_header_that_makes_no_policy_is_an_input_error(change, stored):
    env = make_env("FiveWide-v0")
    check_fit(load_policy(stored, env), env)
    rewrite(stored, change)
    with pytest.raises(InputError):
        check_fit(load_policy(stored, env), env)
