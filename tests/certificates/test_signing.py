"""A signature is openssl's, and holds for one document and one key."""

import shutil
import subprocess

import pytest

pytest.importorskip("cryptography")
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ed25519, x25519

from tightrope.certificates.signing import SIGNATURE, sign, signature_problems
from tightrope.errors import InputError

PEM, NO_PASSWORD = serialization.Encoding.PEM, serialization.NoEncryption()


def keys(folder, name, kind=ed25519.Ed25519PrivateKey):
    private, public = folder / f"{name}.pem", folder / f"{name}.pub.pem"
    key = kind.generate()
    private.write_bytes(key.private_bytes(PEM, serialization.PrivateFormat.PKCS8, NO_PASSWORD))
    format_ = serialization.PublicFormat.SubjectPublicKeyInfo
    public.write_bytes(key.public_key().public_bytes(PEM, format_))
    return private, public


@pytest.fixture
def folder(tmp_path):
    place = tmp_path / "certificate"
    place.mkdir()
    (place / "certificate.json").write_text('{"bound": 0.5}\n')
    return place


def test_a_signature_holds_for_its_document_and_its_key_only(folder, tmp_path):
    private, public = keys(tmp_path, "mine")
    assert signature_problems(folder, public) == [f"{SIGNATURE}: none, but a key is given"]
    assert sign(folder, private) == folder / SIGNATURE
    assert signature_problems(folder, public) == []
    assert "not a signature" in signature_problems(folder, keys(tmp_path, "other")[1])[0]
    signature = (folder / SIGNATURE).read_bytes()
    (folder / SIGNATURE).write_bytes(bytes([signature[0] ^ 1]) + signature[1:])
    assert "not a signature" in signature_problems(folder, public)[0]
    (folder / SIGNATURE).write_bytes(signature)
    (folder / "certificate.json").write_text('{"bound": 0.4}\n')
    assert "not a signature" in signature_problems(folder, public)[0]
    with pytest.raises(InputError, match="already there"):
        sign(folder, private)


@pytest.mark.skipif(shutil.which("openssl") is None, reason="openssl is not installed")
def test_keys_of_openssl_are_taken_and_openssl_agrees(folder, tmp_path):
    private, public = tmp_path / "key.pem", tmp_path / "pub.pem"
    make = ["openssl", "genpkey", "-algorithm", "ed25519", "-out", private]
    subprocess.run(make, check=True, capture_output=True)
    publish = ["openssl", "pkey", "-in", private, "-pubout", "-out", public]
    subprocess.run(publish, check=True, capture_output=True)
    signature = sign(folder, private)
    assert signature_problems(folder, public) == []
    check = ["openssl", "pkeyutl", "-verify", "-pubin", "-inkey", public, "-rawin"]
    check += ["-in", folder / "certificate.json", "-sigfile", signature]
    assert subprocess.run(check, capture_output=True).returncode == 0


def test_what_is_no_such_key_is_one_line_with_the_remedy(folder, tmp_path):
    private, public = keys(tmp_path, "mine")
    other, _ = keys(tmp_path, "exchange", x25519.X25519PrivateKey)
    (tmp_path / "empty.pem").write_text("")
    for key in (public, other, tmp_path / "empty.pem"):
        with pytest.raises(InputError, match="openssl genpkey") as refusal:
            sign(folder, key)
        assert "\n" not in str(refusal.value)
    with pytest.raises(InputError, match="cannot read the key"):
        sign(folder, tmp_path / "nowhere.pem")
    with pytest.raises(InputError, match="-pubout"):
        signature_problems(folder, private)
    with pytest.raises(InputError, match="folder of a certificate"):
        sign(tmp_path / "nowhere", private)
    assert not (folder / SIGNATURE).exists()
