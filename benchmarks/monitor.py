"""What does the monitor notice? False alarms, and detection under real changes of the physics.

    python benchmarks/monitor.py                          # everything: about half an hour
    python benchmarks/monitor.py --policies pendulum --nominal 200 --episodes 10
    python benchmarks/monitor.py --markdown               # the rows that exist, as monitor.md

A certificate is issued from a fixed seed (once; it stays in the work folder), then episodes are
rolled out with other seeds: nominal ones, and ones in a changed environment. Each is a row of a CSV
file; conditions that have their episodes there are not run again, so the benchmark can be
stopped and resumed. Pictures are drawn from the rows.
"""

import csv
import functools
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path

import cyclopts
import gymnasium as gym
import numpy as np
import torch
from scipy.stats import beta

import tightrope as tr
from tightrope import demo
from tightrope.certificates.folder import write
from tightrope.certificates.statements.monitor import departures, widths_of_steps
from tightrope.rollouts import collect

HERE = Path(__file__).parent
COLUMNS = ("policy", "change", "level", "seed", "steps", "largest", "since", "return")
CERTIFICATE_SEED, NOMINAL_SEED, CHANGED_SEED = 1, 2001, 2002
LEVELS = (0.7, 0.8, 0.9, 1.1, 1.2, 1.3)


@dataclass(frozen=True)
class Subject:
    """A policy, its environment, the step of a sudden fault, and which feature a bias is on."""

    name: str
    env: str
    path: Path
    halfway: int
    biased: int
    biases: tuple[float, ...]


SUBJECTS = {
    subject.name: subject
    for subject in (
        Subject("hopper", "Hopper-v4", demo.policy_path(), 500, 1, (0.02, 0.05, 0.1)),
        Subject(
            *("pendulum", "Pendulum-v1", HERE / "policies/pendulum.safetensors", 100, 2),
            (0.1, 0.3, 1.0),
        ),
    )
}


class Bias(gym.ObservationWrapper):
    """A sensor that is off by a constant."""

    def __init__(self, env: gym.Env, feature: int, size: float) -> None:
        super().__init__(env)
        self.shift = np.zeros(env.observation_space.shape)
        self.shift[feature] = size

    def observation(self, observation: np.ndarray) -> np.ndarray:
        """What the sensor says."""
        return (observation + self.shift).astype(observation.dtype)


class Delay(gym.Wrapper):
    """Actions arrive some steps late; at first there is none."""

    def __init__(self, env: gym.Env, steps: int) -> None:
        super().__init__(env)
        self.steps = steps

    def reset(self, **arguments):
        """Begin with no action on its way."""
        self.queue = [np.zeros(self.action_space.shape, np.float32)] * self.steps
        return self.env.reset(**arguments)

    def step(self, action):
        """Do what was asked for some steps ago."""
        self.queue.append(action)
        return self.env.step(self.queue.pop(0))


class Weak(gym.Wrapper):
    """Actuators of another strength from some step on."""

    def __init__(self, env: gym.Env, level: float, start: int = 0) -> None:
        super().__init__(env)
        self.level, self.start = level, start

    def reset(self, **arguments):
        """Begin with the strength that there was."""
        self.count = 0
        return self.env.reset(**arguments)

    def step(self, action):
        """Act with the strength that there is."""
        self.count += 1
        model = getattr(self.env.unwrapped, "model", None)
        level = self.level if self.count > self.start else 1.0
        if model is None:  # Pendulum clips torques, so they are scaled before
            return self.env.step(np.asarray(action * level, np.float32))
        if self.count == 1:
            self.gear = getattr(self, "gear", model.actuator_gear.copy())
        model.actuator_gear[:] = self.gear * level
        return self.env.step(action)


def changed(env: str, change: str, level: float, halfway: int, feature: int) -> gym.Env:
    """The environment with one thing changed."""
    made = gym.make(env, disable_env_checker=True)
    inner = made.unwrapped
    model = getattr(inner, "model", None)
    if change == "gravity" and model is not None:
        model.opt.gravity[:] *= level
    elif change == "gravity":
        inner.g *= level
    elif change == "friction":
        model.geom_friction[:] *= level
    elif change == "mass" and model is not None:
        model.body_mass[1] *= level  # the torso, as a payload would
    elif change == "mass":
        inner.m *= level
    elif change == "strength":
        return Weak(made, level)
    elif change == "strength halfway":
        return Weak(made, level, halfway)
    elif change == "bias":
        return Bias(made, feature, level)
    elif change == "delay":
        return Delay(made, int(level))
    return made


