"""The certificate: a frozen record, its JSON document, and the predictor it is about."""

import dataclasses
import hashlib
import json
import shutil
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from importlib.resources import files
from pathlib import Path
from typing import Any

from tightrope.certificates.companions import Companion
from tightrope.certificates.options import Options
from tightrope.certificates.statements import Statement, clipped
from tightrope.errors import InputError
from tightrope.files import refuse_to_overwrite, sha256
from tightrope.posteriors import Chain, ReturnPredictor, load_chain, save_chain
from tightrope.rollouts import Episodes, load, save

__all__ = [
    "FILES",
    "SCHEMA_VERSION",
    "Certificate",
    "Fit",
    "as_text",
    "load_certificate",
    "read",
    "stated_fits",
    "stated_options",
    "write",
]

SCHEMA_VERSION = 1
_ELSEWHERE = ("thin", "return_range", "pilot_episodes", "episodes", "test_episodes")  # of options
FILES = {
    "predictor": "predictor.safetensors",
    "rollouts": "rollouts.safetensors",
    "report": "report.html",
}


@dataclass(frozen=True)
class Fit:
    """How one fit went: means over each epoch, and whether it had settled."""

    rows: int
    loss: tuple[float, ...]
    kl: tuple[float, ...]
    objective: tuple[float, ...]
    converged: bool


@dataclass(frozen=True, repr=False)
class Certificate:
    """A risk certificate: with probability `confidence` over the validation episodes and the Monte
    Carlo draws, the mean squared error of the predicted return on new episodes is at most `bound`.

    Errors and bounds are on the normalised scale, where 1 is the width of the return range; names
    ending in ``_raw`` are in squared return units, `rms_raw` in return units. docs/formats.md
    describes every field.
    """  # noqa: D205

    options: Options
    thin: int
    bound: float
    confidence: float
    n: int
    effective_n: float
    return_range: tuple[float, float]
    return_range_source: str
    clipped_share: float
    train_error: float
    test_error: float | None
    constant_error: float
    portions: tuple[Statement, ...]
    other_portions: tuple[Statement, ...]
    ledger: tuple[tuple[str, str, str, float], ...]  # statement, source, share, failure probability
    companions: tuple[Companion, ...]
    fits: tuple[Fit, ...]
    episodes: Mapping[str, int]
    steps: int
    truncated_episodes: int
    assumptions: tuple[str, ...]
    subject: Mapping[str, Any]
    chain: Chain = field(compare=False)
    rollouts: Episodes = field(compare=False)
    digests: Mapping[str, str] = field(default_factory=dict)

    @property
    def scheme(self) -> str:
        """Name of the scheme."""
        return self.options.scheme

    @property
    def unit(self) -> str:
        """What counts as independent."""
        return self.options.unit

    @property
    def vacuous(self) -> bool:
        """Whether the bound says nothing: it is 1, the largest possible error."""
        return self.bound >= 1.0

    @property
    def failed_fit(self) -> bool:
        """Whether the predictor does worse than the constant mean return."""
        error = self.train_error if self.test_error is None else self.test_error
        return error >= self.constant_error

    @property
    def width(self) -> float:
        """Return units per 1 of the normalised scale."""
        return self.return_range[1] - self.return_range[0]

    @property
    def bound_raw(self) -> float:
        """The bound in squared return units."""
        return self.bound * self.width**2

    @property
    def rms_raw(self) -> float:
        """The bound as a root-mean-square error in return units."""
        return float(self.bound**0.5 * self.width)

    @property
    def tightness(self) -> float | None:
        """Bound minus test error, or None without test episodes."""
        return None if self.test_error is None else self.bound - self.test_error

    @property
    def other_unit(self) -> str:
        """The unit that `other_bound` counts."""
        return "episode" if self.unit == "step" else "step"

    @property
    def other_bound(self) -> float:
        """The bound with the other unit, on the same posteriors, with its own confidence."""
        return clipped(self.other_portions[-1].bound)

    @cached_property
    def predictor(self) -> ReturnPredictor:
        """The certified predictor: observations to predicted return and spread."""
        return ReturnPredictor(self.chain.gaussians[-1], self.chain.scaling, self.options.sampling)

    def __str__(self) -> str:
        from tightrope.certificates.words import in_words

        return in_words(self)

    def __repr__(self) -> str:
        return (
            f"Certificate({self.scheme}, unit {self.unit}, bound {self.bound:.4g}, "
            f"RMS {self.rms_raw:.4g}, confidence {self.confidence:.4g})"
        )

    def to_json(self) -> dict[str, Any]:
        """The document `certificate.json`; its own digest covers everything else in it."""
        document: dict[str, Any] = {
            "schema_version": SCHEMA_VERSION,
            **{k: v for k, v in dataclasses.asdict(self.options).items() if k not in _ELSEWHERE},
            "thin": self.thin,
            "bound": self.bound,
            "bound_raw": self.bound_raw,
            "rms_raw": self.rms_raw,
            "vacuous": self.vacuous,
            "confidence": self.confidence,
            "n": self.n,
            "effective_n": self.effective_n,
            "return_range": {
                "low": self.return_range[0],
                "high": self.return_range[1],
                "source": self.return_range_source,
            },
            "clipped_share": self.clipped_share,
            "train_error": self.train_error,
            "test_error": self.test_error,
            "constant_error": self.constant_error,
            "failed_fit": self.failed_fit,
            "tightness": self.tightness,
            "portions": [dataclasses.asdict(statement) for statement in self.portions],
            "other_unit": {
                "unit": self.other_unit,
                "bound": self.other_bound,
                "rms_raw": float(self.other_bound**0.5 * self.width),
                "confidence": self.confidence,
                "portions": [dataclasses.asdict(statement) for statement in self.other_portions],
            },
            "ledger": [
                dict(zip(("statement", "source", "share", "failure"), entry, strict=True))
                for entry in self.ledger
            ],
            "companions": [dataclasses.asdict(companion) for companion in self.companions],
            "fits": [dataclasses.asdict(fit) for fit in self.fits],
            "episodes": dict(self.episodes),
            "steps": self.steps,
            "truncated_episodes": self.truncated_episodes,
            "assumptions": list(self.assumptions),
            "subject": dict(self.subject),
            "digests": dict(self.digests),
        }
        document = json.loads(json.dumps(document))  # tuples become lists, as in the file
        document["digests"]["certificate"] = document_digest(document)
        return document


