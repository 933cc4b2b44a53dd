"""Commit, certify, sign, verify and replay, as a prover and a third party would."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
from command import run

pytest.importorskip("cryptography")

from tightrope.certificates.commitment import challenged_seed

from tightrope.certificates import load_certificate
from tightrope.certificates.document import as_text, document_digest
from tightrope.files import load_tensors, save_tensors, sha256

FEW = ("--episodes", "8", "--test-episodes", "2", "--scheme", "nonrec-noninf", "--mc-passes", "2")


@pytest.fixture(scope="session")
def held(tmp_path_factory, request):
    """A folder with a trained policy, its commitment, and the certificate of a challenge."""
    from recordings import short_fits

    from tightrope.cli import main

    place = tmp_path_factory.mktemp("held")
    with pytest.MonkeyPatch.context() as patch, short_fits():
        patch.chdir(place)
        Path("policy").mkdir()
        request.getfixturevalue("write_trained")("policy")
        assert main(["certify", "policy", "--out", "made", *FEW, "--commit"]) == 0
        assert not Path("made").exists()  # nothing is rolled out
        answer = ("--commitment", "made.commitment.json", "--challenge", "heads")
        assert main(["certify", "policy", "--out", "made", *answer]) == 0
    return place


@pytest.fixture
def place(held, tmp_path, monkeypatch):
    """A copy of it to do harm to."""
    from recordings import short_fits

    shutil.copytree(held, tmp_path / "copy")
    monkeypatch.chdir(tmp_path / "copy")
    with short_fits():
        yield tmp_path / "copy"


def digest():
    return json.loads(Path("made.commitment.json").read_text())["digest"]


def test_a_certificate_keeps_the_commitment_that_was_held(place, capfd):
    for given in (digest(), "made.commitment.json"):
        code, out, said = run(capfd, "verify", "made", "--commitment", given)
        assert (code, said) == (0, [])
        assert "verified: it is what was committed to" in out
    code, out, _ = run(capfd, "verify", "made", "--commitment", "0" * 64)
    assert code == 1
    assert "held is 000" in out


def test_the_seed_follows_from_commitment_and_challenge_and_the_record_is_named(place):
    found = load_certificate("made")
    assert found.options.seed == found.subject["seed"] == challenged_seed(digest(), "heads")
    assert found.subject["training"] == {"record": sha256(Path("policy", "policy.json"))}
    assert found.subject["commitment"]["challenge"] == "heads"


def test_another_policy_than_was_committed_to_is_not_certified(place, write_trained, capfd):
    Path("other").mkdir()
    write_trained("other", steps=2000)
    answer = ("--commitment", "made.commitment.json")
    code, _, said = run(capfd, "certify", "other", "--out", "new", *answer)
    assert code == 2
    assert "expected the training that" in said[-1]
    code, _, said = run(capfd, "certify", "policy", "--out", "new", *answer, "--episodes", "9")
    assert code == 2
    assert "expected no other options with --commitment" in said[-1]
    assert not Path("new").exists()


def test_only_what_is_still_to_be_rolled_out_can_be_committed_to(place, capfd):
    log = "made/rollouts.safetensors"
    code, _, said = run(capfd, "certify", log, "--out", "new", "--commit")
    assert code == 2
    assert "episodes that exist already" in said[-1]
    code, _, said = run(capfd, "certify", "policy", "--out", "made", "--commit")
    assert code == 2  # the name is taken
    code, _, said = run(capfd, "certify", "policy", "--out", "new", "--challenge", "heads")
    assert code == 2
    assert "--commitment" in said[-1]
    assert not list(place.glob("new*"))


def test_a_signed_certificate_is_verified_with_the_key(place, capfd):
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    key = Ed25519PrivateKey.generate()
    pem, plain = serialization.Encoding.PEM, serialization.NoEncryption()
    private = key.private_bytes(pem, serialization.PrivateFormat.PKCS8, plain)
    Path("key.pem").write_bytes(private)
    public = serialization.PublicFormat.SubjectPublicKeyInfo
    Path("key.pub.pem").write_bytes(key.public_key().public_bytes(pem, public))
    assert run(capfd, "verify", "made", "--verify-key", "key.pub.pem")[0] == 1
    assert run(capfd, "sign", "made", "--key", "key.pem")[0] == 0
    code, out, _ = run(capfd, "verify", "made", "--verify-key", "key.pub.pem")
    assert code == 0
    assert "signed by the owner of key.pub.pem" in out


# --- replay ----------------------------------------------------------------------------------


def rewrite(change):
    """Other episodes in the certificate, with every digest as it should be."""
    path, document = Path("made", "rollouts.safetensors"), Path("made", "certificate.json")
    arrays, header = load_tensors(path, "tightrope.episodes/1")
    change(arrays, header)
    path.unlink()
    save_tensors(path, arrays, header)
    content = json.loads(document.read_text())
    content["digests"]["rollouts"] = sha256(path)
    content["subject"] = header["subject"]
    content["digests"]["certificate"] = document_digest(content)
    document.write_text(as_text(content))


def replayed(**given):
    from tightrope.certificates.replay import replay

    return replay("made", "policy", **{"episodes": 50, **given})


def test_the_policys_own_episodes_replay(place, capfd):
    code, out, said = run(capfd, "verify", "made", "--replay", "2", "--policy", "policy")
    assert (code, said) == (0, [])
    assert out.count("steps the same to the last bit") == 2
    assert "2 of its episodes are those of policy" in out


def test_all_episodes_replay_exactly_where_they_were_made(place):
    again, problems = replayed()
    assert problems == []
    assert len(again) == len(load_certificate("made").rollouts)
    assert all(one.exact == one.steps == 200 for one in again)


def last_digits(arrays, header):
    rng = np.random.default_rng(0)
    arrays["observations"] *= 1 + 1e-7 * rng.standard_normal(arrays["observations"].shape)
    arrays["actions"] *= 1 + 1e-6 * rng.standard_normal(arrays["actions"].shape)


def test_last_digits_of_another_processor_are_no_problem(place):
    rewrite(last_digits)
    again, problems = replayed()
    assert problems == []
    assert all(one.exact < 200 for one in again)


def other_actions(arrays, header):
    arrays["actions"][100] += 1e-2


def other_rewards(arrays, header):
    arrays["rewards"][:] += 1e-3 * np.arange(len(arrays["rewards"])) % 7


def other_observations(arrays, header):
    arrays["observations"][5] += 1e-2


def other_seeds(arrays, header):
    arrays["seeds"][:] += 1


def other_policy(arrays, header):
    header["subject"]["policy"]["digest"] = "0" * 64


FORGED = {
    other_actions: "actions are not the policy's",
    other_rewards: "another observation or reward",
    other_observations: "another observation or reward",
    other_seeds: "do not follow from subject.seed",
    other_policy: "subject.policy.digest",
}


@pytest.mark.parametrize("forge", FORGED)
def test_fabricated_episodes_are_named(forge, place):
    rewrite(forge)
    assert any(FORGED[forge] in line for line in replayed()[1])


def test_episodes_of_another_policy_are_named(place, small_policy):
    from tightrope.certificates.replay import replay

    from tightrope.policies import save_mlp

    save_mlp(small_policy(3, 1, seed=1), Path("other.safetensors"), environment="Pendulum-v1")
    _, problems = replay("made", "other.safetensors", episodes=1)
    assert any("subject.policy.digest" in line for line in problems)
    assert any("actions are not the policy's" in line for line in problems)


@pytest.mark.parametrize(
    "words", [("--replay", "2"), ("--policy", "policy"), ("--trust",), ("--replay", "-1")]
)
def test_replay_and_policy_belong_together(words, place, capfd):
    code, _, said = run(capfd, "verify", "made", *words)
    assert code == 2
    assert "--replay" in said[-1]
