"""Wrong options in one line: tyro says them in a box, with half of the help around them."""

import difflib
import itertools
import re
from collections.abc import Collection, Mapping, Sequence

__all__ = ["in_one_line"]

_KINDS = {"INT": "a whole number", "FLOAT": "a number", "PATH": "a path", "STR": "a word"}
_COUNTS = {1: "one", 2: "two", 3: "three"}


def in_one_line(boxed: str, flags: Collection[str], elsewhere: Mapping[str, Sequence[str]]) -> str:
    """What was expected and what was found; in tyro's words where it says something unforeseen.

    Args:
        boxed: what tyro wrote.
        flags: of the verb.
        elsewhere: other flags, and the verbs beside this one that have them.
    """
    # A box of lines, or where the terminal has no such characters, of blanks.
    lines = [re.sub("[╭╮╰╯│]|[─-]{5,}", " ", line) for line in boxed.splitlines()[1:]]
    ends = ("Argument helptext", "For full helptext")
    said = list(itertools.takewhile(lambda line: not line.strip().startswith(ends), lines))
    text = " ".join(" ".join(said).split())
    if found := re.search(r"Unrecognized options: ([^\s,]+)", text):
        return _unknown(found[1], flags, elsewhere)
    if text.startswith("Missing from"):
        # A name and its kind on a line of its own, above its help, which is further in.
        names = [line.split()[0] for line in said if re.match(r" {6}\S", line)]
        return f"expected {_listed(names)}, found none"
    if found := re.match(r"Missing value for argument '(.+?)'\. Expected ([2-9]) values", text):
        return f"expected {_COUNTS[int(found[2])]} values for {found[1]}, found fewer"
    if found := re.match(r"Missing value for argument '(.+?)'", text):
        return f"expected a value for {found[1]}, found none"
    if found := re.match(r"invalid choice (.+) for argument '(.+?)'\. .* \((.+?),?\)\.", text):
        return f"expected {found[2]} among {found[3].replace(chr(39), '')}, found {found[1]}"
    if found := re.match(r"Error parsing (--\S+): Could not (?:find|parse) .*?\[(.*?)\]", text):
        helped = (line.split(maxsplit=1) for line in lines)  # its kind is only in its help
        kind = next(words[1] for words in helped if words[:1] == [found[1]])
        return f"expected {_kind(kind.strip())} for {found[1]}, found {found[2]}"
    if found := re.match(
        r"Error parsing (--\S+): no type matching (.+) could .* \[(.*?)\]\.", text
    ):
        return f"expected {_kind(found[2])} for {found[1]}, found {found[3]}"
    if found := re.match(
        r"Error parsing (--\S+): (?:could not|invalid) .*(int|float).*: (.+)", text
    ):
        return f"expected {_KINDS[found[2].upper()]} for {found[1]}, found {found[3]}"
    return re.sub(r"^Error parsing \w+: ", "", text)  # of a record: the library's own words


def _unknown(word: str, flags: Collection[str], elsewhere: Mapping[str, Sequence[str]]) -> str:
    if not word.startswith("-"):
        return f"expected nothing more, found {word!r}"
    flag = word.partition("=")[0].replace("_", "-")
    if owners := elsewhere.get(flag) or elsewhere.get(flag.replace("--no-", "--")):
        return f"expected an option, found {word!r}, which is for {_listed(owners)}"
    near = [flag for flag in flags if flag.startswith(word)]
    near += difflib.get_close_matches(word, flags, n=1, cutoff=0.7)
    hint = f" (did you mean {near[0]}?)" if near else ""
    return f"expected an option, found {word!r}{hint}"


def _kind(kinds: str) -> str:
    """INT|{auto} or {FLOAT FLOAT}|{auto}, as a person would say it."""
    words = []
    for kind in kinds.split("|"):
        parts = kind.strip("{}[] .").split()
        if kind in _KINDS:
            words.append(_KINDS[kind])
        elif "..." in kind:
            words.append(f"{_KINDS[parts[0]].removeprefix('a ')}s")
        elif len(parts) > 1 and len(set(parts)) == 1 and parts[0] in _KINDS:
            words.append(f"{_COUNTS[len(parts)]} {_KINDS[parts[0]].removeprefix('a ')}s")
        else:
            words.append(kind.strip("{}").replace(",", " or "))
    return " or ".join(words)


def _listed(names: Sequence[str]) -> str:
    *most, last = names
    return f"{', '.join(most)} and {last}" if most else last
