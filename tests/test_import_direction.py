"""Imports point one way, those inside functions and those by name included (CONTRIBUTING.md)."""

import ast
import re
from collections import defaultdict
from pathlib import Path

import pytest

import tightrope

SOURCE = Path(tightrope.__file__).parent
SHARED = {path.stem for path in SOURCE.glob("*.py")} - {"__init__", "__main__", "environments"}
ANYONE = {"bounds", "__version__", *SHARED}
LAYERS = [
    *({"cli"}, {"reports"}, {"audit"}, {"studies"}, {"agents", "comparison", "deploy"}),
    *({"certificates"}, {"posteriors"}, {"rollouts"}, {"policies", "environments"}),
]
ROOMS = [room for layer in LAYERS for room in sorted(layer)]
MAY = {room: {*ANYONE, room} for room in ROOMS}
for place, layer in enumerate(LAYERS):
    for room in layer:
        MAY[room] |= set().union(*LAYERS[place + 1 :])
MAY["policies"] |= {"environments"}
MAY["cli"] |= {"demo"}
MAY |= {room: SHARED | {room} for room in (*SHARED, "bounds", "demo")}
MAY |= {"__init__": {*ROOMS}, "__main__": {"cli"}}
# Files that name what they serve, and may have a namesake elsewhere.
NAMESAKES = {"cli", "statements"}


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


FILES = sorted(SOURCE.rglob("*.py"))


def test_imports_point_one_way():
    for path in FILES:
        room = path.relative_to(SOURCE).parts[0].removesuffix(".py")
        assert room in MAY, f"say in this test what {room} may import"
        assert imported(path.read_text()) <= MAY[room], path


def test_no_file_name_occurs_in_two_rooms():
    rooms = defaultdict(set)
    for path in FILES:
        place = path.relative_to(SOURCE).parts
        if path.stem != "__init__" and not NAMESAKES & set(place):
            rooms[path.name].add("/".join(place[:-1]))
    assert {name for name, places in rooms.items() if len(places) > 1} == set()
