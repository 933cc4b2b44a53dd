"""What an audit repeats, and how often."""

from collections.abc import Mapping
from dataclasses import asdict
from typing import Annotated, Any, Literal

from pydantic import Field

from tightrope.audit.generators import SYNTHETIC
from tightrope.certificates.ledger import DELTA, DELTA_PRIME
from tightrope.certificates.options import MC_PASSES, Auto, Options, Unit
from tightrope.certificates.settings import settle
from tightrope.errors import InputError
from tightrope.posteriors import PRESETS, Preset
from tightrope.records import checked
from tightrope.studies.config import options_of

__all__ = ["Audit"]

_Count = Annotated[int, Field(ge=1)]
_NOT_UNTIL = ("episodes", "return_floor", "discounted_floor")
_OWN = ("schemes", "repetitions", "truth_episodes", "updates", "width", "via", "seed")


@checked
class Audit:
    """Certificates of fresh episodes, again and again; each is compared with the truth.

    Raises:
        InputError: a value is outside its set.
    """

    schemes: tuple[str, ...] = ("auto",)
    """As for certify; every one on the same episodes."""
    repetitions: _Count = 300
    """Of the whole procedure: fresh episodes, fit, certificate. More can be added later."""
    unit: Unit | Auto = "auto"
    """As for certify: what fits aim at. Mean risks are stated, and judged, in both units."""
    preset: Literal["paper", "tight"] = "tight"
    """As for certify."""
    episodes: int | Auto = "auto"
    """As for certify: to fit and to calibrate, together."""
    fit_episodes: int | Auto = "auto"
    """The first of them, in schemes auto and holdout; auto: a quarter."""
    pilot_episodes: int | Auto = "auto"
    """Pilot episodes of each certificate of a PAC-Bayes scheme, as for certify."""
    until: str = "off"
    """As for certify: stop at a target, such as 'rms<=20', in place of `episodes`."""
    max_episodes: int = Options.max_episodes
    """Episodes to fit and to calibrate at the most, with `until`."""
    delta: float = DELTA
    """Failure probability over the data. A larger one needs fewer repetitions to be judged."""
    delta_prime: float = DELTA_PRIME
    """Failure probability of the Monte Carlo draws."""
    mc_passes: int = MC_PASSES
    """Monte Carlo passes over the data."""
    updates: Annotated[int, Field(ge=10)] | Auto = "auto"
    """At most so many updates in each fit, from 10 on, since a regression looks at the folds left
    out after a tenth of them: no guarantee depends on how good a fit is. auto: those of the
    preset."""
    width: _Count | Auto = "auto"
    """Of the hidden layers; auto: that of the preset."""
    truth_episodes: Annotated[int, Field(ge=100)] | Auto = "auto"
    """New episodes that tell the truth, the same for all repetitions; auto: 20,000 of a
    synthetic task, 2,000 of a policy."""
    candidates: _Count = 1
    """Certificates, or comparisons, of each repetition; the best of them is judged, after
    looking."""
    via: Literal["certify", "callback"] = "certify"
    """What issues the certificates of a synthetic task; callback: a CertifyCallback issues all
    candidates while an SB3 algorithm trains."""
    seed: Annotated[int, Field(ge=0)] = 0
    """Root of all randomness."""

    def __post_init__(self) -> None:
        if not self.schemes or len(set(self.schemes)) < len(self.schemes):
            raise InputError(f"expected different `schemes`, found {list(self.schemes)}")
        sole = {"`until`": self.until != "off", "`via` callback": self.via == "callback"}
        if any(sole.values()) and self.schemes != ("auto",):
            raise InputError(
                f"expected `schemes` auto with {' or '.join(sole)}, found {' '.join(self.schemes)}"
            )
        if all(sole.values()):
            raise InputError("expected `until` or `via` callback, found both")
        for options in self.requests({}):
            settle(options, SYNTHETIC)

    def requests(self, own: Mapping[str, Any]) -> list[Options]:
        """The options of a certificate of each scheme, with those of a subject."""
        given = {name: value for name, value in asdict(self).items() if name not in _OWN}
        given |= {"test_episodes": 0, "device": "cpu", **own}
        if self.until != "off":  # certifies the error only
            given = {name: value for name, value in given.items() if name not in _NOT_UNTIL}
        return [options_of(name, self.schemes, given) for name in self.schemes]

    @property
    def preset_values(self) -> Preset:
        """The preset, with shorter fits of smaller networks if asked."""
        return PRESETS[self.preset].shortened(
            None if self.updates == "auto" else self.updates,
            None if self.width == "auto" else self.width,
        )

    def content(self) -> dict[str, Any]:
        """What determines a repetition: all but how many there are."""
        return {name: value for name, value in asdict(self).items() if name != "repetitions"}

    @property
    def fits(self) -> str:
        """Which fits it makes, in words."""
        updates = "" if self.updates == "auto" else f", at most {self.updates:,} updates"
        width = "" if self.width == "auto" else f", hidden layers of {self.width}"
        return f"preset {self.preset}{updates}{width}"
