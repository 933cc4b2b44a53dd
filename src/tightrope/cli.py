"""The command: thin, no logic of its own; a verb imports the heavy packages it needs.

One frozen dataclass is a verb: its fields are the options, its docstrings the help.
"""

import contextlib
import io
import sys
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal, Protocol

import tyro
from tyro.conf import Positional

from tightrope.errors import InputError

__all__ = ["main"]

Flag = Annotated[bool, tyro.conf.FlagCreatePairsOff]  # --trust, without a --no-trust


class Verb(Protocol):
    """A verb of the command: returns the exit code."""

    def run(self) -> int: ...


@dataclass(frozen=True)
class Collect:
    """Roll out a frozen policy and record whole episodes."""

    policy: Annotated[Positional[str], tyro.conf.arg(metavar="POLICY")]
    """An SB3 .zip, a TorchScript .pt, a torch.export .pt2, an .onnx file, a folder that train
    wrote, file.py:name or package.module:name."""
    out: Path
    """File to write: .safetensors (tightrope's own), .npz or .hdf5 (D4RL names)."""
    env: str | None = None
    """Id of the environment, such as Hopper-v4, dm_control/walker-walk-v0 or reach-v3; by default
    the one that the policy was trained in, if train wrote it."""
    episodes: int = 100
    """How many episodes."""
    seed: int = 0
    """Root of the episodes' seeds; the same seed gives the same episodes."""
    workers: int | None = None
    """Worker processes; by default one per core."""
    normalize: Path | None = None
    """Observation statistics of an SB3 policy: a VecNormalize pickle (needs --trust) or an .npz
    with mean, var, epsilon and clip."""
    trust: Flag = False
    """Allow loading files that execute code."""
    sample: Flag = False
    """Draw actions from the policy's distribution instead of taking its mode."""
    timeout: float = 60.0
    """Seconds without a step after which an environment counts as hanging."""
    keep_partial: Flag = False
    """If an episode fails, write those that finished; they are marked as partial."""

    def run(self) -> int:
        """Collect and save."""
        from tightrope.rollouts import (
            CollectionError,
            check_destination,
            collect,
            policy_source,
            write_episodes,
        )

        check_destination(self.out)
        if self.keep_partial and self.out.suffix != ".safetensors":
            raise InputError(
                f"expected a name ending in .safetensors with --keep-partial, found {self.out}: "
                "other formats cannot mark episodes as partial"
            )
        subject = policy_source(self.policy, self.env, trust=self.trust)
        try:
            episodes = collect(
                subject.policy,
                subject.environment,
                self.episodes,
                self.seed,
                workers=self.workers,
                normalize=self.normalize,
                trust=self.trust,
                sample=self.sample,
                timeout=self.timeout,
                progress=True,
            )
        except CollectionError as error:
            if self.keep_partial and error.partial is not None:
                write_episodes(error.partial, self.out)
                kept = f"kept {len(error.partial)} finished episodes in {self.out}"
                raise CollectionError(f"{error}; {kept}", None, error.interrupted) from None
            raise
        write_episodes(episodes, self.out)
        steps = len(episodes.rewards)
        where = subject.environment.id
        print(f"{len(episodes)} episodes, {steps:,} steps of {where} written to {self.out}")
        return 0


