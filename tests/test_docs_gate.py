"""The workflow in docs/gate.md is one, and every command in it is understood."""

import re
import shlex
from pathlib import Path

import pytest

from tightrope.cli import main
from tightrope.cli.certify import Certify
from tightrope.cli.check import Check
from tightrope.cli.verify import Verify

PAGE = Path(__file__).parents[1] / "docs" / "gate.md"
VERBS = {"certify": Certify, "verify": Verify, "check": Check}


@pytest.fixture(scope="module")
def steps():
    yaml = pytest.importorskip("yaml")
    (text,) = re.findall(r"```yaml\n(.*?)```", PAGE.read_text("utf-8"), re.DOTALL)
    workflow = yaml.safe_load(text)
    assert workflow[True] == ["push"]  # YAML 1.1 reads the key `on` as a truth value
    (job,) = workflow["jobs"].values()
    return job["steps"]


def test_it_certifies_verifies_and_asks_in_this_order(steps, monkeypatch):
    seen = []
    for kind in VERBS.values():
        monkeypatch.setattr(kind, "run", lambda self: seen.append(self) or 0)
    for step in steps:
        words = shlex.split(step.get("run", ""))
        if words[:1] == ["tightrope"]:
            assert main(words[1:]) == 0
    certified, verified, checked = seen
    assert [type(each) for each in seen] == list(VERBS.values())
    assert certified.out == verified.folder == checked.certificate
    assert checked.conditions.min_confidence == 0.95


def test_every_step_is_an_action_or_a_command_and_the_certificate_is_kept(steps):
    assert all(("uses" in step) != ("run" in step) for step in steps)
    assert steps[-1]["with"]["path"] == "certificate"


def test_the_page_names_every_condition():
    from tightrope.deploy.check import Conditions

    text = PAGE.read_text("utf-8")
    for name in Conditions.__dataclass_fields__:
        assert f"--{name.replace('_', '-')}" in text, name
