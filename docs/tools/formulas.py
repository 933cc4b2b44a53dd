"""Formulas of the pages in LaTeX.

The pages write formulas as plain text between backticks, so that they can be read in an editor and
on GitHub: `kl(q‖p) ≤ (KL + ln(1/δ))/n`. This reads them; `typeset` makes MathML of the result.
"""

import re
import unicodedata

__all__ = ["LETTERED", "chunks", "is_formula", "to_latex"]

_TABLE = r"""
α \alpha  β \beta  γ \gamma  δ \delta  ε \varepsilon  κ \kappa  λ \lambda  µ \mu  μ \mu  ξ \xi
ν \nu  π \pi  ρ \rho  σ \sigma  ψ \psi  Γ \Gamma  Δ \Delta  Λ \Lambda  Ψ \Psi  Ω \Omega  ℓ \ell
Σ \sum  Π \prod  ∫ \int  ∂ \partial  ∞ \infty  ≤ \le  ≥ \ge  ∈ \in  ↦ \mapsto  ∃ \exists
≈ \approx  − -  · \cdot  × \times  ‖ \|  | |  … \dots  ⌊ \lfloor  ⌋ \rfloor  ½ \tfrac12
"""
_SYMBOLS = dict(zip(_TABLE.split()[::2], _TABLE.split()[1::2], strict=True))
_LETTERS = "αβγδεκλµμξπρσψΓΔΛΨΩℓΣ"  # of these, what can have something below or above it in prose
_LOWERED = dict(zip("₀₁₂₃ᵢⱼₙₜ₋₊", "0123ijnt-+", strict=True))
_RAISED = dict(zip("⁰¹²³⁴⁵⁶⁷⁸⁹⁺⁻ⁿⁱᵏ", "0123456789+-nik", strict=True))
_INVERSES = {"-1+": "-1,+", "-1-": "-1,-"}  # the upper and the lower inverse of kl
_ACCENTS = {"\u0302": "hat", "\u0304": "bar"}
_OPERATORS = {
    *("KL", "kl", "ln", "exp", "log", "sup", "inf", "max", "min", "mean", "sign", "round"),
    *("sqrt", "Poi", "BetaInv", "Bin", "hi", "lo"),
}
_LIMITS = {"sup", "inf", "max", "min", "ln", "exp", "log"}  # LaTeX has commands for these
_WORDS = {"for all", "error at", "rows"}
_TYPICAL = {*_SYMBOLS, *_LOWERED, *_RAISED, *_ACCENTS, "√"} - set("…|·×µ")
# Formulas without a symbol: `s_(r)`, `E_t`, `a = q ln(q/p)`, `max_t |M_t|`.
_PLAIN = re.compile(r"[A-Za-z]_(\([a-z]\)|[a-z])|[a-z] = .*\bln\(.*|max_t \|.*")
_CODE = re.compile(r"[A-Za-z]{2}_(?!rows)[A-Za-z]{2}|[a-z]{3}=")  # a name, an argument
_APART = {r"\ln", r"\exp", r"\max", r"\mathbb{E}", "d"}
_LONG = 12  # symbols after which a line may also break before a sum's sign
_RELATIONS = {r"\le", r"\ge", "=", "<", ">", r"\mapsto"}

# A letter with something below or above it in the middle of a sentence: ρ_{t−1}, S_≥t.
_SCRIPT = r"(\{[^{}`]*\}|\([^()`]*\)|[≤≥]?[A-Za-zλ0-9](?:−\d)?)(?![A-Za-z0-9_])"
LETTERED = rf"(?<![A-Za-z0-9_`/.\\])[A-Za-z0-9{_LETTERS}]'?[_^]{_SCRIPT}"


def is_formula(text: str) -> bool:
    """Whether what stands between backticks is mathematics rather than code."""
    letters = unicodedata.normalize("NFD", text)
    if _PLAIN.fullmatch(text):
        return True
    if _CODE.search(text) or not _TYPICAL & set(letters):
        return False
    long = re.findall(r"[A-Za-z]{4,}", letters)
    known = {*_OPERATORS, *" ".join(_WORDS).split()}
    return known.issuperset(long)


