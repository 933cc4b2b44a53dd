"""The workflow in docs/gate.md is one, and every command in it is understood."""

import re
import shlex
from pathlib import Path

import pytest

from tightrope.cli.app import parse
from tightrope.deploy.check import Conditions

PAGE = Path(__file__).parents[1] / "docs" / "gate.md"


@pytest.fixture(scope="module")
def steps():
    yaml = pytest.importorskip("yaml")
    (text,) = re.findall(r"```yaml\n(.*?)```", PAGE.read_text("utf-8"), re.DOTALL)
    workflow = yaml.safe_load(text)
    assert workflow[True] == ["push"]  # YAML 1.1 reads the key `on` as a truth value
    (job,) = workflow["jobs"].values()
    return job["steps"]


def test_it_certifies_verifies_and_asks_in_this_order(steps):
    lines = [shlex.split(step.get("run", "")) for step in steps]
    given = [words[1:] for words in lines if words[:1] == ["tightrope"]]
    calls = [parse([word for word in words if word != "--quiet"]) for words in given]
    assert [function.__name__ for function, _ in calls] == ["certify", "verify", "check"]
    certified, verified, checked = (given for _, given in calls)
    assert str(certified.kwargs["out"]) == str(verified.args[0]) == checked.args[0]
    assert checked.kwargs["min_confidence"] == 0.95


def test_every_step_is_an_action_or_a_command_and_the_certificate_is_kept(steps):
    assert all(("uses" in step) != ("run" in step) for step in steps)
    assert steps[-1]["with"]["path"] == "certificate"


def test_the_page_names_every_condition():
    text = PAGE.read_text("utf-8")
    for name in Conditions.__dataclass_fields__:
        assert f"--{name.replace('_', '-')}" in text, name
