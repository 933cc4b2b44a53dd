"""The two sides of a comparison: what was brought, and whether it can be compared."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tightrope.certificates.options import Auto
from tightrope.certificates.request import Rollout
from tightrope.errors import InputError
from tightrope.rollouts import (
    Episodes,
    PolicySource,
    collect,
    discounted_returns,
    is_recording,
    join,
    load_episodes,
    pairs,
    policy_source,
)

__all__ = ["Side", "Sides", "joined", "require_comparable", "sides_of"]


def _no_seeds() -> NDArray[np.int64]:
    return np.zeros(0, dtype=np.int64)


@dataclass(frozen=True)
class Side:
    """One side: its episodes and, from a certificate, how well its returns were predicted.

    Attributes:
        name: what it is, for a person.
        episodes: all of it.
        gamma: discount factor of its certificate; None without one.
        unit: of its certificate; None without one.
        scores: RMS error of each episode that the certificate's predictor was not fitted to.
        score_seeds: seeds of these episodes.
    """

    name: str
    episodes: Episodes
    gamma: float | None = None
    unit: str | None = None
    scores: NDArray[np.float64] | None = None
    score_seeds: NDArray[np.int64] = field(default_factory=_no_seeds)

    @property
    def environment(self) -> str:
        """Id of the environment, or nothing where it is not recorded."""
        return str(self.episodes.subject.get("environment", {}).get("id", ""))

    @property
    def seeds(self) -> str:
        """What a seed determines, in words, or nothing where it is not recorded."""
        return str(self.episodes.subject.get("environment", {}).get("seeds", ""))

    def returns(self, gamma: float) -> NDArray[np.float64]:
        """(episodes,) the return of each from its start."""
        return discounted_returns(self.episodes, gamma)[self.episodes.offsets[:-1]]


@dataclass(frozen=True)
class Sides:
    """Both sides: recorded, or policies that are still to be rolled out."""

    recorded: tuple[Side, Side] | None
    policies: tuple[PolicySource, PolicySource] | None

    def roll_out(
        self, episodes: int, seed: int, arguments: Sequence[dict[str, Any]], progress: bool
    ) -> tuple[Side, Side]:
        """Episodes of both policies with the same seeds."""
        assert self.policies is not None  # asked only of policies
        made = []
        for subject, given in zip(self.policies, arguments, strict=True):
            rolled = collect(
                subject.policy, subject.environment, episodes, seed, progress=progress, **given
            )
            made.append(Side(str(rolled.subject["policy"]["name"]), rolled))
        return made[0], made[1]


def sides_of(first: Any, second: Any, env: Any, rollout: Rollout, other: Rollout) -> Sides:
    """Find out what was brought, and refuse what cannot be compared.

    Raises:
        InputError: one is a policy and the other a recording, or there is no such source.
    """
    recorded = [_is_certificate(each) or is_recording(each) for each in (first, second)]
    if recorded[0] != recorded[1]:
        kinds = ["recorded episodes" if each else "a policy" for each in recorded]
        raise InputError(
            f"expected two policies or two recordings, found {kinds[0]} as A and {kinds[1]} as B: "
            "record episodes of the policy with tightrope collect"
        )
    if all(recorded):
        given = {"env": env} if env is not None else {}
        for each in (rollout, other):
            given |= {k: v for k, v in vars(each).items() if v != getattr(Rollout(), k)}
        if given:
            raise InputError(f"expected no `{next(iter(given))}` for recorded episodes")
        return Sides((_recorded(first), _recorded(second)), None)
    one, two = policy_source(first, env), policy_source(second, env)
    if one.environment.to_json() != two.environment.to_json():
        raise InputError(
            f"expected policies for one environment, found {one.environment.id} for A and "
            f"{two.environment.id} for B: give `env`"
        )
    return Sides(None, (one, two))


def require_comparable(first: Side, second: Side, gamma: float | Auto) -> float:
    """The discount factor to compare at.

    Raises:
        InputError: environments, observations, discounts or units differ, or episodes are missing.
    """
    for name, side in (("A", first), ("B", second)):
        partial = side.episodes.subject.get("partial")
        if partial is not None:
            raise InputError(
                f"expected a whole collection as {name}, found a partial one ({partial}): it "
                "favours short episodes, so collect again"
            )
    if first.environment and second.environment and first.environment != second.environment:
        raise InputError(
            f"expected episodes of one environment, found {first.environment} in A and "
            f"{second.environment} in B"
        )
    sizes = [side.episodes.observations.shape[1] for side in (first, second)]
    if sizes[0] != sizes[1]:
        raise InputError(
            f"expected observations of one size, found {sizes[0]} features in A and {sizes[1]} in "
            "B: are these recordings of one environment?"
        )
    for what, values in (
        ("discount", (first.gamma, second.gamma)),
        ("unit", (first.unit, second.unit)),
    ):
        if None not in values and values[0] != values[1]:
            raise InputError(
                f"expected certificates with one {what}, found {values[0]} in A and {values[1]} in "
                "B: issue one of them anew"
            )
    stated = first.gamma if first.gamma is not None else second.gamma
    if gamma == "auto":
        return 1.0 if stated is None else stated
    if stated is not None and gamma != stated:
        raise InputError(
            f"expected the `gamma` of the certificates, {stated:g}, found {gamma:g}: their "
            "predictors know no other"
        )
    return gamma


def joined(one: Side, more: Side) -> Side:
    """The episodes of both, in order."""
    episodes = join([*one.episodes, *more.episodes], one.episodes.subject)
    return replace(one, episodes=episodes)


def _is_certificate(source: Any) -> bool:
    from tightrope.certificates.folder import DOCUMENT

    return isinstance(source, str | Path) and (Path(source) / DOCUMENT).is_file()


def _recorded(source: Any) -> Side:
    name = Path(source).name if isinstance(source, str | Path) else type(source).__name__
    if not _is_certificate(source):
        return Side(name, load_episodes(source))
    from tightrope.certificates.folder import load_certificate

    c = load_certificate(source)
    # Whoever fitted the predictor must not judge it: free episodes, or with a posterior all but the
    # test episodes.
    fitted = c.episodes.free if c.options.division.fixed else c.episodes.validation
    start = c.episodes.pilot + fitted
    scores, seeds = None, _no_seeds()
    if start < len(c.rollouts):
        unseen = c.rollouts.span(start, len(c.rollouts))
        shown = pairs(unseen, gamma=c.options.gamma, thin=c.thin)
        elapsed = None if c.time_limit is None else shown.step
        error = c.predictor(shown.observations, elapsed=elapsed).mean - shown.returns
        squares = np.bincount(shown.episode, np.square(error), shown.episodes)
        scores = np.sqrt(squares / np.bincount(shown.episode, minlength=shown.episodes))
        seeds = unseen.seeds
    return Side(name, c.rollouts, c.options.gamma, c.unit, scores, seeds)
