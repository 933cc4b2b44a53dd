"""The tidy table of a study: one row per certificate, made from what each says of itself."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    import pandas as pd

    from tightrope.certificates import Certificate

__all__ = ["LABELS", "read_rows", "row"]

LABELS = ("agent", "environment", "instance", "level")  # of a policy


def row(
    certificate: "Certificate", policy: Mapping[str, str], repetition: int, file: str
) -> dict[str, Any]:
    """What the table says of one certificate; `columns` describes the fields."""
    options, test = certificate.options, certificate.rollouts[-certificate.episodes.test :]
    returns = np.add.reduceat(test.rewards, test.offsets[:-1])
    tightness = certificate.tightness
    return {
        **{name: policy[name] for name in LABELS},
        "repetition": repetition,
        "scheme": options.scheme,
        "preset": options.preset,
        "unit": options.unit,
        "sampling": options.sampling,
        "episodes": certificate.episodes.validation,
        "bound": certificate.bound,
        "bound_raw": certificate.bound_raw,
        "rms_raw": certificate.rms_raw,
        "train_error": certificate.train_error,
        "test_error": certificate.test_error,
        "tightness": tightness,
        "constant_error": certificate.constant_error,
        "confidence": certificate.confidence,
        "n": certificate.n,
        "effective_n": certificate.effective_n,
        "kl": sum(portion.kl for portion in certificate.portions),
        "clipped_share": certificate.clipped_share,
        "return_low": certificate.return_range.low,
        "return_high": certificate.return_range.high,
        "mean_return": float(returns.mean()),
        "void": certificate.void,
        "seed": options.seed,
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
