"""Write docs/document.md from the records that certificate.json is made of.

    python docs/tools/document.py

Keys and meanings are the fields and their docstrings; nothing is said twice. A test fails if the
page is not what this writes.
"""

import dataclasses
import inspect
from pathlib import Path

import docstring_parser

from tightrope.certificates import certificate, diagnostics, fitting, ledger, options, settings
from tightrope.certificates.folder import SCHEMA_VERSION
from tightrope.certificates.options import Scheme
from tightrope.certificates.statements import base, pac_bayes
from tightrope.posteriors import FitSettings, Preset, Regression

PAGE = Path(__file__).parents[1] / "document.md"
RECORDS = {
    "Top level": certificate.Record,
    "options": options.Options,
    "settings": settings.Settings,
    "settings.scheme": Scheme,
    "settings.preset": Preset,
    "settings.preset.regression": Regression,
    "settings.preset.fit": FitSettings,
    "settings.properties": settings.PropertySettings,
    "statements": base.Statement,
    "portions and other_portions": pac_bayes.Portion,
    "ledger": ledger.LedgerEntry,
    "fits": fitting.FitRecord,
    "episodes": certificate.Counts,
    "checks": diagnostics.Checks,
    "return_range": certificate.ReturnRange,
}
_HEAD = f"""# The document of a certificate

`certificate.json`, schema version {SCHEMA_VERSION}, key by key. This page is written by
`docs/tools/document.py` from the records that the document is made of. All keys are required, no
others are allowed, and all numbers are finite. Documents of earlier versions are not read.

**Scales.** Errors and bounds are on the normalised scale, where 1 is the width of the return range
(its square for squared errors). Names that end in `_raw` are in return units, squared for mean
squared errors.
"""


def page() -> str:
    """The page."""
    sections = [_HEAD, *(_section(name, record) for name, record in RECORDS.items())]
    return "\n".join(sections)


def _section(name: str, record: type) -> str:
    lines = [f"## `{name}`" if name != "Top level" else "## Top level", ""]
    lines += ["| key | meaning |", "|---|---|"]
    if name == "Top level":
        lines.append(f"| `schema_version` | {SCHEMA_VERSION} |")
    meanings = _meanings(record)
    for entry in dataclasses.fields(record):
        meaning = meanings.get(entry.name, "").rstrip(".").replace("|", "\\|")
        lines.append(f"| `{entry.name}` | {meaning} |")
    if name == "Top level":
        lines += ["", "These follow from the fields and stand beside them:", ""]
        lines += ["| key | meaning |", "|---|---|"]
        for key in certificate.DERIVED:
            about = " ".join(str(inspect.getdoc(getattr(record, key))).split()).rstrip(".")
            lines.append(f"| `{key}` | {about} |")
    return "\n".join([*lines, ""])


def _meanings(record: type) -> dict[str, str]:
    """By field what its docstring says: in the class's list of attributes, or below the field."""
    found = {}
    for base_class in reversed(record.__mro__):
        if not dataclasses.is_dataclass(base_class) or not base_class.__doc__:
            continue
        parsed = docstring_parser.parse(inspect.getdoc(base_class))
        found |= {
            each.arg_name: " ".join((each.description or "").split()) for each in parsed.params
        }
    if not found:
        parsed = docstring_parser.parse_from_object(record)
        found = {
            each.arg_name: " ".join((each.description or "").split()) for each in parsed.params
        }
    return found


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
