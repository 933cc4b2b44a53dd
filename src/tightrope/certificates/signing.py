"""Signatures: who stands behind a certificate.

Ed25519 over the bytes of certificate.json, whose digests cover the predictor and the episodes.
The signature is a file of its own, 64 bytes, which openssl reads as well.
"""

from pathlib import Path
from typing import Any

from tightrope.certificates.folder import DOCUMENT
from tightrope.errors import InputError, one_line
from tightrope.files import refuse_to_overwrite, write_atomically
from tightrope.imports import needed

__all__ = ["SIGNATURE", "sign", "signature_problems"]

SIGNATURE = f"{DOCUMENT}.sig"
_NEW_KEY = "make one with: openssl genpkey -algorithm ed25519 -out key.pem"
_PUBLIC = "make it with: openssl pkey -in key.pem -pubout -out key.pub.pem"


def sign(folder: str | Path, key: str | Path) -> Path:
    """Write a signature beside a certificate's document.

    Args:
        folder: of a certificate.
        key: private Ed25519 key, a PEM file without a password.

    Returns:
        The new file.

    Raises:
        InputError: there is no certificate, it is signed already, or the key is none.
    """
    folder, key = Path(folder), Path(key)
    path = folder / SIGNATURE
    if not (folder / DOCUMENT).is_file():
        raise InputError(f"expected the folder of a certificate, found {str(folder)!r}")
    refuse_to_overwrite(path)
    private = _key(key, "private", _NEW_KEY)
    signature = private.sign((folder / DOCUMENT).read_bytes())

    def write(temporary: Path) -> None:
        temporary.write_bytes(signature)

    write_atomically(path, write)
    return path


def signature_problems(folder: Path, key: str | Path) -> list[str]:
    """Why the signature beside a certificate is not by the owner of a public key, in words.

    Raises:
        InputError: the key is none.
    """
    public = _key(Path(key), "public", _PUBLIC)
    path = folder / SIGNATURE
    if not path.is_file():
        return [f"{SIGNATURE}: none, but a key is given"]
    exceptions = needed("cryptography.exceptions", "a signature", "sign")
    try:
        public.verify(path.read_bytes(), (folder / DOCUMENT).read_bytes())
    except (exceptions.InvalidSignature, OSError):
        return [f"{SIGNATURE}: not a signature of {DOCUMENT} by the owner of {str(key)!r}"]
    return []


def _key(path: Path, kind: str, remedy: str) -> Any:
    serialization = needed("cryptography.hazmat.primitives.serialization", "a signature", "sign")
    ed25519 = needed("cryptography.hazmat.primitives.asymmetric.ed25519", "a signature", "sign")
    try:
        content = path.read_bytes()
        if kind == "private":
            found, wanted = serialization.load_pem_private_key(content, None), "Ed25519PrivateKey"
        else:
            found, wanted = serialization.load_pem_public_key(content), "Ed25519PublicKey"
    except OSError as error:
        raise InputError(f"cannot read the key {str(path)!r}: {one_line(error)}") from None
    except Exception as error:  # cryptography has its own for what it does not support
        raise InputError(
            f"expected a {kind} Ed25519 key in {str(path)!r} ({one_line(error)}): {remedy}"
        ) from None
    if not isinstance(found, getattr(ed25519, wanted)):
        raise InputError(
            f"expected a {kind} Ed25519 key in {str(path)!r}, found another kind: {remedy}"
        )
    return found
