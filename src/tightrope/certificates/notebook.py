"""How a certificate looks in a notebook, and as a data frame."""

import dataclasses
import importlib
from html import escape
from typing import TYPE_CHECKING, Any

from tightrope.certificates.words import headline, percent, sentence, title, warnings_of
from tightrope.errors import InputError
from tightrope.rollouts.notebook import table

if TYPE_CHECKING:
    from tightrope.certificates.certificate import Certificate

__all__ = ["certificate_html", "statements_frame"]


def certificate_html(certificate: "Certificate") -> str:
    """Title, warnings, the headline, and a table of everything that is promised."""
    c = certificate
    said = "".join(f"<p><strong>{escape(warning)}</strong></p>" for warning in warnings_of(c))
    rows = [
        (sentence(s), f"{s.estimate:.4g}", s.n, percent(s.confidence), s.assumes)
        for s in c.statements
    ]
    joint = percent(c.statements[0].joint_confidence)
    head = ("statement", "in the sample", "n", "confidence", "assumes")
    return (
        f"<h4>{escape(title(c))}</h4>{said}<p>{escape(headline(c))}</p>{table(rows, head)}"
        f"<p>All statements hold at once with confidence {escape(joint)}.</p>"
    )


def statements_frame(certificate: "Certificate") -> Any:
    """One row per statement, its fields as columns.

    Raises:
        InputError: pandas is not installed.
    """
    try:
        pandas = importlib.import_module("pandas")
    except ImportError:
        raise InputError("a data frame needs pandas: pip install pandas") from None
    return pandas.DataFrame([dataclasses.asdict(each) for each in certificate.statements])