@dataclass(frozen=True)
class Certify:
    """Certify how wrong predictions of a policy's return can be on new episodes."""

    source: Annotated[Positional[str | None], tyro.conf.arg(metavar="SOURCE")] = None
    """A policy (as for collect; rolled out here) or recorded episodes (.safetensors, .npz, .hdf5, a
    Minari id or folder)."""
    env: str | None = None
    """Id of the environment to roll a policy out in; by default the one that it was trained in, if
    train wrote it."""
    out: Path | None = None
    """New folder for certificate.json, predictor.safetensors, rollouts.safetensors and report.html;
    by default certificate-SOURCE."""
    demo: Flag = False
    """Certify the policy that ships with the package."""
    scheme: str = "rec-6"
    """nonrec-noninf, nonrec-inf, rec-T (such as rec-2), holdout, or portions such as 10,20,70."""
    unit: Literal["step", "episode"] = "step"
    """What counts as independent: thinned steps (an assumption) or whole episodes."""
    preset: Literal["paper", "tight"] = "tight"
    """The paper's recipe for prior and fit, or ours."""
    episodes: int | None = None
    """Validation episodes; 100 for a policy, all that are left for a recording."""
    test_episodes: int | None = None
    """Test episodes, only compared with; 100 for a policy, none for a recording."""
    pilot_episodes: int | None = None
    """Episodes that fix the return range and the observation scaling, and in preset tight the first
    prior; 10 by default, and in no bound. A training record goes before their range and scaling,
    unless a number above 0 is given here."""
    return_range: tuple[float, float] | None = None
    """Smallest and largest return, instead of the pilot's or the training's."""
    delta: float | None = None
    """Failure probability of the bound over the data; 0.025 by default."""
    delta_prime: float | None = None
    """Failure probability of the Monte Carlo draws; 0.01 by default."""
    gamma: float = 0.99
    """Discount factor, 1 for undiscounted returns."""
    thin: int | None = None
    """Keep every THIN-th step; by default what suits the environment."""
    mc_passes: int | None = None
    """Monte Carlo passes over the data; 20 by default."""
    sampling: Literal["local", "weights"] = "local"
    """Local reparameterisation, or one weight draw per pass (Bayes by backprop)."""
    fail_below: float | None = None
    """Also bound the probability that an episode returns less than this, undiscounted."""
    seed: int = 0
    """Root of all randomness: episodes, fits and draws."""
    workers: int | None = None
    """Worker processes of the roll-out; by default one per core."""
    timeout: float | None = None
    """Seconds without a step after which an environment counts as hanging; 60 by default."""
    normalize: Path | None = None
    """Observation statistics of an SB3 policy, as for collect."""
    trust: Flag = False
    """Allow loading files that execute code."""
    sample: Flag = False
    """Draw actions from the policy's distribution instead of taking its mode."""
    json: Flag = False
    """Print the certificate as JSON on standard output, and nothing else there."""

    def run(self) -> int:
        """Collect or load, certify, write, print."""
        import dataclasses

        from tightrope.certificates import Options, as_text, certify, write
        from tightrope.files import refuse_to_overwrite
        from tightrope.reports import write_page

        source, env = self._subject()
        named = Path(source.rpartition(":")[2] or source)
        stem = named.resolve().name if named.is_dir() else named.stem
        out = self.out or Path(f"certificate-{stem}")
        refuse_to_overwrite(out)
        recorded, counts, scaling = self._prepare(source, env)
        given = {
            name: value
            for name in ("delta", "delta_prime", "mc_passes", "thin", "return_range", "fail_below")
            if (value := getattr(self, name)) is not None
        }
        options = Options(
            **given,
            **counts,
            scheme=self.scheme,
            unit=self.unit,
            preset=self.preset,
            gamma=self.gamma,
            sampling=self.sampling,
            seed=self.seed,
        )
        episodes = recorded()
        certificate = certify(
            episodes, scaling=scaling, progress=True, **dataclasses.asdict(options)
        )
        certificate = write(certificate, out, beside=write_page)
        if self.json:
            print(as_text(certificate.to_json()), end="")
        else:
            print(certificate)
            print(f"\nWritten to {out}; check it with: tightrope verify {out}")
        return 0

    def _subject(self) -> tuple[str, str | None]:
        if self.demo:
            if self.source is not None or self.env is not None:
                raise InputError("expected --demo alone, found a source or --env beside it")
            from tightrope import demo

            return str(demo.policy_path()), demo.ENVIRONMENT
        if self.source is None:
            raise InputError("expected a policy or recorded episodes, or --demo, found neither")
        return self.source, self.env

    def _prepare(self, source: str, env: str | None) -> tuple[Any, dict[str, Any], Any]:
        """How to get the episodes, how many are for what, and a scaling if training gave one.

        Checked before anything long.
        """
        from tightrope.posteriors import preset
        from tightrope.rollouts import (
            PILOT_EPISODES,
            collect,
            is_recording,
            load_episodes,
            policy_source,
        )

        pilot = PILOT_EPISODES if self.pilot_episodes is None else self.pilot_episodes
        if is_recording(source):
            for name in ("env", "workers", "normalize", "trust", "sample", "timeout"):
                if getattr(self, name) not in (None, False):
                    raise InputError(f"expected no --{name} for the recorded episodes {source!r}")
            episodes = load_episodes(source)
            tests = self.test_episodes or 0
            counts = {"pilot_episodes": pilot, "episodes": self.episodes, "test_episodes": tests}
            return lambda: episodes, counts, None
        subject = policy_source(source, env, trust=self.trust)
        scaling = self._from_training(subject)
        if scaling is not None and not preset(self.preset).pilot_steps:
            pilot = 0  # nothing is left for a pilot to fix
        validation = 100 if self.episodes is None else self.episodes
        tests = 100 if self.test_episodes is None else self.test_episodes
        if pilot == 0 and self.return_range is None and scaling is None:
            raise InputError("expected --return-range LO HI with --pilot-episodes 0, found none")
        counts = {"pilot_episodes": pilot, "episodes": validation, "test_episodes": tests}
        return (
            lambda: collect(
                subject.policy,
                subject.environment,
                pilot + validation + tests,
                self.seed,
                workers=self.workers,
                normalize=self.normalize,
                trust=self.trust,
                sample=self.sample,
                timeout=60.0 if self.timeout is None else self.timeout,
                progress=True,
            ),
            counts,
            scaling,
        )

    def _from_training(self, subject: Any) -> Any:
        """The scaling of the training record, where there is one for this request."""
        if subject.record is None or self.pilot_episodes or self.return_range is not None:
            return None
        from tightrope.posteriors import scaling_from_training
        from tightrope.rollouts import PILOT_EPISODES

        reason = subject.record.mismatch(
            environment=subject.environment.to_json(), gamma=self.gamma
        )
        if reason is None:
            return scaling_from_training(subject.record)
        warnings.warn(
            f"the range of the training record is not used: {reason}; {PILOT_EPISODES} pilot "
            "episodes fix the range instead",
            stacklevel=2,
        )
        return None


