"""Episodes replayed: a policy's own agree, fabricated ones do not, whatever their document says.

The digests of every forgery are right, so that only the replay can tell.
"""

import json
import shutil

import numpy as np
import pytest
from command import run

from tightrope.certificates.folder import as_text, document_digest
from tightrope.deploy.replay import replay
from tightrope.files import load_tensors, save_tensors, sha256, tensors_format


@pytest.fixture
def place(pendulum, tmp_path, monkeypatch):
    """A copy to do harm to, as the working directory."""
    shutil.copytree(pendulum, tmp_path / "copy")
    monkeypatch.chdir(tmp_path / "copy")
    return tmp_path / "copy"


def rewrite(place, change):
    """Other episodes in the certificate, with every digest as it should be."""
    path, document = place / "certificate/rollouts.safetensors", place / "certificate"
    arrays, header = load_tensors(path, tensors_format(path))
    change(arrays, header)
    path.unlink()
    save_tensors(path, arrays, header)
    content = json.loads((document / "certificate.json").read_text())
    content["digests"]["rollouts"] = sha256(path)
    content["subject"] = header["subject"]
    content["digests"]["certificate"] = document_digest(content)
    (document / "certificate.json").write_text(as_text(content))


def replayed(policy="policy.safetensors"):
    return replay("certificate", policy, episodes=14)


# --- honest ---------------------------------------------------------------------------------------


def test_the_policys_own_episodes_agree_to_the_last_bit_where_they_were_made(place, capfd):
    again, problems = replayed()
    assert problems == []
    assert [one.exact for one in again] == [one.agreed for one in again] == [200] * 14
    code, out, said = run(
        capfd, "verify", "certificate", "--replay", "2", "--policy", "policy.safetensors"
    )
    assert (code, said) == (0, [])
    assert out.count("200 of 200 steps agree, 200 of them to the last bit") == 2
    assert "2 of its episodes are those of policy.safetensors" in out


def test_last_digits_of_another_processor_are_no_problem(place):
    def last_digits(arrays, header):
        rng = np.random.default_rng(0)
        for name, size in (("observations", 1e-7), ("actions", 1e-6)):
            arrays[name] *= 1 + size * rng.standard_normal(arrays[name].shape)

    rewrite(place, last_digits)
    again, problems = replayed()
    assert problems == []
    assert all(one.exact < 200 for one in again)


# --- forged ---------------------------------------------------------------------------------------


def one_action(arrays, header):
    arrays["actions"][100] += 1e-2


def rewards(arrays, header):
    arrays["rewards"][:] += 1e-3 * (np.arange(len(arrays["rewards"])) % 7)


def first_rewards(arrays, header):
    arrays["rewards"][::200] += 1e-4


def an_observation(arrays, header):
    arrays["observations"][5] += 1e-2


def a_huge_number_to_hide_behind(arrays, header):
    """Tolerances that scale with what is recorded would let every other reward pass."""
    arrays["rewards"][:] += 1.0
    arrays["rewards"][199::200] = -1e9


def a_huge_action_to_hide_behind(arrays, header):
    arrays["actions"][1:] *= 0.9
    arrays["actions"][0] = 1e9


def an_early_end(arrays, header):
    arrays["terminated"][:] = True
    arrays["truncated"][:] = False


def other_seeds(arrays, header):
    arrays["seeds"][:] += 1


def another_digest(arrays, header):
    header["subject"]["policy"]["digest"] = "0" * 64


def another_seed(arrays, header):
    header["subject"]["seed"] += 1


FORGED = {
    one_action: "actions are not the policy's, the first in step",
    rewards: "another observation or reward",
    first_rewards: "another observation or reward in step 0",
    an_observation: "another observation or reward",
    a_huge_number_to_hide_behind: "another observation or reward in step 0",
    a_huge_action_to_hide_behind: "actions are not the policy's, the first in step 0",
    an_early_end: "it ends differently",
    other_seeds: "do not follow from subject.seed",
    another_digest: "subject.policy.digest",
    another_seed: "do not follow from subject.seed",
}


@pytest.mark.parametrize("forge", FORGED)
def test_what_was_fabricated_is_named(forge, place):
    rewrite(place, forge)
    assert any(FORGED[forge] in line for line in replayed()[1])


def test_episodes_of_another_policy_are_named_and_the_command_says_no(place, capfd):
    problems = replayed("other.safetensors")[1]
    assert any("subject.policy.digest" in line for line in problems)
    assert any("actions are not the policy's" in line for line in problems)
    words = ("--replay", "1", "--policy", "other.safetensors")
    code, out, _ = run(capfd, "verify", "certificate", *words)
    assert code == 1
    assert "NOT verified" in out


@pytest.mark.parametrize(
    "words",
    [("--replay", "2"), ("--policy", "policy.safetensors"), ("--trust",), ("--replay", "-1")],
)
def test_replay_and_policy_belong_together(words, place, capfd):
    code, _, said = run(capfd, "verify", "certificate", *words)
    assert code == 2
    assert "--replay" in said[-1]
