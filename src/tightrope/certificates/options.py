"""What a certificate is asked for: everything that, with the episodes, determines its numbers.

The fields are the options of the command, their help, and part of the JSON document. Schemes, which
say how episodes are divided and which bound follows, are in docs/theory.md, section S.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from math import inf
from typing import Annotated, Literal

from pydantic import Field

from tightrope.certificates.ledger import DELTA, DELTA_PRIME
from tightrope.errors import InputError
from tightrope.records import Strict, checked
from tightrope.seeds import Seed, resolve_seed
from tightrope.system import check_device

__all__ = ["TABLE", "Auto", "Off", "Options", "Scheme", "Termination", "Unit", "scheme"]

Unit = Literal["step", "episode"]
Auto = Literal["auto"]
Off = Literal["off"]
Termination = Literal["failure", "success", "neutral"]
MC_PASSES = 20

# What a search has no use for: it certifies only what holds at every number of episodes.
_OF_THE_PAPER = ("scheme", "preset", "unit")
_NOT_UNTIL = ("scheme", "paper", "return_floor", "discounted_floor", "fail_below", "termination")
# Limits on what a document may ask a verifier to compute, too.
Count = Annotated[int, Field(ge=0, le=10_000_000)]
Positive = Annotated[int, Field(ge=1, le=10_000_000)]
Passes = Annotated[int, Field(ge=1, le=10_000)]
Candidates = Annotated[int, Field(ge=1, le=1_000_000)]
Proper = Annotated[float, Field(gt=0, lt=1)]
Discount = Annotated[float, Field(ge=0, le=1)]
Weight = Annotated[float, Field(gt=0, le=1)]


SchemeKind = Literal["auto", "holdout", "sequential", "table", "informed", "recursive"]
_Portion = Annotated[int, Field(ge=1, le=999_999)]


@dataclass(frozen=True)
class Scheme(Strict):
    """A way to divide the validation episodes and to bound the risk of what they teach.

    Attributes:
        name: what users type.
        kind: ``auto`` (a predictor fixed on the fitting set; all statements jointly on the
            calibration set), ``holdout`` (the same predictor, its mean risk alone), ``sequential``
            (the same, at every number of episodes), ``table`` (no predictor: results of episodes),
            ``informed`` (a prior from the first portion,
            P.1 or P.3 on the second) or ``recursive`` (R.1; with one portion the plain bound).
        weights: relative sizes of the portions; empty where the predictor is fixed.
    """

    name: str
    kind: SchemeKind
    weights: Annotated[tuple[_Portion, ...], Field(max_length=100)] = ()

    @property
    def fixed(self) -> bool:
        """Whether the predictor is fixed before the episodes of its bounds are used."""
        return self.kind not in ("informed", "recursive")

    @property
    def reproducible_prior(self) -> bool:
        """Whether the first prior depends on pilot episodes only, so `verify` can refit it."""
        return self.kind == "recursive"

    def sizes(self, episodes: int, fit: int) -> list[int]:
        """Episodes of each portion of the validation episodes.

        Raises:
            InputError: there are fewer episodes than portions.
        """
        if not self.fixed:
            return portion_sizes(self.weights, episodes, self.name)
        if self.kind == "table":
            return [0, episodes]
        if not 1 <= fit < episodes:
            raise InputError(
                f"expected `fit_episodes` of at least 1 and below {episodes} episodes in all, "
                f"found {fit}: the others calibrate"
            )
        return [fit, episodes - fit]


TABLE = Scheme("table", "table")
_NAMED: dict[str, tuple[SchemeKind, tuple[int, ...]]] = {
    "auto": ("auto", ()),
    "holdout": ("holdout", ()),
    "nonrec-noninf": ("recursive", (1,)),
    "nonrec-inf": ("informed", (1, 1)),
    "rec-6": ("recursive", (3, 4, 6, 12, 25, 50)),  # the paper's, for 100 episodes
}


def scheme(name: str) -> Scheme:
    """The scheme of a name.

    One of auto, nonrec-noninf, nonrec-inf, holdout, rec-T, or the relative sizes of the portions
    of a recursion, as 10,20,70. (``sequential`` comes with `until` alone.) In rec-T the last
    portion is a half, the one before a quarter, and so on; the first two are equal.

    Raises:
        InputError: the name is none of these.
    """
    if name in _NAMED:
        return Scheme(name, *_NAMED[name])
    if re.fullmatch(r"rec-([1-9]|1[0-9]|20)", name):  # more would need a million episodes
        return Scheme(name, "recursive", (1, *(2**part for part in range(int(name[4:]) - 1))))
    if re.fullmatch(r"[1-9][0-9]{0,5}(,[1-9][0-9]{0,5}){1,99}", name):
        return Scheme(name, "recursive", tuple(int(part) for part in name.split(",")))
    raise InputError(
        "expected a scheme among auto, nonrec-noninf, nonrec-inf, holdout, rec-T with T from 1 to "
        f"20, or relative sizes of portions such as 10,20,70, found {name!r}"
        + (": give `until` for a sequential search" if name == "sequential" else "")
    )


def portion_sizes(weights: Sequence[int], episodes: int, name: str = "the scheme") -> list[int]:
    """Whole episodes in proportion to the weights: largest remainders, each at least 1.

    >>> portion_sizes((3, 4, 6, 12, 25, 50), 100), portion_sizes((1, 1), 7)
    ([3, 4, 6, 12, 25, 50], [4, 3])
    """
    count = len(weights)
    if episodes < count:
        raise InputError(
            f"expected at least {count} validation episodes for {name}, found {episodes}: "
            "record more, or choose a scheme with fewer portions"
        )
    exact = [Fraction(weight * episodes, sum(weights)) for weight in weights]
    sizes = [max(1, int(share) - count) for share in exact]  # too few, whatever the ones add
    while sum(sizes) < episodes:
        sizes[max(range(count), key=lambda i: exact[i] - sizes[i])] += 1
    return sizes


@checked
class Options:
    """Options of one certificate, checked.

    Attributes:
        scheme: auto, holdout, nonrec-noninf, nonrec-inf or rec-T; such as rec-6, or the relative
            sizes of a recursion's portions, such as 10,20,70.
        paper: The paper's certificate; scheme rec-6, preset paper, unit step, 100 validation and
            100 test episodes.
        unit: What counts as independent in `bound`; whole episodes, or thinned steps (the paper's
            assumption); auto: episodes, and in PAC-Bayes schemes steps.
        preset: The paper's recipe for prior and fit, or ours.
        clock: Whether elapsed time is an input of the predictor; auto: in preset tight, where the
            time limit is known.
        time_limit: Steps after which an episode is cut; auto: from the environment, or for a log
            from the fitting set.
        episodes: Episodes to fit and to calibrate, together; auto: 200 for a policy, all that are
            left for a recording. In PAC-Bayes schemes the validation episodes; auto: 100.
        fit_episodes: The first of them, which the predictor is fitted to; auto: a quarter. Not in
            PAC-Bayes schemes.
        test_episodes: Test episodes, which enter no bound; auto: none, 100 for a policy with
            PAC-Bayes.
        pilot_episodes: PAC-Bayes schemes only: episodes in no bound that fix the return range and
            the scaling; auto: 10, and for a policy with a training record only what preset and
            scheme need.
        until: Roll out a policy in batches until this is certified, such as 'rms<=20': the mean
            risk, in return units. In place of `episodes`.
        max_episodes: Episodes to fit and to calibrate at the most, with `until`.
        return_range: Smallest and largest return that mean risks are clipped to; auto: from the
            fitting set, the pilot, or in PAC-Bayes schemes the training record.
        return_floor: An undiscounted return that no episode can fall below: its expectation then
            gets a bound.
        discounted_floor: The same for the discounted return.
        fail_below: Also bound the probability of an undiscounted return below this.
        termination: What it means that an episode terminates: failure, success (it reaches its
            goal), or neither. A recorded success has precedence.
        delta: Failure probability over the data.
        delta_prime: Failure probability of the Monte Carlo draws; spent on the data where nothing
            is drawn.
        gamma: Discount factor, 1 for undiscounted returns.
        thin: Keep every THIN-th step; auto: what suits the environment.
        mc_passes: Monte Carlo passes over the data.
        sampling: Local reparameterisation, or one weight draw per pass (Bayes by backprop).
        kappa: Weight of the previous loss in a recursion.
        candidates: Number of certificates you may choose the best from; the confidence accounts for
            it.
        device: What the fits are computed on: cpu, cuda or such as cuda:1; auto: cuda if there is
            one. The bounds are computed on the CPU, and so are fits that verify repeats.
        seed: Root of all randomness (episodes, fits, draws); fresh: one that is drawn and recorded.

    Raises:
        InputError: a value is outside its set.
    """

    scheme: str = "auto"
    paper: bool = False
    unit: Unit | Auto = "auto"
    preset: Literal["paper", "tight"] = "tight"
    clock: Literal["auto", "on", "off"] = "auto"
    time_limit: Positive | Auto = "auto"
    episodes: Positive | Auto = "auto"
    fit_episodes: Positive | Auto = "auto"
    test_episodes: Count | Auto = "auto"
    pilot_episodes: Count | Auto = "auto"
    until: str = "off"
    max_episodes: Positive = 500
    return_range: tuple[float, float] | Auto = "auto"
    return_floor: float | Off = "off"
    discounted_floor: float | Off = "off"
    fail_below: float | Off = "off"
    termination: Termination = "neutral"
    delta: Proper = DELTA
    delta_prime: Proper = DELTA_PRIME
    gamma: Discount = 0.99
    thin: Positive | Auto = "auto"
    mc_passes: Passes = MC_PASSES
    sampling: Literal["local", "weights"] = "local"
    kappa: Weight = 0.5
    candidates: Candidates = 1
    device: str = "auto"
    seed: Seed = "fresh"

    def __post_init__(self) -> None:
        check_device(self.device)
        if self.seed != "fresh":
            resolve_seed(self.seed)
        if self.until != "off":
            target_of(self.until)
        fixed, search = scheme(self.scheme).fixed and not self.paper, self.until != "off"
        if not scheme(self.scheme).fixed and self.episodes != "auto":
            scheme(self.scheme).sizes(self.episodes, 0)  # refuses too few
        if self.delta + self.delta_prime >= 1:
            found = f"{self.delta!r} + {self.delta_prime!r}"
            raise InputError(f"`delta` + `delta_prime` must be below 1, found {found}")
        if self.return_range != "auto" and not self.return_range[0] < self.return_range[1]:
            raise InputError(f"expected a `return_range` LO < HI, found {self.return_range!r}")
        pac_bayes = "`paper`" if self.paper else self.scheme
        only = "a search certifies only what holds at every number of episodes"
        for applies, names, where, why in (
            (self.clock == "off", ["time_limit"], "with `clock` off", "there is none"),
            (self.gamma == 1, ["discounted_floor"], "with `gamma` 1", "give `return_floor`"),
            (self.paper, _OF_THE_PAPER, "with `paper`", "it is rec-6, preset paper, unit step"),
            (fixed, ["pilot_episodes"], f"with {self.scheme}", "give `fit_episodes`"),
            (not fixed, ["fit_episodes"], f"with {pac_bayes}", "it divides episodes itself"),
            (not search, ["max_episodes"], "without `until`", "there is no search"),
            (search, ["episodes"], "with `until`", "give `max_episodes`"),
            (search, _NOT_UNTIL, "with `until`", only),
        ):
            if applies:
                self.refuse(names, where, why)

    def refuse(self, names: Iterable[str], where: str, why: str) -> None:
        """Raise InputError if one of these options is not at its default."""
        for name in names:
            value = getattr(self, name)
            if value != getattr(Options, name):
                raise InputError(f"expected no `{name}` {where}, found {value!r}: {why}")

    def seeded(self, seed: int | None = None) -> "Options":
        """With that seed, or with the one that ``fresh`` comes to."""
        return replace(self, seed=resolve_seed(self.seed) if seed is None else seed)


def target_of(words: str) -> float:
    """The number of a target such as ``rms<=20``, in return units.

    Raises:
        InputError: it is no such target.
    """
    number = r"(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][-+]?[0-9]+)?"
    found = re.fullmatch(rf"\s*rms\s*<=?\s*({number})\s*", words)
    limit = float(found[1]) if found else 0.0
    if not 0 < limit < inf:
        raise InputError(
            f"expected a target such as 'rms<=20' for `until`, in return units, found {words!r}"
        )
    return limit