@dataclass(frozen=True)
class Train:
    """Train an agent as the paper does; the same command resumes an interrupted run.

    Settings that are not given are those of the preset; those of another agent are refused.
    """

    agent: Annotated[Positional[str], tyro.conf.arg(metavar="AGENT")]
    """redq, sac or ppo."""
    env: str
    """Id of the environment, as for collect."""
    out: Path
    """Folder of the run: snapshots, log.csv, TensorBoard's files and, until the end, a
    checkpoint."""
    preset: Literal["paper"] = "paper"
    """Where settings, steps and levels come from that are not given."""
    steps: int | None = None
    """Environment steps; by default those of the expert."""
    levels: tuple[int, int, int] | None = None
    """Steps at which starter, intermediate and expert are frozen."""
    seed: int = 0
    """Root of all randomness."""
    warmup: int | None = None
    """redq, sac: steps with random actions before the first update."""
    gamma: float | None = None
    """Discount factor."""
    hidden: tuple[int, ...] | None = None
    """Widths of the hidden layers."""
    learning_rate: float | None = None
    """Of Adam."""
    batch: int | None = None
    """Transitions in a mini-batch."""
    tau: float | None = None
    """redq, sac: share of the new weights in each soft update of the targets."""
    buffer: int | None = None
    """redq, sac: transitions that the replay buffer holds."""
    replay_ratio: int | None = None
    """redq, sac: updates per environment step."""
    critics: int | None = None
    """redq: size of the ensemble."""
    subset: int | None = None
    """redq: target critics drawn for each update."""
    huber: float | None = None
    """redq: error beyond which the critics' loss is linear instead of square."""
    rollout: int | None = None
    """ppo: steps between two rounds of updates."""
    epochs: int | None = None
    """ppo: passes over these steps."""
    gae_lambda: float | None = None
    """ppo: of generalised advantage estimation."""
    clip: float | None = None
    """ppo: range of the clipped surrogate."""
    entropy_weight: float | None = None
    """ppo: of the entropy in the loss."""
    value_weight: float | None = None
    """ppo: of the critic's error in the loss."""
    gradient_norm: float | None = None
    """ppo: largest norm of a gradient."""
    compile: Literal["auto", "always", "never"] = "auto"
    """redq: torch.compile; auto for long runs."""
    threads: int | None = None
    """Threads of torch; by default all cores for redq, one for the others."""
    checkpoint_every: int = 10_000
    """Steps after which a checkpoint is due; redq and sac write it at the end of the episode."""
    evaluate_every: int | None = None
    """Steps between evaluations; by default a fiftieth of the run."""
    evaluation_episodes: int = 10
    """Deterministic episodes in each evaluation."""

    def run(self) -> int:
        """Train, or resume."""
        from tightrope.agents import train

        given = {name: value for name, value in vars(self).items() if value is not None}
        del given["preset"]  # there is one
        snapshots = train(**given, progress=True)
        for name, folder in snapshots.items():
            print(f"{name}: {folder}")
        last = list(snapshots.values())[-1]
        print(f"certify the last with: tightrope certify {last}")
        return 0


