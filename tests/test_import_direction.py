"""Imports point one way, those inside functions and those by name included (CONTRIBUTING.md)."""

import ast
import re
from pathlib import Path

import pytest

import tightrope

SOURCE = Path(tightrope.__file__).parent
SHARED = {
    "bounds",
    *("devices", "errors", "files", "imports", "processes", "progress", "records", "seeds"),
    "versions",
}
GROUND = {*SHARED, "policies", "environments"}
CHAIN = ["cli", "reports", "audit", "studies", "certificates", "posteriors", "rollouts"]
MAY = {room: {*SHARED, room} for room in (*GROUND, "demo")}
MAY |= {room: {*GROUND, *CHAIN[place:]} for place, room in enumerate(CHAIN)}
SIDES = {"agents", "comparison", "deploy"}  # between studies and certificates
MAY |= {room: {*MAY["certificates"], room} for room in SIDES}
MAY |= {"__init__": {"imports", *CHAIN, *SIDES}, "__main__": {"cli"}}
MAY["policies"] |= {"environments"}
for room in ("cli", "reports", "audit", "studies"):
    MAY[room] |= SIDES
MAY["cli"] |= {"demo", "__version__"}


def imported(text):
    """Rooms that a module imports; where it imports by name, every string could be that name."""
    names = []
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.ImportFrom):
            names += [f"{'.' * node.level}{node.module}.{alias.name}" for alias in node.names]
        elif isinstance(node, ast.Import):
            names += [f"{alias.name}." for alias in node.names]
        elif isinstance(node, ast.Constant) and "import_module" in text:
            names += re.findall(r"^tightrope[.][\w.]+$", str(node.value))
    return {name.split(".")[1] for name in names if name.startswith((".", "tightrope."))}


@pytest.mark.parametrize(
    "text",
    [
        "from tightrope.agents.training import train",
        "from tightrope import agents",
        "import tightrope.agents as trainers",
        "def late():\n    from tightrope.agents import train",
        "HOMES = {'REDQ': 'tightrope.agents.redq'}\nimportlib.import_module(HOMES['REDQ'])",
    ],
)
def test_an_import_is_seen_however_it_is_written(text):
    assert imported(text) == {"agents"}


@pytest.mark.parametrize("path", sorted(SOURCE.rglob("*.py")), ids=lambda path: path.name)
def test_imports_point_one_way(path):
    room = path.relative_to(SOURCE).parts[0].removesuffix(".py")
    assert room in MAY, f"say in this test what {room} may import"
    assert imported(path.read_text()) <= MAY[room]