def as_text(document: Mapping[str, Any]) -> str:
    """A document as it stands in its file."""
    return json.dumps(document, indent=1, allow_nan=False) + "\n"


def document_digest(document: Mapping[str, Any]) -> str:
    """SHA-256 of a document in canonical form, without its own digest."""
    digests = {k: v for k, v in document.get("digests", {}).items() if k != "certificate"}
    canonical = json.dumps({**document, "digests": digests}, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(canonical.encode()).hexdigest()


def write(
    certificate: Certificate,
    folder: Path,
    *,
    beside: Callable[[Certificate, Path], None] | None = None,
) -> Certificate:
    """Write certificate.json, predictor.safetensors and rollouts.safetensors into a new folder.

    The folder appears whole or not at all; `beside` may add files before that, such as a page.

    Raises:
        InputError: the folder exists or cannot be written.
    """
    refuse_to_overwrite(folder)
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        temporary = Path(tempfile.mkdtemp(dir=folder.parent, prefix=f".{folder.name}."))
    except OSError as error:
        raise InputError(f"cannot write {str(folder)!r}: {error.strerror}") from None
    try:
        save_chain(certificate.chain, temporary / FILES["predictor"])
        save(certificate.rollouts, temporary / FILES["rollouts"])
        if beside is not None:
            beside(certificate, temporary)
        present = {name: temporary / file for name, file in FILES.items()}
        digests = {name: sha256(path) for name, path in present.items() if path.exists()}
        certificate = dataclasses.replace(certificate, digests=digests)
        (temporary / "certificate.json").write_text(as_text(certificate.to_json()))
        temporary.chmod(0o755)
        temporary.rename(folder)
    except OSError as error:
        raise InputError(f"cannot write {str(folder)!r}: {error.strerror}") from None
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
    return certificate


def read(folder: Path) -> tuple[dict[str, Any], Chain, Episodes]:
    """The document, the chain and the episodes in a certificate's folder.

    Raises:
        InputError: a file is missing or damaged, or the document does not follow the schema.
    """
    path = folder / "certificate.json"
    try:
        document = json.loads(path.read_text(), object_pairs_hook=_without_duplicates)
    except (OSError, ValueError) as error:
        raise InputError(f"expected a certificate at {str(path)!r}: {error}") from None
    problem = schema_problem(document)
    if problem:
        raise InputError(f"{str(path)!r} does not follow the schema: {problem}")
    return document, load_chain(folder / FILES["predictor"]), load(folder / FILES["rollouts"])


def _without_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("a key appears twice in one object")
    return found


def load_certificate(folder: str | Path) -> Certificate:
    """The certificate in a folder as it was written, predictor included; nothing is recomputed.

    Raises:
        InputError: a file is missing or damaged, or the document does not follow the schema.
    """
    document, chain, rollouts = read(Path(folder))
    stated = document["return_range"]
    entries = ("statement", "source", "share", "failure")
    return Certificate(
        options=stated_options(document),
        thin=document["thin"],
        bound=document["bound"],
        confidence=document["confidence"],
        n=document["n"],
        effective_n=document["effective_n"],
        return_range=(stated["low"], stated["high"]),
        return_range_source=stated["source"],
        clipped_share=document["clipped_share"],
        train_error=document["train_error"],
        test_error=document["test_error"],
        constant_error=document["constant_error"],
        portions=tuple(Statement(**entry) for entry in document["portions"]),
        other_portions=tuple(Statement(**e) for e in document["other_unit"]["portions"]),
        ledger=tuple(
            (entry[entries[0]], entry[entries[1]], entry[entries[2]], entry[entries[3]])
            for entry in document["ledger"]
        ),
        companions=tuple(Companion(**entry) for entry in document["companions"]),
        fits=stated_fits(document),
        episodes=document["episodes"],
        steps=document["steps"],
        truncated_episodes=document["truncated_episodes"],
        assumptions=tuple(document["assumptions"]),
        subject=document["subject"],
        chain=chain,
        rollouts=rollouts,
        digests={k: v for k, v in document["digests"].items() if k != "certificate"},
    )


def stated_options(document: Mapping[str, Any]) -> Options:
    """The options that a document states."""
    stated, counts = document["return_range"], document["episodes"]
    own = {k: document[k] for k in Options.__dataclass_fields__ if k not in _ELSEWHERE}
    given = (stated["low"], stated["high"]) if stated["source"] == "user" else None
    return Options(
        **own,
        thin=document["thin"],
        return_range=given,
        pilot_episodes=counts["pilot"],
        episodes=counts["validation"],
        test_episodes=counts["test"],
    )


def stated_fits(document: Mapping[str, Any]) -> tuple[Fit, ...]:
    """The records of the fits that a document states."""
    curves = ("loss", "kl", "objective")
    return tuple(
        Fit(rows=f["rows"], converged=f["converged"], **{k: tuple(f[k]) for k in curves})
        for f in document["fits"]
    )


def schema() -> dict[str, Any]:
    """The JSON Schema of `certificate.json`, shipped with the package."""
    source = files("tightrope.certificates").joinpath("certificate.schema.json")
    loaded: dict[str, Any] = json.loads(source.read_text())
    return loaded


def schema_problem(document: Any) -> str | None:
    """The first violation of the schema, or None."""
    from jsonschema import Draft202012Validator

    errors = sorted(
        Draft202012Validator(schema()).iter_errors(document), key=lambda e: list(e.path)
    )
    if not errors:
        return None
    place = "/".join(map(str, errors[0].path)) or "the top level"
    return f"{errors[0].message[:200]} (at {place})"