def conditions(subject: Subject) -> list[tuple[str, float]]:
    """Changes and their levels; factors, but for bias (units of the sensor) and delay (steps)."""
    physics = ["gravity", "mass", "strength", "strength halfway"]
    physics += ["friction"] if subject.name != "pendulum" else []  # a pendulum has none
    found = [(change, level) for change in physics for level in LEVELS]
    return [*found, *(("bias", b) for b in subject.biases), ("delay", 1), ("delay", 2)]


@cyclopts.Parameter(name="*")
@dataclass(frozen=True)
class Args:
    """What to measure."""

    policies: tuple[str, ...] = tuple(SUBJECTS)
    """Names among those above."""
    nominal: int = 1000
    """Nominal episodes."""
    episodes: int = 20
    """Episodes in each changed environment."""
    workers: int = 1
    """Processes of the roll-outs."""
    out: Path = HERE / "monitor.csv"
    """Rows are added here."""
    work: Path = HERE / ".monitor"
    """Certificates stay here."""
    pictures: Path = HERE.parent / "docs"
    """Folder for monitor-POLICY.png."""
    markdown: bool = False
    """Measure nothing; print the tables of docs/monitor.md and draw the pictures."""


_DEFAULTS = Args()


def main(args: Args = _DEFAULTS) -> None:
    torch.set_num_threads(1)
    rows = read(args.out)
    if not args.markdown:
        for name in args.policies:
            subject = SUBJECTS[name]
            certificate = certified(subject, args)
            for change, level in [("nominal", 1.0), *conditions(subject)]:
                fill(rows, subject, certificate, change, level, args)
    for name in args.policies:
        own = [row for row in rows if row["policy"] == name]
        if own:
            print(markdown(name, own))
            draw(name, own, args.pictures / f"monitor-{name}.png")


def certified(subject: Subject, args: Args) -> tr.Certificate:
    folder = args.work / subject.name
    if not folder.exists():
        made = tr.certify(
            subject.path,
            subject.env,
            seed=CERTIFICATE_SEED,
            test_episodes=0,
            rollout=tr.Rollout(workers=args.workers),
        )
        write(made, folder)
    return tr.load_certificate(folder)


def fill(rows: list, subject: Subject, certificate, change: str, level: float, args: Args) -> None:
    """Roll out what is missing, and write it."""
    done = sum(
        (r["policy"], r["change"], r["level"]) == (subject.name, change, level) for r in rows
    )
    nominal = change == "nominal"
    wanted = args.nominal if nominal else args.episodes
    while done < wanted:
        more = min(wanted - done, 100)
        make = functools.partial(
            changed, subject.env, change, level, subject.halfway, subject.biased
        )
        episodes = collect(
            subject.path,
            subject.env if nominal else make,
            more,
            NOMINAL_SEED if nominal else CHANGED_SEED,
            first=done,
            workers=args.workers,
        )
        new = [
            dict(zip(COLUMNS, (subject.name, change, level, *each), strict=True))
            for each in judged(certificate, episodes)
        ]
        rows += new
        append(args.out, new)
        done += more
        found = np.mean([row["since"] is not None for row in new])
        print(f"{subject.name} {change} {level:g}: {found:.0%} of {more} alarm", flush=True)


def judged(certificate, episodes):
    """Of each episode what the monitor would say: seed, steps, largest, first alarm, return."""
    statement = certificate.statement("monitor")
    window, gamma = statement.chosen["window"], certificate.settings.gamma
    for one in episodes:
        steps = len(one.rewards)
        predicted = certificate.predictor(one.observations, elapsed=np.arange(steps)).mean
        found = departures(one.rewards, predicted, gamma=gamma, window=window)
        limits = statement.value_raw * widths_of_steps(steps, statement.chosen)
        sizes = np.abs(found) / limits
        beyond = np.flatnonzero(sizes > 1)
        since = int(beyond[0]) + 1 if len(beyond) else None
        yield one.seed, steps, float(sizes.max()), since, float(one.rewards.sum())


