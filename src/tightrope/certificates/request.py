"""From whatever a user brings to a certificate: the one way in, for the library and the command."""

import warnings
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from tightrope.certificates.options import Auto, Options
from tightrope.certificates.shares import PILOT_EPISODES
from tightrope.devices import resolve_device
from tightrope.errors import InputError

if TYPE_CHECKING:
    from tightrope.certificates.certificate import Certificate
    from tightrope.certificates.commitment import Commitment
    from tightrope.posteriors import Scaling
    from tightrope.rollouts import Episodes, PolicySource
    from tightrope.rollouts.logs import Given

__all__ = ["EPISODES", "Request", "Rollout", "certify", "request", "rollout_arguments"]

EPISODES = 100  # of validation and of test, for a policy that is rolled out here


@dataclass(frozen=True)
class Rollout:
    """How a policy is rolled out; nothing of it is for recorded episodes."""

    workers: int | Auto = "auto"
    """Worker processes of the roll-out; auto: one per core."""
    timeout: float = 60.0
    """Seconds without a step after which an environment counts as hanging."""
    normalize: Literal["none"] | Path = "none"
    """Observation statistics of an SB3 policy: a VecNormalize pickle (needs trust) or an .npz with
    mean, var, epsilon and clip."""
    no_normalize: bool = False
    """Roll an SB3 policy out without the observation statistics of its training, on purpose."""
    trust: bool = False
    """Allow loading files that execute code."""
    sample: bool = False
    """Draw actions from the policy's distribution instead of taking its mode."""


@dataclass(frozen=True)
class Request:
    """A checked request: nothing that can be refused beforehand is refused later.

    Attributes:
        options: with the numbers of episodes and the seed settled.
        recorded: recorded episodes, if that is what was brought.
        subject: the policy and its environment otherwise.
        rollout: how to roll it out.
        training: range and observation scaling from a training record, where they are used.
        commitment: that all of this was committed to beforehand, if it was.
        challenge: the answer to it, which the seed follows from.
    """

    options: Options
    recorded: "Episodes | None"
    subject: "PolicySource | None"
    rollout: Rollout
    training: "Scaling | None"
    commitment: "Commitment | None" = None
    challenge: str = ""

    def described(self) -> dict[str, Any]:
        """What will be rolled out: the subject of the episodes, but for their seed.

        Raises:
            InputError: there is nothing to roll out, or policy and environment do not fit.
        """
        from tightrope.rollouts.collect import describe, fitting

        if self.subject is None:
            raise InputError("expected a policy to commit to, found episodes that exist already")
        arguments = rollout_arguments(self.rollout)
        given = {name: arguments[name] for name in ("normalize", "trust", "sample")}
        found = fitting(self.subject.policy, self.subject.environment, **given)
        return {**describe(*found), **self.subject.training()}

    def committed(self, commitment: "Commitment", challenge: str = "") -> "Request":
        """The same, held to a commitment.

        Raises:
            InputError: policy, environment or versions are not those that were committed to.
        """
        subject = self.described()
        for name, value in commitment.content.items():
            if name != "options" and subject.get(name) != value:
                raise InputError(
                    f"expected the {name} that {commitment.digest} was committed to with, found "
                    "another: commit anew"
                )
        return replace(self, commitment=commitment, challenge=challenge)

    def episodes(self, *, progress: bool = False) -> "Episodes":
        """The recorded episodes, or the policy's, rolled out now."""
        if self.recorded is not None:
            return self.recorded
        counts = (self.options.pilot_episodes, self.options.episodes, self.options.test_episodes)
        return self.collect(sum(counts), progress=progress)  # type: ignore[arg-type]

    def collect(self, count: int, *, first: int = 0, progress: bool = False) -> "Episodes":
        """So many episodes of the policy, from the one of number `first` on."""
        from tightrope.rollouts import collect

        assert self.subject is not None  # there is one if nothing was recorded
        found = collect(
            self.subject.policy,
            self.subject.environment,
            count,
            self.options.seed,
            first=first,
            progress=progress,
            **rollout_arguments(self.rollout),
        )
        more = self.subject.training()
        if self.commitment is not None:
            more["commitment"] = self.commitment.to_json(self.challenge)
        return replace(found, subject={**found.subject, **more})

    def issue(self, *, progress: bool = False) -> "Certificate":
        """Roll out if needed, fit, and certify."""
        from tightrope.certificates.issue import certify_many
        from tightrope.certificates.until import issue_until

        if self.options.until != "off":
            return issue_until(self, progress=progress)
        episodes = self.episodes(progress=progress)
        assert isinstance(self.options.seed, int)
        return certify_many(
            episodes,
            [self.options],
            [self.options.seed],
            training=self.training,
            progress=progress,
        )[0][0]


