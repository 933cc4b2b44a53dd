"""The HTML page of a certificate."""

import io
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tightrope.certificates import Certificate
from tightrope.certificates.words import (
    headline,
    outward,
    percent,
    sentence,
    title,
    up,
    warnings_of,
)
from tightrope.files import replace_atomically
from tightrope.reports.figures import predictions, scores
from tightrope.rollouts import Pairs, pairs

__all__ = ["certificate_figure", "certificate_page", "write_page"]


def write_page(certificate: Certificate, folder: Path) -> None:
    """Write report.html into the certificate's folder, or draw it anew."""
    text = certificate_page(certificate)
    replace_atomically(folder / "report.html", lambda path: _write(path, text))


def certificate_page(certificate: Certificate) -> str:
    """The page as one string: style and figures are inside."""
    from jinja2 import Environment

    source = files("tightrope.reports").joinpath("certificate.html.j2").read_text("utf-8")
    template = Environment(autoescape=True, trim_blocks=True, lstrip_blocks=True).from_string(
        source
    )
    return template.render(
        c=certificate,
        words=str(certificate),
        figure=_svg(certificate),
        headline=headline(certificate),
        title=title(certificate),
        warnings=warnings_of(certificate),
        outward=outward,
        percent=percent,
        sentence=sentence,
        up=up,
    )


def certificate_figure(certificate: Certificate) -> Any:
    """Predictions along one episode, and the RMS error of every episode."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(10, 3.6), layout="constrained")
    left, right = figure.subplots(1, 2)
    c = certificate
    # The steps that statements are about: thinned, first visits only.
    shown = pairs(c.rollouts, gamma=c.options.gamma, thin=c.thin)
    elapsed = None if c.time_limit is None else shown.step
    mean = c.predictor(shown.observations, elapsed=elapsed).mean
    last = shown.episode == shown.episodes - 1  # a test episode where there are any
    predictions(left, shown.step[last], shown.returns[last], mean[last], c.rms_raw)
    errors = _errors(shown, mean)
    first, end = c.episodes.pilot + c.episodes.free, c.episodes.pilot + c.episodes.validation
    promised = [s for s in c.statements if s.kind == "tolerance"]
    limits = [(s.value_raw, f"{percent(s.share or 0)} of new episodes") for s in promised]
    groups = {"bound": errors[first:end], "test": errors[end:]}
    scores(right, {name: each for name, each in groups.items() if len(each)}, limits)
    return figure


def _errors(shown: Pairs, mean: NDArray[np.float64]) -> NDArray[np.float64]:
    """(episodes,) RMS error of the prediction over the steps of each episode."""
    squares = np.bincount(shown.episode, np.square(shown.returns - mean), shown.episodes)
    return np.asarray(np.sqrt(squares / np.bincount(shown.episode, minlength=shown.episodes)))


def _svg(certificate: Certificate) -> str:
    import matplotlib as mpl

    stream = io.StringIO()
    with mpl.rc_context({"svg.hashsalt": "tightrope"}):  # the same page for the same certificate
        certificate_figure(certificate).savefig(stream, format="svg", metadata={"Date": None})
    text = stream.getvalue()
    return text[text.index("<svg") :]


def _write(path: Path, text: str) -> None:
    path.write_text(text, encoding="utf-8")
