"""Templates, style and scripts into one file that needs nothing beside it."""

import base64
import hashlib
import io
import json
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Any

from tightrope.certificates.text import percent, rounded
from tightrope.errors import as_lines
from tightrope.reports.charts import number, typeset

if TYPE_CHECKING:
    from jinja2 import Environment

__all__ = ["as_json", "figure_svg", "render"]


def render(template: str, scripts: list[str], **values: Any) -> str:
    """A page from its template, with the style sheet and the named scripts inside.

    The page's own policy forbids to fetch anything, and to run anything but that script: names that
    a stranger chose stay text even where the escaping should fail.
    """
    script = "\n".join(_asset(name) for name in ["theme.js", *scripts])
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    return (
        _environment()
        .get_template(template)
        .render(style=_asset("page.css"), script=script, script_digest=digest, **values)
    )


def as_json(value: Any) -> str:
    """JSON that stands safely between the tags of a script element."""
    text = json.dumps(value, separators=(",", ":"), allow_nan=False)  # ASCII only
    return text.replace("&", "\\u0026").replace("<", "\\u003c").replace(">", "\\u003e")


def figure_svg(figure: Any) -> str:
    """A matplotlib figure as an element of a page, the same for the same figure."""
    import matplotlib as mpl

    stream = io.StringIO()
    with mpl.rc_context({"svg.hashsalt": "tightrope", "svg.fonttype": "none"}):
        figure.savefig(stream, format="svg", metadata={"Date": None})
    text = stream.getvalue()
    return text[text.index("<svg") :]


def _printable(value: Any) -> Any:
    """Whatever a page shows, control characters in a stranger's names escaped."""
    if type(value) is not str:  # a number, or markup of our own
        return value
    return as_lines(value.split("\n"))


def _asset(name: str) -> str:
    return files("tightrope.reports").joinpath("assets", name).read_text("utf-8").strip()


@cache
def _environment() -> "Environment":
    from jinja2 import Environment, FunctionLoader, StrictUndefined

    made = Environment(
        loader=FunctionLoader(_asset),
        autoescape=True,
        finalize=_printable,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=StrictUndefined,
    )
    made.globals |= {"number": number, "percent": percent, "rounded": rounded, "typeset": typeset}
    return made
