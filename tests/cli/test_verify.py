"""`tightrope verify`: 0 if every number follows, 1 with what does not, 2 without a certificate."""

import json
from pathlib import Path

import pytest
from command import run, tightrope

from tightrope.certificates.folder import as_text, document_digest

DOCUMENT = Path("certificate", "certificate.json")


def test_a_certificate_as_it_was_written_is_verified_and_the_page_was_not_looked_at(
    certificate, capfd
):
    code, out, said = run(capfd, "verify", certificate)
    assert (code, said) == (0, [])
    first, second = out.splitlines()
    assert first == "verified: every number in certificate follows from its files"
    assert second.startswith("report.html was not looked at")
    (certificate / "report.html").write_text("all is well")
    assert run(capfd, "verify", certificate) == (0, out, [])
    (certificate / "report.html").unlink()
    assert run(capfd, "verify", certificate) == (0, f"{first}\n", [])


def test_what_does_not_agree_is_listed_with_exit_code_1(certificate, capfd):
    document = json.loads(DOCUMENT.read_text())
    document["bound"] /= 2
    document["confidence"] = 0.99
    document["digests"]["certificate"] = document_digest(document)
    DOCUMENT.write_text(as_text(document))
    code, out, said = run(capfd, "verify", certificate)
    assert (code, said) == (1, [])
    *problems, last = out.splitlines()
    named = [line.partition(":")[0] for line in problems]
    assert {"bound", "confidence"} <= set(named)
    assert last == f"NOT verified: {len(problems)} disagreements in certificate"


@pytest.mark.parametrize("name", ["predictor.safetensors", "rollouts.safetensors"])
def test_a_file_that_is_missing_or_changed_is_named(name, certificate, capfd):
    content = bytearray((certificate / name).read_bytes())
    content[len(content) // 2] ^= 1
    (certificate / name).write_bytes(content)
    code, out, said = run(capfd, "verify", certificate)
    assert (code, said) == (1, [])
    assert out.startswith(f"{name}: digest is ")
    (certificate / name).unlink()
    code, out, said = run(capfd, "verify", certificate)
    assert (code, said) == (1, [])
    assert name in out
    assert out.endswith("NOT verified: 1 disagreement in certificate\n")


def nested(depth):
    """A certificate whose subject is that deep, and whose digest is right."""
    deep = f"{'[' * depth}0{']' * depth}"
    return lambda text: text.replace('"subject": {', f'"subject": {{"deep": {deep},', 1)


def number(word):
    return lambda text: text.replace('"bound": 0', f'"bound": {word}, "x": 0')


SPOILT = {
    "nothing": (lambda text: "", "certificate at"),
    "half of it": (lambda text: text[: len(text) // 2], "certificate at"),
    "another document": (lambda text: "[1, 2]", "found no JSON object"),
    "NaN": (number("NaN"), "found nan"),
    "infinity": (number("-Infinity"), "found -inf"),
    "a word for a number": (number('""'), "schema"),
    "a key twice": (lambda text: text.replace('"n":', '"n": 1, "n":', 1), "its text is not what"),
    "a number too long to read": (lambda text: f"[{'9' * 5000}]", "certificate at"),
    "an older version": (
        lambda text: text.replace('"schema_version": 5', '"schema_version": 1'),
        "issue the certificate again",
    ),
    **{f"{depth} lists deep": (nested(depth), "") for depth in (100, 900, 100_000)},
}


@pytest.mark.parametrize(("change", "words"), SPOILT.values(), ids=SPOILT)
def test_a_document_that_is_none_is_one_readable_line_each(change, words, certificate, capfd):
    text = DOCUMENT.read_text()
    DOCUMENT.write_text(change(text))
    assert DOCUMENT.read_text() != text
    code, out, said = run(capfd, "verify", certificate)
    assert (code, said) == (1, [])
    *problems, last = out.splitlines()
    assert last.startswith("NOT verified: ")
    assert any(words in line for line in problems)
    assert all(len(line) < 400 for line in problems), problems
    DOCUMENT.write_bytes(b"\xff\xfe\x00")
    code, out, said = run(capfd, "verify", certificate)
    assert (code, said, len(out.splitlines())) == (1, [], 2)


def test_a_spoilt_document_in_a_process_of_its_own_is_no_traceback(certificate):
    DOCUMENT.write_text(nested(100_000)(DOCUMENT.read_text()))
    answer = tightrope("verify", "certificate")
    assert (answer.returncode, answer.stderr) == (1, "")
    assert "nested too deeply" in answer.stdout
    assert answer.stdout.count("\n") == 2
