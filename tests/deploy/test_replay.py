"""Episodes replayed: a policy's own agree, fabricated ones do not, whatever their document says.

The digests of every forgery are right, so that only the replay can tell.
"""

import copy
import json
import shutil

import numpy as np
import pytest
from command import run

from tightrope.certificates.folder import as_text, document_digest
from tightrope.deploy.replay import replay
from tightrope.files import load_tensors, save_tensors, sha256, tensors_format

REPLAY = ("verify", "certificate", "--replay", "2", "--policy")


@pytest.fixture
def place(pendulum, tmp_path, monkeypatch):
    """A copy to do harm to, as the working directory."""
    shutil.copytree(pendulum, tmp_path / "copy")
    monkeypatch.chdir(tmp_path / "copy")
    return tmp_path / "copy" / "certificate"


@pytest.fixture
def forge(place):
    """Replay the certificate with other episodes, and with every digest as it should be."""
    path, document = place / "rollouts.safetensors", place / "certificate.json"
    arrays, header = load_tensors(path, tensors_format(path))

    def forged(names=(), change=None, **subject):
        content, other = json.loads(document.read_text()), copy.deepcopy(header)
        other["subject"] |= subject
        path.unlink()
        changed = {name: change(arrays[name]).astype(arrays[name].dtype) for name in names}
        save_tensors(path, {**arrays, **changed}, other)
        content["digests"]["rollouts"], content["subject"] = sha256(path), other["subject"]
        content["digests"]["certificate"] = document_digest(content)
        document.write_text(as_text(content))
        return replay("certificate", "policy.safetensors", episodes=14)

    return forged


def test_the_policys_own_episodes_agree_to_the_last_bit_where_they_were_made(place, capfd):
    again, problems = replay("certificate", "policy.safetensors", episodes=14)
    assert problems == []
    assert [one.exact for one in again] == [one.agreed for one in again] == [200] * 14
    code, out, said = run(capfd, *REPLAY, "policy.safetensors")
    assert (code, said) == (0, [])
    assert out.count("200 of 200 steps agree, 200 of them to the last bit") == 2
    assert "2 of its episodes are those of policy.safetensors" in out


def test_last_digits_of_another_processor_are_no_problem(forge):
    rng = np.random.default_rng(0)
    again, problems = forge(
        ("observations", "actions"), lambda x: x * (1 + 1e-7 * rng.standard_normal(x.shape))
    )
    assert problems == []
    assert all(one.exact < 200 for one in again)


def at(rows, change):
    """A change of these rows alone."""

    def changed(values):
        values = values.copy()
        values[rows] = change(values[rows])
        return values

    return changed


NOT_ITS_ACTIONS, OTHER = "actions are not the policy's, the first in step", "another observation or"
FORGED = [
    ("actions", at(100, lambda x: x + 1e-2), NOT_ITS_ACTIONS),
    ("rewards", lambda x: x + 1e-3 * (np.arange(len(x)) % 7), OTHER),
    ("rewards", at(slice(0, None, 200), lambda x: x + 1e-4), f"{OTHER} reward in step 0"),
    ("observations", at(5, lambda x: x + 1e-2), OTHER),
    # Huge numbers to hide behind, if tolerances scaled with what is recorded.
    ("rewards", lambda x: at(slice(199, None, 200), lambda _: -1e9)(x + 1.0),
     f"{OTHER} reward in step 0"),
    ("actions", lambda x: at(0, lambda _: 1e9)(x * 0.9), f"{NOT_ITS_ACTIONS} 0"),
    ("terminated", lambda x: ~x, "it ends differently"),
    ("seeds", lambda x: x + 1, "do not follow from subject.seed"),
]  # fmt: skip


def test_what_was_fabricated_is_named(forge):
    for name, change, words in FORGED:
        assert any(words in line for line in forge([name], change)[1]), (name, words)
    assert "do not follow from subject.seed" in forge(seed=6)[1][0]
    policy = {"name": "p", "digest": "0" * 64, "actions": "deterministic"}
    assert "subject.policy.digest" in forge(policy=policy)[1][0]


def test_episodes_of_another_policy_are_named_and_the_command_says_no(place, capfd):
    problems = replay("certificate", "other.safetensors")[1]
    assert any("subject.policy.digest" in line for line in problems)
    assert any(NOT_ITS_ACTIONS in line for line in problems)
    code, out, _ = run(capfd, *REPLAY, "other.safetensors")
    assert (code, "NOT verified" in out) == (1, True)
    for words in (REPLAY[2:4], ("--policy", "a"), ("--trust",), ("--replay", "-1")):
        code, _, said = run(capfd, "verify", "certificate", *words)
        assert (code, "--replay" in said[-1]) == (2, True)
