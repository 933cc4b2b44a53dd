"""Formulas as MathML, made while the site is built: no script and no network when it is read.

An extension of Python-Markdown, the same for pages and for docstrings. Pages write formulas as text
between backticks (see `formulas`), docstrings write LaTeX in directives and roles, and doctests.
"""

import html
import re
from typing import Any
from xml.etree import ElementTree

import latex2mathml.converter
from formulas import LETTERED, chunks, is_formula, to_latex
from markdown import Markdown
from markdown.extensions import Extension
from markdown.inlinepatterns import InlineProcessor
from markdown.preprocessors import Preprocessor
from markdown.util import AtomicString

__all__ = ["Formulas"]


def _mathml(latex: str, display: str = "inline") -> ElementTree.Element:
    made = latex2mathml.converter.convert_to_element(latex, display=display)
    for each in made.iter():
        each.text = each.text and html.unescape(each.text)
        if each.text in ("|", "‖"):  # brackets, not operators between two terms
            each.set("lspace", "0em")
            each.set("rspace", "0em")
    return made


def _typeset(latex: list[str]) -> ElementTree.Element:
    """Formulas in a row with a blank between them, so that a line can break."""
    span = ElementTree.Element("span", {"class": "formula"})
    for index, part in enumerate(latex):
        math = _mathml(part)
        if index:  # begins with a sign that stands between two terms all the same
            next(math.iter("mo")).set("form", "infix")
        math.tail = " "
        span.append(math)
    span[-1].tail = None
    _atomic(span)
    return span


def _atomic(element: ElementTree.Element) -> None:
    """Text that Markdown leaves as it is."""
    for each in element.iter():
        if each.text:
            each.text = AtomicString(each.text)


class _Span(InlineProcessor):
    """Backticks: mathematics if it is, else left to Markdown."""

    def handleMatch(self, match: re.Match[str], data: str) -> Any:  # noqa: N802
        text = " ".join(match[2].split())
        if not is_formula(text):
            return None, None, None
        try:
            return _typeset(chunks(text)), match.start(), match.end()
        except ValueError:  # a symbol that no formula has: then it is code after all
            return None, None, None


class _Bare(InlineProcessor):
    """A letter with something below or above it in the middle of a sentence: ρ_{t−1}, S_≥t."""

    def handleMatch(self, match: re.Match[str], data: str) -> Any:  # noqa: N802
        return _typeset([to_latex(match[0])]), match.start(), match.end()


class _Role(InlineProcessor):
    """:math: and cross-references in docstrings."""

    def handleMatch(self, match: re.Match[str], data: str) -> Any:  # noqa: N802
        kind, text = match[1], match[2]
        if kind == "math":
            return _typeset([" ".join(text.split())]), match.start(), match.end()
        code = ElementTree.Element("code")
        code.text = AtomicString(text)
        return code, match.start(), match.end()


class _Sessions(Preprocessor):
    """Doctests in docstrings as code, up to the next blank line."""

    def run(self, lines: list[str]) -> list[str]:
        result: list[str] = []
        fenced = session = False
        for line in lines:
            fenced ^= line.lstrip().startswith("```")
            if line.startswith(">>> ") and not fenced and not session:
                result.append("```pycon")
                session = True
            elif session and not line.strip():
                result.append("```")
                session = False
            result.append(line)
        return [*result, "```"] if session else result


class _Directive(Preprocessor):
    """`.. math::` in docstrings, with the lines that belong to it, as one block of MathML."""

    def run(self, lines: list[str]) -> list[str]:
        result, rest = [], list(lines)
        while rest:
            line = rest.pop(0)
            found = re.match(r"( *)\.\. math:: *(.*)", line)
            if not found:
                result.append(line)
                continue
            parts = [found[2]]
            while rest and rest[0].startswith(f"{found[1]}  ") and rest[0].strip():
                parts.append(rest.pop(0).strip())
            latex = re.sub(r"\(([A-Z]\.\d)\)$", r"\\text{(\1)}", " ".join(parts).rstrip())
            math = _mathml(latex, "block")
            block = f'<div class="formula">{ElementTree.tostring(math, encoding="unicode")}</div>'
            result += ["", found[1] + self.md.htmlStash.store(block), ""]
        return result


class Formulas(Extension):
    """The extension of Python-Markdown; the same for pages and for docstrings."""

    def extendMarkdown(self, md: Markdown) -> None:  # noqa: N802
        """Register everything above what handles backticks and underscores."""
        md.preprocessors.register(_Sessions(md), "doctest", 29)
        md.preprocessors.register(_Directive(md), "math-directive", 28)
        md.inlinePatterns.register(_Role(r":(\w+):`([^`]+)`", md), "docstring-role", 196)
        span = _Span(r"(?<![\\`])(`)(?!`)([^`]+)`(?!`)", md)
        md.inlinePatterns.register(span, "formula", 195)
        md.inlinePatterns.register(_Bare(LETTERED, md), "bare-formula", 185)
