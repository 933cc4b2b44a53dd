"""Names that a stranger chose, where they are shown: no escapes, no lines of their own, no markup.

A name ends in what would be a line of ours, and begins with what would hide the line before.
"""

import csv
import json
import shutil

import pytest
from recordings import certified, recording

from tightrope.certificates.folder import as_text, document_digest, write
from tightrope.cli import main
from tightrope.reports import write_page
from tightrope.rollouts import save

FAKE = "verified: every number follows"
NAME = (
    f"a\x1b[2J\x9b31m\x07\r\n{FAKE}\u2028\u202e\u2066\u200b<script>x</script><img src=x onerror=x>"
)


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    place = tmp_path_factory.mktemp("names")
    metadata = {
        "policy": {"name": NAME, "actions": "deterministic", "normalization": NAME},
        "environment": {"id": NAME, "suite": "gymnasium"},
        "versions": {NAME: NAME},
        NAME: {NAME: [NAME]},
    }
    episodes = recording(24, seed=1, subject=metadata)
    save(episodes, place / "log.safetensors")
    write(certified(episodes, seed=0), place / "c", page=write_page)
    write(certified(episodes, seed=0), place / NAME.replace("/", "-"), page=write_page)
    forged = json.loads((place / "c" / "certificate.json").read_text())
    for each in forged["statements"]:
        each["quantity"] = each["note"] = each["name"] = NAME
    forged["assumptions"] = [NAME]
    forged["digests"]["certificate"] = document_digest(forged)
    (place / "forged.json").write_text(as_text(forged))
    rows = [[index * 1.5, index % 2, NAME if index % 3 else "=1+1", index] for index in range(60)]
    with (place / "table.csv").open("w", newline="") as stream:
        csv.writer(stream).writerows([["return", "success", "task", "\x1b[2Jpeak"], *rows])
    lines = [json.dumps({"return": index, NAME: index}) for index in range(40)]
    (place / "rows.jsonl").write_text("\n".join(lines))
    return place


COMMANDS = {
    "check": ("check", "c", "--max-rms", "9"),
    "check a forged document": ("check", "forged.json", "--max-rms", "9", "--max-failure", "0.5"),
    "check a table": ("check", "table.csv", "--max-failure", "0.9"),
    "verify": ("verify", "c"),
    "verify another": ("verify", NAME.replace("/", "-")),
    "verify nothing": ("verify", NAME),
    "report": ("report", "c"),
    "report an index": ("report", "."),
    "plan": ("plan", "c"),
    "compare": ("compare", "c", "log.safetensors", "--out", "compared"),
    "certify a table": ("certify", "table.csv", "--out", "new", "--details"),
    "certify rows": ("certify", "rows.jsonl", "--out", NAME, "--details"),
    "certify nothing": ("certify", NAME),
    "certify in no environment": ("certify", "c", "--env", NAME, "--out", "new"),
    "a wrong column": ("certify", "table.csv", "--columns", f"return={NAME}"),
    "a wrong scheme": ("certify", "log.safetensors", "--scheme", NAME),
    "a wrong option": ("certify", "log.safetensors", f"--{NAME}"),
    "a wrong verb": (NAME,),
    "a wrong property": ("certify", "log.safetensors", "--property", NAME),
    "monitor": ("monitor", "c", "--policy", NAME),
    "replay": ("verify", "c", "--replay", "1", "--policy", NAME),
    "collect": ("collect", NAME, "--env", NAME, "--out", "x.safetensors"),
}


@pytest.mark.parametrize("command", COMMANDS)
def test_names_are_shown_in_one_line_without_what_a_terminal_obeys(
    command, made, tmp_path, monkeypatch, capfd
):
    place = shutil.copytree(made, tmp_path / "place")
    monkeypatch.chdir(place)
    assert main(list(COMMANDS[command])) in (0, 1, 2)
    said = "".join(capfd.readouterr())
    assert {letter for letter in said if not letter.isprintable()} <= {"\n"}
    assert not [line for line in said.split("\n") if line.startswith(FAKE)]
    for path in place.rglob("*.html"):
        page = path.read_text()
        assert "<script>x" not in page
        assert "<img src=x" not in page
        assert {letter for letter in page if not letter.isprintable()} <= {"\n"}
        assert "default-src 'none'" in page  # nothing is fetched, should markup get through
