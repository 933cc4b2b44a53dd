"""A commitment holds policy, environment, options and seed; whatever is exchanged shows."""

import copy
import hashlib
import json

import pytest

from tightrope.certificates.commitment import (
    FORMAT,
    Commitment,
    challenged_seed,
    commitment_problems,
    held_digest,
    load_commitment,
    save_commitment,
)
from tightrope.certificates.options import Options
from tightrope.errors import InputError

SUBJECT = {
    "policy": {"name": "p", "digest": "ab" * 32, "actions": "deterministic"},
    "environment": {"id": "Pendulum-v1"},
    "training": {"record": "cd" * 32},
    "versions": {"python": "3.11"},
}
OPTIONS = Options(scheme="rec-2", episodes=20, return_range=(-1.0, 2.0), seed=7)


def certified(commitment, challenge="", **changes):
    """Subject and options of a certificate that keeps the commitment."""
    options = commitment.options(challenge)
    subject = {**SUBJECT, "seed": options.seed, "commitment": commitment.to_json(challenge)}
    return copy.deepcopy({**subject, **changes}), options


def test_the_digest_is_that_of_the_documented_text_and_hides_what_it_is_to():
    commitment = Commitment.to(SUBJECT, OPTIONS)
    text = json.dumps(
        {"content": commitment.content, "format": FORMAT, "nonce": commitment.nonce},
        sort_keys=True,
        separators=(",", ":"),
    )
    assert commitment.digest == hashlib.sha256(text.encode()).hexdigest()
    assert Commitment.to(SUBJECT, OPTIONS).digest != commitment.digest  # another nonce
    assert len(bytes.fromhex(commitment.nonce)) == 32


@pytest.mark.parametrize("challenge", ["", "heads"])
def test_a_certificate_that_keeps_its_commitment_has_no_problem(challenge):
    commitment = Commitment.to(SUBJECT, OPTIONS)
    subject, options = certified(commitment, challenge)
    for held in (None, commitment.digest):
        assert commitment_problems(subject, options, held) == []
    assert (options.seed == 7) == (challenge == "")


def test_what_was_left_to_be_settled_may_be_settled_and_the_rest_may_not():
    commitment = Commitment.to(SUBJECT, OPTIONS)
    subject, options = certified(commitment)
    settled = Options.of({**vars(options), "thin": 5, "pilot_episodes": 10, "clock": "off"})
    assert commitment_problems(subject, settled) == []
    for change in ({"episodes": 21}, {"scheme": "rec-3"}, {"delta": 0.05}, {"mc_passes": 3}):
        other = Options.of({**vars(options), **change})
        (problem,) = commitment_problems(subject, other)
        assert problem.startswith(f"options.{next(iter(change))}: ")


@pytest.mark.parametrize("name", ["policy", "environment", "training", "versions", "seed"])
def test_another_subject_than_was_committed_to_is_named(name):
    commitment = Commitment.to(SUBJECT, OPTIONS)
    subject, options = certified(commitment, **{name: 8 if name == "seed" else {"id": "other"}})
    (problem,) = commitment_problems(subject, options)
    assert problem.startswith(f"subject.{name}: ")


def test_a_commitment_made_afterwards_is_not_the_one_that_is_held():
    held = Commitment.to(SUBJECT, OPTIONS).digest
    subject, options = certified(Commitment.to(SUBJECT, OPTIONS))
    assert any("held is" in line for line in commitment_problems(subject, options, held))
    del subject["commitment"]
    assert commitment_problems(subject, options) == []
    assert commitment_problems(subject, options, held) == [
        "subject.commitment: none, but one is held"
    ]


@pytest.mark.parametrize(
    "spoil",
    [
        lambda recorded: recorded.update(nonce=5),
        lambda recorded: recorded.update(content=[]),
        lambda recorded: recorded.update(challenge=None),
        lambda recorded: recorded.update(digest="00" * 32),
        lambda recorded: recorded["content"].pop("policy"),
        lambda recorded: recorded["content"].update(options=[]),
        lambda recorded: recorded["content"]["options"].update(seed="fresh"),
        lambda recorded: recorded["content"]["options"].update(unknown=1),
    ],
)
def test_a_damaged_commitment_in_a_certificate_is_a_problem_and_no_crash(spoil):
    subject, options = certified(Commitment.to(SUBJECT, OPTIONS))
    spoil(subject["commitment"])
    assert commitment_problems(subject, options)
    assert commitment_problems({**subject, "commitment": 5}, options)


def test_a_challenge_moves_the_seed_and_so_does_the_commitment():
    seeds = {challenged_seed(f"{one:064x}", str(two)) for one in range(20) for two in range(20)}
    assert len(seeds) == 400
    assert all(0 <= seed < 2**31 for seed in seeds)
    expected = hashlib.sha256(f"{FORMAT}\n{'ab' * 32}\nheads".encode()).digest()[:4]
    assert challenged_seed("ab" * 32, "heads") == int.from_bytes(expected, "big") >> 1


def test_what_is_written_is_read_and_a_changed_file_is_refused(tmp_path):
    commitment, path = Commitment.to(SUBJECT, OPTIONS), tmp_path / "c.json"
    save_commitment(commitment, path)
    assert load_commitment(path) == commitment
    assert held_digest(str(path)) == held_digest(commitment.digest) == commitment.digest
    text = path.read_text()
    for change in (text.replace('"seed": 7', '"seed": 8'), "", "[1]", text[:-9], "[" * 5000):
        path.write_text(change)
        with pytest.raises(InputError, match="is damaged or no commitment"):
            load_commitment(path)
    for held in ("abc", str(tmp_path / "nowhere")):
        with pytest.raises(InputError, match="64 hexadecimal digits"):
            held_digest(held)


def test_a_policy_without_a_file_cannot_be_committed_to():
    with pytest.raises(InputError, match="a policy in a file"):
        Commitment.to({**SUBJECT, "policy": {"name": "p", "digest": None}}, OPTIONS)