@dataclass(frozen=True)
class Verify:
    """Recompute every number of a certificate from the files beside it."""

    folder: Annotated[Positional[Path], tyro.conf.arg(metavar="DIR")]
    """Folder that certify wrote."""

    def run(self) -> int:
        """Exit code 0 if all agrees, 1 with a list of what does not."""
        from tightrope.certificates import verify

        problems = verify(self.folder)
        for problem in problems:
            print(problem)
        if problems:
            print(f"NOT verified: {len(problems)} disagreements in {self.folder}")
            return 1
        print(f"verified: every number in {self.folder} follows from its files")
        return 0


_VERBS: dict[str, Any] = {
    "certify": Certify,
    "collect": Collect,
    "train": Train,
    "verify": Verify,
}


def main(arguments: list[str] | None = None) -> int:
    """Run the command and return its exit code: 0 done, 1 a check said no, 2 wrong input."""
    arguments = sys.argv[1:] if arguments is None else arguments
    if arguments == ["--version"]:
        from tightrope import __version__

        print(f"tightrope {__version__}")
        return 0
    with warnings.catch_warnings():
        warnings.showwarning = _one_line_warning
        try:
            return _parse(arguments or ["--help"]).run()
        except InputError as error:
            print(f"tightrope: {error}", file=sys.stderr)
            return 130 if getattr(error, "interrupted", False) else 2
        except BrokenPipeError:  # whoever read our output has left
            sys.stdout = None
            return 0
        except KeyboardInterrupt:
            print("tightrope: interrupted", file=sys.stderr)
            return 130


def _parse(arguments: list[str]) -> Verb:
    """The verb that the arguments name; prints help, or raises InputError in one line."""
    words = io.StringIO()
    try:
        with contextlib.redirect_stderr(words):
            verb: Verb = tyro.extras.subcommand_cli_from_dict(
                _VERBS,
                prog="tightrope",
                description="Tight, honest risk certificates for reinforcement-learning policies.",
                args=arguments,
            )
            return verb
    except SystemExit as stop:
        if stop.code in (0, None):
            raise
        raise InputError(_one_line(words.getvalue())) from None


def _one_line(boxed: str) -> str:
    """What tyro says in a box, without the box and its repetition of the help text."""
    lines = [line.strip("╭╮╰╯│─ \t") for line in boxed.splitlines()[1:]]
    said: list[str] = []
    for line in lines:
        if line.startswith(("Argument helptext", "For full helptext")):
            break
        if line:
            said.append(line)
    return f"{' '.join(said)}: run tightrope --help"


def _one_line_warning(message: Warning | str, *_: object, **__: object) -> None:
    print(f"tightrope: warning: {message}", file=sys.stderr)
