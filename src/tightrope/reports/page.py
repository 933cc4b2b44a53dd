"""The HTML page of a certificate."""

import io
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np

from tightrope.certificates import Certificate
from tightrope.certificates.words import LABELS, outward, percent, up
from tightrope.reports.figures import build_up, predictions
from tightrope.rollouts import discounted_returns

__all__ = ["certificate_figure", "certificate_page", "write_page"]


def write_page(certificate: Certificate, folder: Path) -> None:
    """Write report.html into the certificate's folder."""
    (folder / "report.html").write_text(certificate_page(certificate))


def certificate_page(certificate: Certificate) -> str:
    """The page as one string: style and figures are inside."""
    from jinja2 import Environment

    source = files("tightrope.reports").joinpath("certificate.html.j2").read_text()
    template = Environment(autoescape=True, trim_blocks=True, lstrip_blocks=True).from_string(
        source
    )
    return template.render(
        c=certificate,
        words=str(certificate),
        figure=_svg(certificate),
        labels=LABELS,
        up=up,
        outward=outward,
        percent=percent,
    )


def certificate_figure(certificate: Certificate) -> Any:
    """The figure of the page: how the bound builds up, and predictions along one episode."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(10, 3.6), layout="constrained")
    left, right = figure.subplots(1, 2)
    bounds = [statement.bound for statement in certificate.portions]
    build_up(left, bounds, certificate.test_error, certificate.constant_error)
    shown = certificate.rollouts
    # The last episode: a test episode where there are any.
    last = shown.span(len(shown) - 1, len(shown))
    returns = discounted_returns(last, certificate.options.gamma)
    mean = certificate.predictor(np.asarray(last.observations)).mean
    predictions(right, np.arange(len(returns)), returns, mean, certificate.rms_raw)
    return figure


def _svg(certificate: Certificate) -> str:
    import matplotlib as mpl

    stream = io.StringIO()
    with mpl.rc_context({"svg.hashsalt": "tightrope"}):  # the same page for the same certificate
        certificate_figure(certificate).savefig(stream, format="svg", metadata={"Date": None})
    text = stream.getvalue()
    return text[text.index("<svg") :]
