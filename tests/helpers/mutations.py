"""Harm done to files, the same for the same seed: bytes, archives, headers and documents."""

import copy
import io
import json
import random
import re
import struct
import zipfile

_NUMBERS = (0, 1, 2, 7, 8, 127, 128, 255, 2**15, 2**16 - 1, 2**31 - 1, 2**31, 2**32 - 1)
_NUMBERS += (2**40, 2**62, 2**63 - 1, 2**64 - 1)
_WORDS = (b"", b"null", b"NaN", b"-1", b"1e999", b"true", b"[]", b"{}", b'"', b"\n", b"\x00", b",")
_WORDS += (b"../../escaped", b"/escaped", b"9" * 5000, b"[" * 3000, b"{}.__class__", b"\xff\xfe")
_VALUES = (None, True, False, 0, -1, 1, 2**31, 2**63, 2**64, -(2**63), 0.5, -0.0, 1e308, 1e-320)
_VALUES += ("", "a", "\x00", "../../escaped", "/escaped", "\ud800", "v3.0", [], {}, [[]], [0, 0])
_VALUES += ({"id": 5}, {"a": {"b": []}}, [None, 1], 10**400, "x" * 10_000)


def damaged(content: bytes, other: bytes, rng: random.Random) -> bytes:
    """One to four harmful changes of some bytes; parts of `other` may be spliced in."""
    for _ in range(rng.randint(1, 4)):
        content = rng.choice(_CHANGES)(content, other, rng)
    return content


def _flip(content, other, rng):
    changed = bytearray(content)
    for _ in range(rng.randint(1, 8) if changed else 0):
        changed[rng.randrange(len(changed))] ^= 1 << rng.randrange(8)
    return bytes(changed)


def _truncate(content, other, rng):
    return content[: rng.randrange(len(content) + 1)]


def _insert(content, other, rng):
    at = rng.randrange(len(content) + 1)
    return content[:at] + rng.randbytes(rng.randint(1, 64)) + content[at:]


def _remove(content, other, rng):
    at = rng.randrange(len(content) + 1)
    return content[:at] + content[at + rng.randint(1, 64) :]


def _splice(content, other, rng):
    start, at = rng.randrange(len(other) + 1), rng.randrange(len(content) + 1)
    part = other[start : start + rng.randint(1, 256)]
    return content[:at] + part + content[at + (len(part) if rng.random() < 0.5 else 0) :]


def _lie(content, other, rng):
    """A length, offset or count that is not so: in the header, as a rule."""
    kind = rng.choice(("<B", "<H", ">H", "<I", ">I", "<Q", ">Q"))
    size = struct.calcsize(kind)
    if len(content) < size:
        return content
    end = len(content) - size
    at = rng.choice((rng.randint(0, end), rng.randint(0, min(end, 64)), rng.randint(0, end)))
    number = rng.choice(_NUMBERS) % 2 ** (8 * size)
    return content[:at] + struct.pack(kind, number) + content[at + size :]


def _renumber(content, other, rng):
    """Another number where digits stand."""
    found = list(re.finditer(rb"\d+", content[:1_000_000]))
    if not found:
        return content
    one = rng.choice(found)
    number = str(rng.choice(_NUMBERS) * rng.choice((1, 1, -1))).encode()
    return content[: one.start()] + number + content[one.end() :]


def _word(content, other, rng):
    at = rng.randrange(len(content) + 1)
    return content[:at] + rng.choice(_WORDS) + content[at + rng.choice((0, 1, 4)) :]


_CHANGES = (_flip, _truncate, _insert, _remove, _splice, _lie, _lie, _renumber, _word)


def document(content: bytes, other: bytes, rng: random.Random) -> bytes:
    """JSON with other values, keys or none in some places, and still JSON."""
    try:
        tree = json.loads(content)
    except (ValueError, RecursionError):
        return damaged(content, other, rng)
    for _ in range(rng.randint(1, 3)):
        tree = _changed_tree(tree, rng)
    return json.dumps(tree).encode()


def _changed_tree(tree, rng):
    places = list(_places(tree))
    if not places or rng.random() < 0.02:
        return copy.deepcopy(rng.choice(_VALUES))
    holder, key = rng.choice(places)
    kind = rng.randrange(8)
    if kind == 0:
        del holder[key]
    elif kind == 1 and isinstance(holder, dict):
        holder[f"{key}x"] = holder.pop(key)
    elif kind == 2:
        other, place = rng.choice(places)
        holder[key] = json.loads(json.dumps(other[place])) if _there(other, place) else None
    elif kind == 3 and isinstance(holder, list):
        holder.append(holder[key])
    else:
        holder[key] = copy.deepcopy(rng.choice(_VALUES))
    return tree


def _there(holder, key):
    return key in holder if isinstance(holder, dict) else key < len(holder)


def _places(tree):
    if not isinstance(tree, dict | list):
        return
    for key, value in list(tree.items() if isinstance(tree, dict) else enumerate(tree)):
        yield tree, key
        yield from _places(value)


def lines(content: bytes, other: bytes, rng: random.Random) -> bytes:
    """Text with a line changed as a document, moved, repeated or left out."""
    rows = content.split(b"\n")
    at = rng.randrange(len(rows))
    kind = rng.randrange(4)
    if kind == 0:
        rows[at] = document(rows[at], other, rng)
    elif kind == 1:
        rows.insert(rng.randrange(len(rows)), rows[at])
    elif kind == 2:
        del rows[at]
    else:
        rows[at] = damaged(rows[at], other, rng)
    return b"\n".join(rows)


def tensors(content: bytes, other: bytes, rng: random.Random) -> bytes:
    """A .safetensors file whose header lies, with a length of the header that is right."""
    size = int.from_bytes(content[:8], "little")
    entries = json.loads(content[8 : 8 + size])
    own = entries.get("__metadata__", {})
    if own and rng.random() < 0.5:  # the header of ours within theirs
        key = next(iter(own))
        own[key] = document(own[key].encode(), b"", rng).decode(errors="replace")
        header = json.dumps(entries).encode()
    else:
        header = document(json.dumps(entries).encode(), b"", rng)
    header += b" " * (-len(header) % 8)
    return len(header).to_bytes(8, "little") + header + content[8 + size :]


def archive(content: bytes, other: bytes, rng: random.Random) -> bytes:
    """A zip with one member changed, renamed, repeated or left out, and every checksum right."""
    if not zipfile.is_zipfile(io.BytesIO(content)):
        return damaged(content, other, rng)
    made = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(content)) as old, zipfile.ZipFile(made, "w") as new:
        names = old.namelist()
        chosen, kind = rng.choice(names), rng.randrange(8)
        for name in names:
            member, stored = old.read(name), name
            if name == chosen:
                if kind == 0:
                    continue
                if kind == 1:
                    stored = rng.choice(("../../escaped", "/escaped", f"{name}x", "data"))
                elif kind in (2, 3):
                    member = document(member, other, rng)
                elif zipfile.is_zipfile(io.BytesIO(member)) and kind != 4:
                    member = archive(member, other, rng)
                else:
                    member = damaged(member, other, rng)
            new.writestr(stored, member)
    return made.getvalue()
