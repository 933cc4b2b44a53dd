"""What MkDocs does while it builds the site, beyond mkdocs.yml.

Pages that live beside `docs/` (results, benchmarks, the changelog) are part of the site without
being copied into it, and formulas become MathML.
"""

import posixpath
import re
import sys
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

sys.path.insert(0, str(Path(__file__).parent))
from typeset import Formulas

ROOT = Path(__file__).parents[2]
_LINK = re.compile(r"(!?\[[^\]]*\]\()([^)#\s]+)")
_SPAN = re.compile(r"`[^`]+`")
_FENCE = re.compile(r"(^ *```.*?^ *```)", re.MULTILINE | re.DOTALL)


def on_config(config: Any) -> Any:
    """Formulas, in pages and docstrings alike."""
    config.markdown_extensions.append(Formulas())
    return config


def on_files(files: Files, config: Any) -> Files:
    """Add pages beside docs/ that the navigation names, and every file that some page links to."""
    inside = {f"docs/{file.src_uri}": file for file in files}
    texts = {f"docs/{file.src_uri}": file.content_string for file in files.documentation_pages()}
    found: dict[str, None] = {}
    beside = [name for name in _names(config.nav) if f"docs/{name}" not in inside]
    while texts or beside:
        for page, text in texts.items():
            beside += [_resolved(page, target) for _, target in _LINK.findall(text)]
        fresh = [name for name in dict.fromkeys(beside) if name not in {*found, *inside}]
        fresh = [name for name in fresh if name != "README.md" and (ROOT / name).is_file()]
        found |= dict.fromkeys(fresh)
        texts = {name: (ROOT / name).read_text("utf-8") for name in fresh if name.endswith(".md")}
        beside = []
    for name in found:
        files.append(File.generated(config, name, abs_src_path=str(ROOT / name)))
    return files


def on_page_markdown(markdown: str, page: Any, config: Any, files: Files) -> str:
    """Links as GitHub reads them, from the root of the repository, become links of the site."""
    own = page.file.src_uri
    source = own if page.file.generated_by else f"docs/{own}"

    def link(match: re.Match[str]) -> str:
        target = _resolved(source, match[2])
        if "://" in match[2] or match[2].startswith("mailto:"):
            return match[0]
        target = "index.md" if target == "README.md" else target.removeprefix("docs/")
        return match[1] + posixpath.relpath(target, posixpath.dirname(own) or ".")

    parts = _FENCE.split(markdown)
    return "".join(each if _FENCE.match(each) else _LINK.sub(link, _bars(each)) for each in parts)


def _bars(text: str) -> str:
    """GitHub wants the bars of code in a table escaped, Python-Markdown shows the backslash."""
    rows = re.compile(r"^\|.*$", re.MULTILINE)
    return rows.sub(lambda row: _SPAN.sub(lambda code: code[0].replace("\\|", "|"), row[0]), text)


def _resolved(page: str, target: str) -> str:
    """The file that a link names, from the root of the repository."""
    return posixpath.normpath(posixpath.join(posixpath.dirname(page), target))


def _names(nav: Any) -> list[str]:
    """Pages of the navigation."""
    if isinstance(nav, str):
        return [nav]
    inside = nav.values() if isinstance(nav, dict) else nav
    return [name for each in inside for name in _names(each)]
