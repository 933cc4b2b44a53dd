"""The site is built without a warning, and works without a network; formulas are mathematics."""

import importlib.util
import os
import re
import subprocess
import sys

import pytest
from documents import DOCS, ROOT, prose

sys.path.insert(0, str(DOCS / "tools"))
from formulas import chunks, is_formula, to_latex


@pytest.mark.parametrize(
    ("text", "latex"),
    [
        ("kl(q‖p) ≤ c", r"\mathrm{kl} ( q \| p ) \le c"),
        ("2√n", r"2 \sqrt{n}"),
        ("√(πn/2)", r"\sqrt{\pi n / 2}"),
        ("√(2(a+b)/n)", r"\sqrt{2 ( a + b ) / n}"),
        ("kl⁻¹⁺(p̂, c)", r"\mathrm{kl} ^{-1,+} ( \hat{p} , c )"),
        ("κ_t B_{t−1}", r"\kappa _{t} B _{t - 1}"),
        ("s_(r_j)", r"s _{( r _{j} )}"),
        ("γ^(i−b)", r"\gamma ^{i - b}"),
        ("E_ρ[ℓ²]", r"\mathbb{E} _{\rho} [ \ell ^{2} ]"),
        ("sup{p : p ≤ 1}", r"\sup \{ p \; : \; p \le 1 \}"),
    ],
)
def test_a_formula_becomes_latex(text, latex):
    assert to_latex(text) == latex


@pytest.mark.parametrize(
    "text",
    ["pac_bayes_kl(…, delta=δ/T)", "norm(x · weight)", "[…]", "candidates=K", "exp", "B_raw"],
)
def test_code_stays_code(text):
    assert not is_formula(text)


def test_lines_break_before_relations_outside_brackets():
    assert len(chunks("P(p̂ ≤ x) ≤ a = b")) == 3


def test_every_formula_of_the_theory_is_understood():
    spans = [" ".join(span.split()) for span in re.findall(r"`([^`]+)`", prose(DOCS / "theory.md"))]
    formulas = [span for span in spans if is_formula(span)]
    assert len(formulas) > 100
    for formula in formulas:
        chunks(formula)
    left = {span for span in spans if re.search("[≤≥−√‖ΣΠ]", span)} - set(formulas)
    assert not left


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    missing = [
        name
        for name in ("mkdocs", "material", "mkdocstrings", "latex2mathml")
        if importlib.util.find_spec(name) is None
    ]
    if missing:
        pytest.skip(f'{missing[0]} is not installed: pip install -e ".[docs]"')
    out = tmp_path_factory.mktemp("site")
    ran = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(out)],
        cwd=ROOT,
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1"},
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert "WARNING" not in ran.stdout + ran.stderr
    return out


def test_nothing_is_fetched_when_a_page_is_read(site):
    """No script, style, font, frame or picture comes from elsewhere."""
    fetched = (
        r"<(?:script|img|iframe|source|link)\b[^>]*?(?:src|href)=[\"']?((?:https?:)?//[^\"'\s>]+)"
    )
    for page in site.rglob("*.html"):
        found = re.findall(fetched, page.read_text("utf-8"))
        assert not found, f"{page.name}: {found}"
    for style in site.rglob("*.css"):
        assert not re.search(r"(?:url\(|@import)\s*['\"]?(?:https?:)?//", style.read_text("utf-8"))


def test_search_works_from_disk(site):
    index = (site / "search" / "search_index.js").read_text("utf-8")
    assert index.startswith("var __index = ")
    assert "pitfalls.html#the-best-of-many" in index
    assert "assets/iframe-worker.js" in (site / "index.html").read_text("utf-8")


def test_formulas_are_typeset(site):
    theory = (site / "theory.html").read_text("utf-8")
    assert theory.count("<math") > 200
    python = (site / "api.html").read_text("utf-8")
    assert python.count('<div class="formula">') > 20
    for text in (theory, python):
        assert ".. math::" not in text
        assert ":func:" not in text
        assert ":math:" not in text
        assert "&amp;#x" not in text


@pytest.mark.parametrize("module", ["", "bounds", "certificates", "rollouts", "studies"])
def test_every_public_name_is_in_the_reference(site, module):
    path = ".".join(filter(None, ["tightrope", module]))
    own, top = importlib.import_module(path), importlib.import_module("tightrope")
    page = (site / "api.html").read_text("utf-8")
    for name in own.__all__:
        if name == "__version__" or (module and name in top.__all__):
            continue
        home = getattr(getattr(own, name), "__module__", path)  # where a module has its name, too
        assert f'id="{path}.{name}"' in page or f'id="{home}.{name}"' in page, name