def read(path: Path) -> list[dict]:
    if not path.exists():
        return []
    with path.open() as stream:
        return [
            {
                "policy": row["policy"],
                "change": row["change"],
                "level": float(row["level"]),
                "seed": int(row["seed"]),
                "steps": int(row["steps"]),
                "largest": float(row["largest"]),
                "since": int(row["since"]) if row["since"] else None,
                "return": float(row["return"]),
            }
            for row in csv.DictReader(stream)
        ]


def append(path: Path, rows: list[dict]) -> None:
    new = not path.exists()
    with path.open("a", newline="") as stream:
        writer = csv.DictWriter(stream, COLUMNS)
        if new:
            writer.writeheader()
        for row in rows:
            short = {"largest": f"{row['largest']:.4f}", "return": f"{row['return']:.2f}"}
            writer.writerow({**row, **short, "since": row["since"] or ""})


def grouped(rows: list[dict]) -> dict[str, dict[float, list[dict]]]:
    found: dict[str, dict[float, list[dict]]] = defaultdict(lambda: defaultdict(list))
    for row in rows:
        found[row["change"]][row["level"]].append(row)
    return found


def markdown(name: str, rows: list[dict]) -> str:
    groups = grouped(rows)
    nominal = groups.pop("nominal")[1.0]
    alarms = sum(row["since"] is not None for row in nominal)
    upper = beta.ppf(0.975, alarms + 1, len(nominal) - alarms)
    lower = beta.ppf(0.025, alarms, len(nominal) - alarms + 1) if alarms else 0.0
    mean = np.mean([row["return"] for row in nominal])
    lines = [
        f"**{name}**: {alarms} false alarms in {len(nominal):,} nominal episodes, "
        f"{alarms / len(nominal):.1%} (95 % interval {lower:.1%} to {upper:.1%}); mean return "
        f"{mean:.0f}.\n",
        "| change | level | episodes | alarms | median step of the alarm | return, of nominal |",
        "|---|---|---|---|---|---|",
    ]
    for change in sorted(groups):
        for level, own in sorted(groups[change].items()):
            since = [row["since"] for row in own if row["since"] is not None]
            delay = f"{np.median(since):.0f}" if since else ""
            share = np.mean([row["return"] for row in own]) / mean
            lines.append(
                f"| {change} | {level:g} | {len(own)} | {len(since) / len(own):.0%} | {delay} | "
                f"{share:.0%} |"
            )
    return "\n".join(lines) + "\n"


COLOURS = ("#0072B2", "#E69F00", "#009E73", "#D55E00", "#CC79A7")


def draw(name: str, rows: list[dict], path: Path) -> None:
    """Detection rate and delay over the level, one line for each change."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    groups = grouped(rows)
    nominal = groups.pop("nominal")[1.0]
    rate = np.mean([row["since"] is not None for row in nominal])
    figure, (left, right) = plt.subplots(1, 2, figsize=(10, 4))
    for index, change in enumerate(c for c in sorted(groups) if c not in ("bias", "delay")):
        levels = sorted(groups[change])
        detected, delays = [], []
        for level in levels:
            since = [r["since"] for r in groups[change][level] if r["since"] is not None]
            detected.append(len(since) / len(groups[change][level]))
            delays.append(np.median(since) if since else np.nan)
        style = {"marker": "os^Dv"[index % 5], "color": COLOURS[index % 5], "label": change}
        middle = int(np.searchsorted(levels, 1.0))  # nothing changed: no delay to speak of
        levels.insert(middle, 1.0)
        left.plot(levels, np.insert(detected, middle, rate), **style)
        right.plot(levels, np.insert(delays, middle, np.nan), **style)
    left.axhline(rate, color="grey", linestyle=":", label="nominal")
    left.set(xlabel="factor", ylabel="share of episodes with an alarm", ylim=(-0.03, 1.03))
    right.set(xlabel="factor", ylabel="median step of the alarm", ylim=(0, None))
    handles, labels = left.get_legend_handles_labels()
    figure.legend(handles, labels, loc="lower center", ncols=6, frameon=False)
    figure.suptitle(f"{name}: what the monitor notices")
    figure.tight_layout(rect=(0, 0.07, 1, 1))
    figure.savefig(path, dpi=110)
    plt.close(figure)


if __name__ == "__main__":
    cyclopts.run(main)
