"""`tightrope check`: 0 if all conditions hold, 1 if one does not, 2 if it cannot be asked."""

import json

from command import run


def test_a_line_for_each_condition_and_exit_code_0_or_1(certificate, capfd):
    step = ("--max-rms", 1e9, "--unit", "step", "--allow-clipped", 1)
    code, out, said = run(capfd, "check", certificate, *step, "--min-confidence", 0.5)
    assert (code, said) == (0, [])
    rms, confidence, last = out.splitlines()
    assert rms.startswith("holds  --max-rms 1000000000: The RMS error of predicted returns")
    assert "assumes independent steps" in rms
    assert confidence.startswith(
        "holds  --min-confidence 0.5: what was used (statement 0) holds with confidence"
    )
    assert last == "No number was recomputed: tightrope verify certificate does that."
    code, out, said = run(capfd, "check", certificate, "--max-rms", 0, "--max-failure", 1)
    assert (code, said) == (1, [])
    assert [line.split()[0] for line in out.splitlines()] == ["FAILS", "holds", "No"]


def test_json_has_the_same_for_machines_and_quiet_leaves_it(certificate, capfd):
    asked = ("check", certificate, "--max-rms", 0, "--max-failure", 1)
    code, out, said = run(capfd, *asked, "--json")
    assert (code, said) == (1, [])
    found = json.loads(out)
    assert (found["passed"], found["recomputed"]) == (False, False)
    names = [(each["name"], each["passed"]) for each in found["conditions"]]
    assert names == [("max_rms", False), ("max_failure", True)]
    assert run(capfd, *asked, "--json", "--quiet") == (1, out, [])
    assert run(capfd, *asked, "--quiet") == (1, "", [])


# --- verify for machines, and --quiet for every verb ----------------------------------------------


def test_verify_as_json(certificate, capfd):
    code, out, said = run(capfd, "verify", certificate, "--json")
    assert (code, said) == (0, [])
    assert json.loads(out)["verified"] is True
    (certificate / "predictor.safetensors").unlink()
    code, out, said = run(capfd, "verify", certificate, "--json")
    found = json.loads(out)
    assert (code, found["verified"], said) == (1, False, [])
    assert "predictor.safetensors" in found["problems"][0]


def test_quiet_leaves_only_the_exit_code_and_what_is_wrong(certificate, capfd):
    assert run(capfd, "verify", certificate, "--quiet") == (0, "", [])
    assert run(capfd, "report", "--quiet", certificate) == (0, "", [])
    code, out, (line,) = run(capfd, "verify", "nowhere", "--quiet")
    assert (code, out) == (2, "")
    assert "nowhere" in line


def test_no_bar_is_shown_inside_and_bars_come_back_afterwards(monkeypatch, capsys):
    from tightrope.progress import no_bars, progress_bar

    monkeypatch.setenv("TTY_COMPATIBLE", "1")

    def shown():
        with progress_bar("rolling out", 2) as report:
            report(1, "")
        return capsys.readouterr().err

    assert "rolling out" in shown()
    with no_bars():
        assert shown() == ""
    assert "rolling out" in shown()
