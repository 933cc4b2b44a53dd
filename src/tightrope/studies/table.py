"""The tidy table of a study: one row per certificate, made from what each says of itself."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pandas as pd

    from tightrope.certificates import Certificate

__all__ = ["LABELS", "read_rows", "row"]

LABELS = ("agent", "environment", "instance", "level")  # of a policy


def row(
    certificate: "Certificate", policy: Mapping[str, str], repetition: int, file: str
) -> dict[str, Any]:
    """One row of the table for a certificate; `columns` describes the fields."""
    c, total = certificate, len(certificate.rollouts)
    test = c.rollouts.span(total - c.episodes.test, total)
    return {
        **{name: policy[name] for name in LABELS},
        "repetition": repetition,
        "scheme": c.scheme,
        "preset": c.preset,
        "unit": c.unit,
        "sampling": c.settings.sampling,
        "episodes": c.episodes.validation,
        "bound": c.bound,
        "bound_raw": c.bound_raw,
        "rms_raw": c.rms_raw,
        "train_error": c.train_error,
        "test_error": c.test_error,
        "tightness": c.tightness,
        "constant_error": c.constant_error,
        "confidence": c.confidence,
        "n": c.n,
        "effective_n": c.effective_n,
        "kl": sum(portion.kl for portion in c.portions),
        "clipped_share": c.clipped_share,
        "return_low": c.limits[0],
        "return_high": c.limits[1],
        "mean_return": float(test.returns(1.0).mean()),
        "void": c.void,
        "seed": c.settings.seed,
        "certificate": file,
    }


def read_rows(folders: Sequence[Path], root: Path) -> "pd.DataFrame":
    """The table of finished certify jobs; paths of certificates are relative to `root`."""
    import pandas as pd

    from tightrope.studies.columns import DTYPES

    rows = []
    for folder in folders:
        for each in json.loads((folder / "rows.json").read_text()):
            path = (folder / each["certificate"]).relative_to(root)
            rows.append({**each, "certificate": str(path)})
    return pd.DataFrame(rows)[list(DTYPES)].astype(DTYPES)
