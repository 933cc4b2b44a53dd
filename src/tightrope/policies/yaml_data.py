"""YAML as PyYAML writes it, read as data: Python tags are heeded for their layout only.

Block and flow collections, plain and quoted scalars over several lines, anchors. Nothing is
constructed: an OrderedDict becomes a dictionary, a tuple a list, any other object what it is
written as.
"""

import re
from typing import Any

__all__ = ["read_yaml"]

_LARGEST = 100_000  # characters
_REPEATED = 10_000  # values that aliases repeat, those within others counted
_KEY = re.compile(
    r"""("(?:[^"\\]|\\.)*"|'(?:[^']|'')*'|[^\s\-'"\[\]{}&*!|>%@`][^#]*?|-[^\s#][^#]*?):(?:\s+(.*)|$)"""
)
_PROPERTY = re.compile(r"([!&]\S*)(?:\s+(.*)|$)")
_FLOW = re.compile(
    r"""\s*("(?:[^"\\]|\\.)*"|'(?:[^']|'')*'|[\[\]{},]|:(?=[\s,\]}]|$)|(?:[^\s,\[\]{}:]|:(?=\S)|\s(?=[^\s,\[\]{}:]))+)"""
)
_WORDS = {"": None, "~": None, "null": None, "true": True, "false": False, "yes": True, "no": False}
_ESCAPE = r"\\(?:[xuU]([0-9A-Fa-f]{2,6})|.)"
_ESCAPES = {r"\n": "\n", r"\t": "\t", r"\r": "\r", r"\0": "\0"}


def read_yaml(text: str) -> Any:
    """The value that a document describes.

    Raises:
        ValueError: it is damaged, too long, or uses what PyYAML does not write.
    """
    if len(text) > _LARGEST:
        raise ValueError(f"a document of {len(text):,} characters, at most {_LARGEST:,} are read")
    try:
        return _Reader(text).document()
    except (IndexError, RecursionError) as error:
        raise ValueError(f"no whole YAML document ({type(error).__name__})") from None


class _Reader:
    """Lines with their indentation, the next one, and values by their anchors."""

    def __init__(self, text: str) -> None:
        lines = [line.rstrip() for line in text.splitlines()]
        kept = [line for line in lines if line.strip() and not line.lstrip().startswith(("#", "%"))]
        kept = [line for line in kept if line not in ("---", "...")]
        self.lines = [(len(line) - len(line.lstrip()), line.lstrip()) for line in kept]
        self.next = 0
        self.anchors: dict[str, Any] = {}
        self.repeated = 0

    def document(self) -> Any:
        value = self.block(0) if self.lines else None
        if self.next < len(self.lines):
            raise ValueError(f"no YAML at {self.lines[self.next][1][:40]!r}")
        return value

    def block(self, indent: int) -> Any:
        """The value that begins at the next line, whose parts stand at `indent` or further."""
        if self.next >= len(self.lines) or self.lines[self.next][0] < indent:
            return None
        indent, text = self.lines[self.next]
        if text.startswith("- ") or text == "-":
            return self.sequence(indent)
        if _KEY.match(text):
            return self.mapping(indent)
        self.next += 1
        return self.inline(text, indent - 1)

    def sequence(self, indent: int) -> list[Any]:
        items = []
        while self.next < len(self.lines):
            at, text = self.lines[self.next]
            if at != indent or not (text.startswith("- ") or text == "-"):
                break
            rest = text[1:].lstrip()
            if rest:
                self.lines[self.next] = (indent + len(text) - len(rest), rest)
            else:
                self.next += 1
            items.append(self.block(indent + 1))
        return items

    def mapping(self, indent: int) -> dict[str, Any]:
        items: dict[str, Any] = {}
        while self.next < len(self.lines) and self.lines[self.next][0] == indent:
            match = _KEY.match(self.lines[self.next][1])
            if not match:
                break
            self.next += 1
            items[str(_scalar(match[1]))] = self.inline(match[2] or "", indent)
        return items

    def inline(self, text: str, indent: int) -> Any:
        """A value that begins within a line, after its key."""
        if match := _PROPERTY.match(text):
            return self.tagged(match[1], self.inline(match[2] or "", indent))
        if not text:
            if self.next < len(self.lines):
                at, following = self.lines[self.next]
                if at > indent or (at == indent and following.startswith("-")):
                    return self.block(at)
            return None
        if text.startswith("*"):
            return self.again(self.anchors.get(text[1:]))
        while self.next < len(self.lines) and self.lines[self.next][0] > indent:
            text += f" {self.lines[self.next][1]}"  # folded
            self.next += 1
        return _flow(text) if text[0] in "[{" else _scalar(text)

    def again(self, value: Any) -> Any:
        """A value that an alias repeats; aliases of aliases would otherwise double without end."""
        self.repeated += _count(value)
        if self.repeated > _REPEATED:
            raise ValueError(f"aliases repeat more than {_REPEATED:,} values")
        return value

    def tagged(self, tag: str, value: Any) -> Any:
        if tag.startswith("&"):
            self.anchors[tag[1:]] = value
        elif tag.endswith("OrderedDict") and isinstance(value, list):
            pairs = value[0] if value else []
            return {str(key): each for key, each in pairs}
        elif "python/object" in tag and isinstance(value, dict) and "args" in value:
            return value["args"][0] if value["args"] else None  # of a text with a class
        return value


def _count(value: Any) -> int:
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return 1 + sum(map(_count, inner))


def _scalar(text: str) -> Any:
    if text[:1] == '"' and text[-1:] == '"':
        return re.sub(
            _ESCAPE,
            lambda m: _ESCAPES.get(m[0], chr(int(m[1], 16)) if m[1] else m[0][1:]),
            text[1:-1],
        )
    if text[:1] == "'" and text[-1:] == "'":
        return text[1:-1].replace("''", "'")
    if text.lower() in _WORDS:
        return _WORDS[text.lower()]
    if re.fullmatch(r"[-+]?\d{1,20}", text):
        return int(text)
    if re.fullmatch(r"[-+]?(\d+\.\d*|\.\d+)(e[-+]\d+)?", text, re.IGNORECASE):
        return float(text)
    return text


def _flow(text: str) -> Any:
    tokens = _FLOW.findall(text)[::-1]
    value = _flow_value(tokens)
    if tokens:
        raise ValueError(f"no YAML at {tokens[-1][:40]!r}")
    return value


def _flow_value(tokens: list[str]) -> Any:
    token = tokens.pop()
    if token == "[":
        items = []
        while tokens[-1] != "]":
            items.append(_flow_value(tokens))
            if tokens[-1] == ",":
                tokens.pop()
        tokens.pop()
        return items
    if token == "{":
        pairs: dict[str, Any] = {}
        while tokens[-1] != "}":
            key = str(_flow_value(tokens))
            pairs[key] = None
            if tokens[-1] == ":":
                tokens.pop()
                pairs[key] = _flow_value(tokens)
            if tokens[-1] == ",":
                tokens.pop()
        tokens.pop()
        return pairs
    if token in "]},:" or token[0] in "&!*":
        raise ValueError(f"no YAML at {token!r}")
    return _scalar(token)
