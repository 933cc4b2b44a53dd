"""A study's claims as a page shows them: verdict, number, interval, and what they rest on."""

from dataclasses import dataclass
from typing import Any

import pandas as pd

from tightrope.studies.claims import EVERYTHING, LEGEND
from tightrope.studies.wording import MINUS, NONE, rounded

__all__ = ["Claim", "Interval", "Part", "claims_shown", "legend", "scale"]

_OPPOSITE = "the data say the opposite"  # among the words of a judgement


@dataclass(frozen=True)
class Interval:
    """Where an interval lies in its room, in per cent; claims of a kind share the room."""

    left: float
    width: float
    point: float


@dataclass(frozen=True)
class Part:
    """A judgement of one preset and unit."""

    preset: str
    unit: str
    value: str
    interval: str
    policies: str
    runs: str
    verdict: str
    tone: str
    words: str


@dataclass(frozen=True)
class Claim:
    """A claim, judged by everything, and by each preset and unit."""

    sentence: str
    statistic: str
    overall: Part
    drawn: Interval | None
    parts: tuple[Part, ...]


def claims_shown(judged: pd.DataFrame) -> list[Claim]:
    """Every claim in the order of the study.

    Args:
        judged: as :func:`tightrope.studies.claims.claims` gives it.
    """
    found = []
    reach = scale(judged)
    for _, rows in judged.groupby("claim", sort=False):
        last = rows.iloc[-1]
        room = 1.0 if last["claim"] == "correlation" else reach
        parts = tuple(_part(row) for _, row in rows.iloc[:-1].iterrows())
        found.append(
            Claim(
                sentence=last["sentence"],
                statistic=last["statistic"].replace(" - ", f" {MINUS} "),
                overall=_part(last),
                drawn=_drawn(last, room),
                parts=parts if len(parts) > 1 else (),
            )
        )
    return found


def scale(judged: pd.DataFrame) -> float:
    """The largest change of any claim or end of its interval: the room of all of them."""
    every = judged[(judged["preset"] == EVERYTHING) & (judged["claim"] != "correlation")]
    ends = every[every["low"].notna()][["value", "low", "high"]].abs().to_numpy(dtype=float)
    return float(ends.max(initial=0.0))


def legend() -> str:
    """How claims are judged, in plain words."""
    return " ".join(LEGEND.replace("*", "").split())


def _part(row: "pd.Series[Any]") -> Part:
    interval = NONE
    if not pd.isna(row["low"]):
        interval = f"{rounded(row['low'], '.3g')} to {rounded(row['high'], '.3g')}"
    return Part(
        preset=row["preset"],
        unit=row["unit"],
        value=rounded(float(row["value"]), ".3g"),
        interval=interval,
        policies=str(row["policies"]),
        runs=str(row["runs"]),
        verdict=row["verdict"],
        tone=_tone(row["verdict"], row["words"]),
        words=row["words"],
    )


def _tone(verdict: str, words: str) -> str:
    if verdict == "supported":
        return "supported"
    if verdict == "not supported":
        return "opposed" if _OPPOSITE in words else "unsupported"
    return "little"


def _drawn(row: "pd.Series[Any]", room: float) -> Interval | None:
    if pd.isna(row["low"]) or room <= 0:
        return None
    low, value, high = (
        min(max(50 + 50 * float(row[name]) / room, 0.0), 100.0) for name in ("low", "value", "high")
    )
    return Interval(low, high - low, value)
