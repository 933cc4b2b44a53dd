"""The signing commands of docs/trust.md work as printed and notice a changed certificate."""

import shutil
import subprocess

import pytest
from documents import DOCS, blocks

OPENSSL, SSH = (block.text for block in blocks(DOCS / "trust.md", "sh"))


@pytest.mark.parametrize(("tool", "script"), [("openssl", OPENSSL), ("ssh-keygen", SSH)])
def test_a_signature_is_accepted_until_the_certificate_changes(tool, script, tmp_path):
    if shutil.which(tool) is None:
        pytest.skip(f"{tool} is not installed")
    document = tmp_path / "certificate.json"
    document.write_text('{"bound": 0.25}')

    def run(lines):
        return subprocess.run(["sh", "-ec", "\n".join(lines)], cwd=tmp_path, capture_output=True)

    *signing, verifying = script.splitlines()
    signed = run(signing)
    assert signed.returncode == 0, signed.stderr
    accepted = run([verifying])
    assert accepted.returncode == 0, accepted.stdout + accepted.stderr
    document.write_text('{"bound": 0.20}')
    assert run([verifying]).returncode != 0