def certify(
    source: Any,
    /,
    env: Any = None,
    *,
    columns: "Given" = None,
    rollout: Rollout | None = None,
    progress: bool = False,
    **options: Any,
) -> "Certificate":
    """Certify a policy or recorded episodes; the options are the fields of :class:`Options`.

    Args:
        source: episodes, a log (path, Minari id, dictionary of arrays, data frame), or a policy
            (path or object) to roll out in `env`.
        env: id, recipe, object or factory of the environment of a policy.
        columns: which column of a table, frame or LeRobot dataset is what, such as
            ``"obs=joint_*,reward=r,episode=run"`` or a dictionary.
        rollout: how a policy is rolled out.
        progress: show bars on standard error.
        options: such as ``scheme="rec-6"``.

    >>> # certificate = certify(episodes, scheme="rec-6", unit="step")

    Raises:
        InputError: an option is wrong, or there are too few episodes.
    """
    made = request(source, env, Options.of(options), rollout or Rollout(), columns)
    return made.issue(progress=progress)


def request(
    source: Any, env: Any, options: Options, rollout: Rollout, columns: "Given" = None
) -> Request:
    """Find out what was brought, settle every number, and refuse what cannot work.

    Raises:
        InputError: there is no such source, or an option is not for it.
    """
    from tightrope.certificates.until import sequential
    from tightrope.rollouts import is_recording, load_episodes, policy_source

    options = replace(options.seeded(), device=resolve_device(options.device))
    if is_recording(source):
        _refuse_rollout(source, env, rollout)
        if options.until != "off":
            raise InputError("expected a policy to roll out with `until`, found recorded episodes")
        return Request(options, load_episodes(source, columns), None, rollout, None)
    if columns:
        raise InputError("expected no `columns` for a policy: they are for recorded episodes")
    subject = policy_source(source, env)
    training = _training(subject, options)
    tests = EPISODES
    if options.until != "off":
        options, tests = sequential(options), 0
    options = replace(
        options,
        pilot_episodes=_pilot(options, training),
        episodes=EPISODES if options.episodes == "auto" else options.episodes,
        test_episodes=tests if options.test_episodes == "auto" else options.test_episodes,
    )
    if options.pilot_episodes == 0 and options.return_range == "auto" and training is None:
        raise InputError("expected a `return_range` LO HI with `pilot_episodes` 0, found none")
    return Request(options, None, subject, rollout, training)


def rollout_arguments(rollout: Rollout) -> dict[str, Any]:
    """The arguments of :func:`tightrope.rollouts.collect`."""
    if rollout.no_normalize and rollout.normalize != "none":
        raise InputError("expected `normalize` or `no_normalize`, found both")
    given = None if rollout.normalize == "none" else rollout.normalize
    return {
        "workers": None if rollout.workers == "auto" else rollout.workers,
        "timeout": rollout.timeout,
        "normalize": False if rollout.no_normalize else given,
        "trust": rollout.trust,
        "sample": rollout.sample,
    }


def _refuse_rollout(source: Any, env: Any, rollout: Rollout) -> None:
    given = {"env": env} if env is not None else {}
    given |= {k: v for k, v in vars(rollout).items() if v != getattr(Rollout(), k)}
    if given:
        name = source if isinstance(source, str | Path) else type(source).__name__
        raise InputError(
            f"expected no `{next(iter(given))}` for the recorded episodes {str(name)!r}"
        )


def _pilot(options: Options, training: "Scaling | None") -> int:
    """Pilot episodes: none where training fixed everything and the preset regresses nothing."""
    if options.pilot_episodes != "auto":
        return options.pilot_episodes
    from tightrope.posteriors import PRESETS

    fixed = training is not None and PRESETS[options.preset].regression is None
    return 0 if fixed else PILOT_EPISODES


def _training(subject: "PolicySource", options: Options) -> "Scaling | None":
    """Range and scaling of the training record, where there is one for this request."""
    asked = options.pilot_episodes not in ("auto", 0) or options.return_range != "auto"
    if subject.record is None or asked:
        return None
    from tightrope.posteriors import Scaling, range_from_training

    record = subject.record
    reason = record.mismatch(environment=subject.environment.to_json(), gamma=options.gamma)
    if reason is None:
        low, high = range_from_training(record)
        return Scaling(low, high, "training", record.observation_mean, record.observation_deviation)
    warnings.warn(
        f"the range of the training record is not used: {reason}; {PILOT_EPISODES} pilot "
        "episodes fix the range instead",
        stacklevel=2,
    )
    return None