class _Reader:
    """One pass over a formula, from left to right."""

    def __init__(self, text: str) -> None:
        self.text, self.place = unicodedata.normalize("NFD", text), 0

    def next(self) -> str:
        return self.text[self.place : self.place + 1]

    def take(self, pattern: str) -> str:
        found = re.compile(pattern).match(self.text, self.place)
        self.place = found.end() if found else self.place
        return found[0] if found else ""

    def until(self, closing: str) -> list[str]:
        """Everything up to the bracket that closes what was opened, which is passed over."""
        inside: list[str] = []
        while self.next() and self.next() != closing:
            opened = self.take(r"\(")
            inside += ["(", *self.until(")"), ")"] if opened else self.atom()
        self.place += 1
        return inside

    def script(self, mark: str) -> str:
        """What stands below or above: a group, or one letter or number with its sign."""
        if self.take(r"\{"):
            inside = self.until("}")
        elif self.take(r"\("):
            inside = self.until(")")
            inside = ["(", *inside, ")"] if mark == "_" else inside
        elif self.take("rows"):
            inside = [r"\mathrm{rows}"]
        else:
            inside = [*self.symbol(self.take("[≤≥]")), *self.atom(scripts=False)]
        return f"{mark}{{{' '.join(inside)}}}"

    @staticmethod
    def symbol(sign: str) -> list[str]:
        return [_SYMBOLS[sign]] if sign else []

    def atom(self, *, scripts: bool = True) -> list[str]:
        """The next symbol, name, number or group, with what stands below and above it."""
        if self.take(r"\s+"):
            return []
        found = self.name() or self.group() or self.sign()
        while scripts:
            lowered = self.take(f"[{''.join(_LOWERED)}]+")
            raised = self.take(f"[{''.join(_RAISED)}]+")
            if lowered:
                found.append(f"_{{{''.join(map(_LOWERED.__getitem__, lowered))}}}")
            elif raised:
                plain = "".join(map(_RAISED.__getitem__, raised))
                found.append(f"^{{{_INVERSES.get(plain, plain)}}}")
            elif self.next() in ("_", "^"):
                found.append(self.script(self.take("[_^]")))
            else:
                break
        return found

    def name(self) -> list[str]:
        if number := self.take(r"\d+(\.\d+)?"):
            return [number]
        if accented := self.take(f"[A-Za-zℓ][{''.join(_ACCENTS)}]"):
            return [rf"\{_ACCENTS[accented[1]]}{{{_SYMBOLS.get(accented[0], accented[0])}}}"]
        for expected in (r"E(?=\[|_ρ|_\{ρ| [A-Za-z(Π])", r"P(?=\()"):
            if letter := self.take(expected):
                return [rf"\mathbb{{{letter}}}"]
        if self.take(r"sqrt\(|√\("):
            return [rf"\sqrt{{{' '.join(self.until(')'))}}}"]
        for word in sorted(_OPERATORS | _WORDS, key=len, reverse=True):
            if self.take(rf"{word}(?![A-Za-z])"):
                if word in _LIMITS:
                    return [rf"\{word}"]
                return [rf"\mathrm{{{word}}}" if word in _OPERATORS else rf"\text{{ {word} }}"]
        if self.take("√"):
            return [rf"\sqrt{{{' '.join(self.atom())}}}"]
        return [letter] if (letter := self.take("[A-Za-z]")) else []

    def group(self) -> list[str]:
        """A set; round and square brackets stand for themselves."""
        return [r"\{", *self.until("}"), r"\}"] if self.take(r"\{") else []

    def sign(self) -> list[str]:
        sign = self.next()
        self.place += 1
        if sign in _SYMBOLS:
            return [_SYMBOLS[sign]]
        if sign.isascii() and sign in "()[],;:.+-/=<>!'":
            return [sign]
        raise ValueError(f"no such symbol in a formula: {sign!r} in {self.text!r}")


def chunks(text: str) -> list[str]:
    r"""The formula in LaTeX, cut before relations outside brackets: lines may break there.

    >>> chunks("kl(q‖p) ≤ 2√n")
    ['\\mathrm{kl} ( q \\| p )', '\\le 2 \\sqrt{n}']
    """
    reader, depth = _Reader(text), 0
    parts: list[list[str]] = [[]]
    while reader.next():
        for token in reader.atom():
            depth += (token in "([" or token in (r"\{", r"\lfloor")) - (
                token in ")]" or token in (r"\}", r"\rfloor")
            )
            breaks = token in _RELATIONS or (token in "+-" and len(parts[-1]) > _LONG)
            if breaks and depth == 0 and parts[-1]:
                parts.append([])
            parts[-1] += _spaced(parts[-1][-1:], token)
    return [" ".join(part) for part in parts if part]


def _spaced(before: list[str], token: str) -> list[str]:
    """A name of a function stands apart from what comes before it, and a colon from both sides."""
    if token == ":":
        return [r"\;", token, r"\;"]
    if before == [r"\ln"] and token != "(":
        return [r"\,", token]
    apart = before and (before[0].isalnum() or before[0][0] in ")_^")
    return [r"\,", token] if apart and token in _APART else [token]


def to_latex(text: str) -> str:
    """A formula of the pages in LaTeX."""
    return " ".join(chunks(text))
