"""What the paper reports on each of its claims, and why another study may find otherwise."""

import tomllib
from dataclasses import dataclass
from importlib.resources import files

__all__ = ["PAPER", "PaperReport"]


@dataclass(frozen=True)
class PaperReport:
    """One claim in the paper.

    Attributes:
        reports: what the paper says, and on which data.
        differs: what is different here, and what it does to the claim.
    """

    reports: str
    differs: str


_TEXT = files("tightrope.studies").joinpath("paper_reports.toml").read_text("utf-8")
PAPER = {claim: PaperReport(**said) for claim, said in tomllib.loads(_TEXT).items()}
