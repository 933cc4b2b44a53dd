"""Milliseconds per REDQ and SAC update and PPO steps per second, against peers and the limit.

    python benchmarks/agents.py [--updates 50] [--rounds 7] [--threads 2] [--skip-peers]
    python benchmarks/agents.py --sides defaults sac-compiled

An update of REDQ: sample 256 transitions of Hopper-v4's sizes; fit ten critics to the minimum of
two drawn target critics; improve the actor on the mean of all ten; temperature; soft update of
the targets. Two hidden layers of 256 with learned layer norm and CReLU everywhere. The sides: ours
plain, compiled and in bfloat16 as well, SB3's SAC with ten critics, and the REDQ of Tianshou and of
TorchRL, each as it comes, compiled, and under autocast to bfloat16 as well; the limit is the time
of the matrix products alone, at the speed of torch.bmm in float32.
Our layers by default do less (the actor climbs two critics, critics have no norms, the actor's are
not learned) and have a line of their own, and so has SAC: two critics, in our update and in SB3's
(with learned norms).

Every side is a process of its own that answers on a pipe, all with the same number of threads;
they take turns in short rounds, so that a machine whose speed drifts slows all alike, and a side's
figure is its median. The peers live in a virtual environment that this script makes (--peers).

All sides have fused Adam. What is not identical: Tianshou and SB3 fit with the squared loss,
TorchRL and ours with Huber's. SB3 takes the minimum over all ten, in the target and for the actor.
Tianshou evaluates all ten target critics and keeps two. TorchRL updates critics and actor from one
backward pass, so its actor climbs the critics as they were before the update. Tianshou and TorchRL
store observations in float32, as ours does; SB3's buffer keeps MuJoCo's float64 and converts.
"""

import argparse
import contextlib
import functools
import importlib.metadata
import json
import math
import os
import statistics
import subprocess
import sys
import tempfile
import time
import venv
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

ENVIRONMENT = "Hopper-v4"
OBSERVATIONS, ACTIONS = 11, 3
WIDTH, BATCH, CRITICS, SUBSET = 256, 256, 10, 2
LEARNING_RATE, GAMMA, TAU = 3e-4, 0.99, 0.005
TRANSITIONS = 20_000
SHARED: dict[str, Any] = {
    "buffer_size": TRANSITIONS,
    "batch_size": BATCH,
    "seed": 0,
    "device": "cpu",
}
ROLLOUT = 2048  # steps of PPO between two rounds of updates
WARM_UP = 10  # updates: before the first round, and at the start of each, after idling
PEERS = {"tianshou": "2.0.1", "torchrl": "0.14.1"}
# As in our own environment; Tianshou refuses some of the other pins, of packages not used here.
PINNED = ("gymnasium==", "numpy==", "torch==")

Measure = Callable[[int], float]  # so many units of work to seconds per unit


@dataclass(frozen=True)
class Work:
    """How many critics an update fits, evaluates for its target, and climbs."""

    critics: int
    subset: int
    climbed: int


EQUAL, DEFAULTS, TWO = Work(10, 2, 10), Work(10, 2, 2), Work(2, 2, 2)


def matrix_flops(work: Work) -> float:
    """Floating-point operations of the matrix products without which there is no update.

    A layer from i to o units costs 2 * batch * i * o for its outputs, as much for the gradient
    of its weights, and as much for that of its inputs. Critics: outputs and both gradients, but
    none for the inputs of the first layer. Targets: outputs of the drawn members. Actor loss:
    outputs of the critics it climbs, no gradient of their weights, and of the first layer's inputs
    only the actions'. Actor: outputs at the observations, with both gradients, and at the next
    ones. CReLU doubles what the layer after it sees.
    """

    def layers(inputs: int, outputs: int) -> tuple[float, float]:
        sizes = (inputs, WIDTH), (2 * WIDTH, WIDTH), (2 * WIDTH, outputs)
        costs = [2.0 * BATCH * i * o for i, o in sizes]
        return costs[0], sum(costs)

    first, critic = layers(OBSERVATIONS + ACTIONS, 1)
    actor_first, actor = layers(OBSERVATIONS, 2 * ACTIONS)
    actions = first * ACTIONS / (OBSERVATIONS + ACTIONS)
    fit = work.critics * (critic + critic + critic - first)
    targets = work.subset * critic + actor
    improve = work.climbed * (critic + critic - first + actions)
    return fit + targets + improve + actor + actor + actor - actor_first


def seconds_each(run: Callable[[int], object], count: int) -> float:
    start = time.perf_counter()
    run(count)
    return (time.perf_counter() - start) / count


def random_transitions() -> dict[str, np.ndarray]:
    """Of episodes: what follows a step is what the next one sees, but for ends."""
    rng = np.random.default_rng(0)
    observations = rng.standard_normal((TRANSITIONS + 1, OBSERVATIONS), np.float32)
    terminated = rng.random(TRANSITIONS) < 0.01
    last = rng.standard_normal((TRANSITIONS, OBSERVATIONS), np.float32)
    return {
        "observation": observations[:-1],
        "action": rng.uniform(-1, 1, (TRANSITIONS, ACTIONS)).astype(np.float32),
        "reward": rng.standard_normal(TRANSITIONS, np.float32),
        "terminated": terminated,
        "next": np.where(terminated[:, None], last, observations[1:]),
    }


def bmm() -> Measure:
    left, right = torch.randn(CRITICS, BATCH, 2 * WIDTH), torch.randn(CRITICS, 2 * WIDTH, WIDTH)
    product = torch.empty(CRITICS, BATCH, WIDTH)

    def run(count: int) -> None:
        for _ in range(count):
            torch.bmm(left, right, out=product)

    run(WARM_UP)
    return lambda _: min(seconds_each(run, 10) for _ in range(20))


def sb3_updates(model: Any) -> Measure:
    from stable_baselines3.common.logger import Logger

    model.set_logger(Logger(None, []))
    data = random_transitions()
    for index in range(TRANSITIONS):
        row = {name: values[index : index + 1] for name, values in data.items()}
        transition = row["observation"], row["next"], row["action"], row["reward"]
        model.replay_buffer.add(*transition, row["terminated"], [{}])
    train = functools.partial(model.train, batch_size=BATCH)
    train(WARM_UP)
    return functools.partial(seconds_each, train)


def ours(work: Work, *, compiled: bool, halved: bool = False) -> Measure:
    from tightrope.agents import REDQ, SACPolicy
    from tightrope.agents.replay_buffer import CompactReplayBuffer
    from tightrope.environments import make_env

    # otherwise it would go on without, and we would call plain what we call compiled
    warnings.filterwarnings("error", message="torch.compile failed")
    own: dict[str, Any] = {"critics": work.critics, "subset": work.subset, "compile": compiled}
    own["huber"] = 1.0 if work == EQUAL else math.inf
    own["actor_climbs"] = "mean" if work.climbed > work.subset else "minimum"
    own["policy_kwargs"] = {
        "critic_norm": work == EQUAL,
        "learned_norm": work == EQUAL,
        "halved": halved,
        "scaled": work != EQUAL,
    }
    own["replay_buffer_class"] = CompactReplayBuffer
    return sb3_updates(REDQ(SACPolicy, make_env(ENVIRONMENT), **own, **SHARED))


def sb3_sac(work: Work) -> Measure:
    from stable_baselines3 import SAC
    from stable_baselines3.common.policies import ContinuousCritic

    from tightrope.agents import SACPolicy
    from tightrope.environments import make_env

    class Separate(ContinuousCritic):
        """SB3's own critics, one network after the other, with the layers of the others."""

        def __init__(self, *args: Any, **kwargs: Any) -> None:
            super().__init__(*args, **kwargs)
            for index in range(self.n_critics):
                layers = hidden_layers(OBSERVATIONS + ACTIONS)
                network = nn.Sequential(*layers, nn.Linear(2 * WIDTH, 1))
                self.add_module(f"qf{index}", network)
                self.q_networks[index] = network

    class Policy(SACPolicy):
        def make_critic(self, features_extractor: Any = None) -> Any:
            kwargs = self._update_features_extractor(self.critic_kwargs, features_extractor)
            return Separate(**kwargs).to(self.device)

    own = {"n_critics": work.critics, "learned_norm": True}
    return sb3_updates(SAC(Policy, make_env(ENVIRONMENT), policy_kwargs=own, **SHARED))


class CReLU(nn.Module):
    """As ours, which the peers' environment does not have."""

    def forward(self, inputs: Tensor) -> Tensor:
        """(..., width) to (..., 2 width)."""
        return torch.cat((torch.relu(inputs), torch.relu(-inputs)), dim=-1)


class EnsembleNorm(nn.Module):
    """One layer norm per critic; Tianshou has an ensemble of linear layers, but not of these."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(CRITICS, 1, WIDTH))
        self.bias = nn.Parameter(torch.zeros(CRITICS, 1, WIDTH))

    def forward(self, inputs: Tensor) -> Tensor:
        """(critics, batch, width), normalised over the width."""
        return torch.addcmul(self.bias, nn.functional.layer_norm(inputs, (WIDTH,)), self.weight)


def hidden_layers(
    inputs: int,
    linear: Callable[[int, int], nn.Module] = nn.Linear,
    norm: Callable[[], nn.Module] = lambda: nn.LayerNorm(WIDTH),
) -> list[nn.Module]:
    first = [linear(inputs, WIDTH), norm(), CReLU()]
    return [*first, linear(2 * WIDTH, WIDTH), norm(), CReLU()]


def tianshou_redq(action_space: Any) -> Any:
    """Tianshou's REDQ with our networks; also for independent.py."""
    from tianshou.algorithm.modelfree.redq import REDQ, REDQPolicy
    from tianshou.algorithm.modelfree.sac import AutoAlpha
    from tianshou.algorithm.optim import TorchOptimizerFactory
    from tianshou.utils.net.common import EnsembleLinear, ModuleWithVectorOutput
    from tianshou.utils.net.continuous import ContinuousActorProbabilistic, ContinuousCritic

    class Trunk(ModuleWithVectorOutput):
        def __init__(self, layers: list[nn.Module]) -> None:
            super().__init__(2 * WIDTH)
            self.layers = nn.Sequential(*layers)

        def forward(self, obs: Any, state: Any = None, info: Any = None) -> tuple[Tensor, Any]:
            return self.layers(torch.as_tensor(obs, dtype=torch.float32)), state

    linear = functools.partial(EnsembleLinear, CRITICS)
    critic = ContinuousCritic(
        preprocess_net=Trunk(hidden_layers(OBSERVATIONS + ACTIONS, linear, EnsembleNorm)),
        linear_layer=linear,
        flatten_input=False,
    )
    actor = ContinuousActorProbabilistic(
        preprocess_net=Trunk(hidden_layers(OBSERVATIONS)),
        action_shape=ACTIONS,
        unbounded=True,
        conditioned_sigma=True,
    )
    adam = TorchOptimizerFactory(torch.optim.Adam, lr=LEARNING_RATE, fused=True)
    return REDQ(
        policy=REDQPolicy(actor=actor, action_space=action_space),
        policy_optim=adam,
        critic=critic,
        critic_optim=adam,
        ensemble_size=CRITICS,
        subset_size=SUBSET,
        tau=TAU,
        gamma=GAMMA,
        alpha=AutoAlpha(-float(ACTIONS), 0.0, adam),
        actor_delay=1,
    )


def autocast(halved: bool) -> Any:
    """How a peer computes in bfloat16: torch chooses what."""
    return torch.autocast("cpu", torch.bfloat16, enabled=halved)


def tianshou(compiled: bool, halved: bool = False) -> Measure:
    from gymnasium.spaces import Box
    from tianshou.data import Batch, ReplayBuffer
    from tianshou.utils.torch_utils import policy_within_training_step

    algorithm = tianshou_redq(Box(-1, 1, (ACTIONS,)))
    policy = algorithm.policy
    if compiled:  # the networks: the update around them is numpy and Batch objects
        for network in (algorithm.critic, algorithm.critic_old, policy.actor):
            network.compile()
    data, buffer = random_transitions(), ReplayBuffer(TRANSITIONS)
    for index in range(TRANSITIONS):
        row = {name: values[index] for name, values in data.items()}
        transition = {"obs": row["observation"], "act": row["action"], "rew": row["reward"]}
        ends = {"terminated": row["terminated"], "truncated": False}
        buffer.add(Batch(**transition, **ends, obs_next=row["next"], info={}))

    def run(count: int) -> None:
        with policy_within_training_step(policy):
            for _ in range(count):
                with autocast(halved):  # which keeps its copies of the weights to its end
                    algorithm.update(buffer, BATCH)

    run(WARM_UP)
    return functools.partial(seconds_each, run)


def torchrl(compiled: bool, halved: bool = False) -> Measure:
    from tensordict import TensorDict
    from tensordict.nn import TensorDictModule
    from torchrl.data import Bounded, LazyTensorStorage, TensorDictReplayBuffer
    from torchrl.modules import NormalParamExtractor, ProbabilisticActor, TanhNormal, ValueOperator
    from torchrl.objectives import REDQLoss, SoftUpdate

    class Critic(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            layers = hidden_layers(OBSERVATIONS + ACTIONS)
            self.layers = nn.Sequential(*layers, nn.Linear(2 * WIDTH, 1))

        def forward(self, observations: Tensor, actions: Tensor) -> Tensor:
            return self.layers(torch.cat((observations, actions), dim=-1))

    head = nn.Linear(2 * WIDTH, 2 * ACTIONS), NormalParamExtractor()
    parameters = TensorDictModule(
        nn.Sequential(*hidden_layers(OBSERVATIONS), *head), ["observation"], ["loc", "scale"]
    )
    actor = ProbabilisticActor(
        parameters,
        in_keys=["loc", "scale"],
        spec=Bounded(-torch.ones(ACTIONS), torch.ones(ACTIONS)),
        distribution_class=TanhNormal,
        return_log_prob=True,
    )
    loss = REDQLoss(
        actor,
        ValueOperator(Critic(), in_keys=["observation", "action"]),
        num_qvalue_nets=CRITICS,
        sub_sample_len=SUBSET,
        loss_function="smooth_l1",
    )
    loss.make_value_estimator(gamma=GAMMA)
    targets = SoftUpdate(loss, tau=TAU)
    optimizer = torch.optim.Adam(loss.parameters(), lr=LEARNING_RATE, fused=True)
    buffer = TensorDictReplayBuffer(storage=LazyTensorStorage(TRANSITIONS), batch_size=BATCH)
    data = {name: torch.as_tensor(values) for name, values in random_transitions().items()}
    ends = dict.fromkeys(("terminated", "done"), data["terminated"][:, None])
    after = {"observation": data["next"], "reward": data["reward"][:, None], **ends}
    now = {"observation": data["observation"], "action": data["action"]}
    buffer.extend(TensorDict({**now, "next": after}, [TRANSITIONS]))

    def update(batch: TensorDict) -> None:
        losses = loss(batch)
        (losses["loss_qvalue"] + losses["loss_actor"] + losses["loss_alpha"]).backward()
        optimizer.step()
        optimizer.zero_grad()

    step = torch.compile(update) if compiled else update

    def run(count: int) -> None:
        for _ in range(count):
            with autocast(halved):
                step(buffer.sample())
            targets.step()

    run(WARM_UP)
    return functools.partial(seconds_each, run)


def sb3_ppo() -> Measure:
    from stable_baselines3 import PPO

    from tightrope.agents import PPOPolicy
    from tightrope.environments import make_env

    def run(count: int) -> None:
        # SB3 itself wraps the environment in a Monitor and a DummyVecEnv
        env = make_env(ENVIRONMENT)
        model = PPO(PPOPolicy, env, n_steps=ROLLOUT, batch_size=BATCH, seed=0, device="cpu")
        model.learn(count)

    run(ROLLOUT)
    return functools.partial(seconds_each, run)


def our_ppo() -> Measure:
    from tightrope.agents import train

    def run(count: int) -> None:
        # SB3's learn evaluates nothing, so we take as little of it as we can: one episode at the
        # end. Checkpoints, snapshot and log are as always.
        least = {"evaluate_every": count, "evaluation_episodes": 1}
        settings = {"rollout": ROLLOUT, "batch": BATCH, "threads": torch.get_num_threads()}
        with tempfile.TemporaryDirectory() as folder:
            train("ppo", ENVIRONMENT, Path(folder) / "run", steps=count, **least, **settings)

    run(ROLLOUT)
    return functools.partial(seconds_each, run)


@dataclass(frozen=True)
class Side:
    """What is measured: how to name it, how to build it, and whose package it shows."""

    label: str
    build: Callable[[], Measure]
    package: str
    peer: bool = False
    work: Work = EQUAL


SIDES = {
    "bmm": Side("matrix products alone", bmm, "torch"),
    "compiled": Side("tightrope REDQ, compiled", lambda: ours(EQUAL, compiled=True), "tightrope"),
    "halved": Side(
        "tightrope REDQ, compiled, bfloat16",
        lambda: ours(EQUAL, compiled=True, halved=True),
        "tightrope",
    ),
    "plain": Side("tightrope REDQ", lambda: ours(EQUAL, compiled=False), "tightrope"),
    "sb3": Side("SB3 SAC, ten critics", lambda: sb3_sac(EQUAL), "stable-baselines3"),
    "defaults": Side(
        "tightrope REDQ, our layers, compiled",
        lambda: ours(DEFAULTS, compiled=True),
        "tightrope",
        work=DEFAULTS,
    ),
    "defaults-halved": Side(
        "tightrope REDQ, our layers, compiled, bfloat16",
        lambda: ours(DEFAULTS, compiled=True, halved=True),
        "tightrope",
        work=DEFAULTS,
    ),
    "sac-compiled": Side(
        "tightrope SAC, compiled", lambda: ours(TWO, compiled=True), "tightrope", work=TWO
    ),
    "sac-halved": Side(
        "tightrope SAC, compiled, bfloat16",
        lambda: ours(TWO, compiled=True, halved=True),
        "tightrope",
        work=TWO,
    ),
    "sac-plain": Side("tightrope SAC", lambda: ours(TWO, compiled=False), "tightrope", work=TWO),
    "sac-sb3": Side("SB3 SAC", lambda: sb3_sac(TWO), "stable-baselines3", work=TWO),
    "tianshou": Side("Tianshou REDQ", lambda: tianshou(False), "tianshou", peer=True),
    "tianshou-compiled": Side(
        "Tianshou REDQ, compiled", lambda: tianshou(True), "tianshou", peer=True
    ),
    "tianshou-halved": Side(
        "Tianshou REDQ, compiled, bfloat16", lambda: tianshou(True, True), "tianshou", peer=True
    ),
    "torchrl": Side("TorchRL REDQ", lambda: torchrl(False), "torchrl", peer=True),
    "torchrl-compiled": Side("TorchRL REDQ, compiled", lambda: torchrl(True), "torchrl", peer=True),
    "torchrl-halved": Side(
        "TorchRL REDQ, compiled, bfloat16", lambda: torchrl(True, True), "torchrl", peer=True
    ),
    "ppo-ours": Side("tightrope train ppo", our_ppo, "tightrope"),
    "ppo-sb3": Side("SB3 PPO.learn", sb3_ppo, "stable-baselines3"),
}
OURS = [key for key, side in SIDES.items() if side.package == "tightrope"]


def serve(key: str, threads: int) -> None:
    """Build a side, then answer each number of units on stdin with its seconds per unit."""
    answer = functools.partial(print, file=sys.stdout, flush=True)
    sys.stdout = sys.stderr  # where libraries may print
    warnings.filterwarnings("ignore", message=".*is out of date.*")
    torch.set_num_threads(threads)
    torch.manual_seed(0)
    measure = SIDES[key].build()
    answer(json.dumps({"version": importlib.metadata.version(SIDES[key].package)}))
    for line in sys.stdin:
        answer(json.dumps({"seconds": measure(int(line))}))


class UnavailableError(Exception):
    """A side that cannot be installed or run; the message is one line and says why."""


def last_words(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return (lines or ["no message"])[-1][:200]


class Worker:
    """A side in its own process."""

    def __init__(self, key: str, interpreter: Path, threads: int) -> None:
        self.errors = tempfile.TemporaryFile("w+")  # noqa: SIM115
        command = [interpreter, __file__, "--measure", key, "--threads", str(threads)]
        self.process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self.errors,
            text=True,
            env={**os.environ, "OMP_NUM_THREADS": str(threads)},
        )
        self.version = self.answer()["version"]

    def answer(self) -> dict[str, Any]:
        """The next line of the process; an error with its last words when it has ended."""
        line = self.process.stdout.readline()
        if not line:
            status = self.process.wait()
            self.errors.seek(0)
            raise UnavailableError(f"{last_words(self.errors.read())} (exit status {status})")
        return json.loads(line)

    def ask(self, count: int) -> None:
        """Begin so many units."""
        with contextlib.suppress(BrokenPipeError):  # then it does not answer either
            self.process.stdin.write(f"{count}\n")
            self.process.stdin.flush()

    def measure(self, count: int) -> float:
        """Seconds per unit, over so many of them."""
        self.ask(count)
        return self.answer()["seconds"]

    def close(self) -> None:
        """Let the process end."""
        with contextlib.suppress(BrokenPipeError):
            self.process.stdin.close()
        self.process.wait()
        self.process.stdout.close()
        self.errors.close()


def peer_environment(folder: Path) -> Path:
    """The interpreter of the peers' virtual environment, made when it is not there."""
    interpreter = folder / "bin" / "python"
    if not interpreter.exists():
        venv.create(folder, with_pip=True)
    pins = (Path(__file__).parent.parent / "constraints.txt").read_text().splitlines()
    kept = [pin for pin in pins if pin.startswith(PINNED)]
    (folder / "constraints.txt").write_text("\n".join(kept) + "\n")
    return interpreter


def install(package: str, interpreter: Path) -> None:
    """Quick when the package is there already."""
    constraints = interpreter.parent.parent / "constraints.txt"
    command = [interpreter, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    command += ["--constraint", constraints, f"{package}=={PEERS[package]}"]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        first, _, _ = done.stderr.partition("ERROR: ")[2].partition("\n")
        raise UnavailableError(f"pip: {first or last_words(done.stderr)}")


@contextlib.contextmanager
def workers(keys: list[str], threads: int, peers: Path | None) -> Iterator[dict[str, Worker]]:
    """Those sides that run, warmed up one after the other; a line for each that does not."""
    started: dict[str, Worker] = {}
    try:
        for key in keys:
            side, interpreter = SIDES[key], Path(sys.executable)
            print(f"preparing {side.label} ...", file=sys.stderr)
            try:
                if side.peer and peers is not None:
                    interpreter = peer_environment(peers)
                    install(side.package, interpreter)
                started[key] = Worker(key, interpreter, threads)
            except UnavailableError as why:
                print(f"skipped {side.label}: {why}")
        yield started
    finally:
        for worker in started.values():
            worker.close()


def in_turn(
    started: dict[str, Worker], rounds: int, count: int, warm_up: int = 0
) -> dict[str, list[float]]:
    """Seconds per unit of each side in each round; without those that fail on the way."""
    seconds: dict[str, list[float]] = {key: [] for key in started}
    for _ in range(rounds):
        for key in list(seconds):
            try:
                if warm_up:
                    started[key].measure(warm_up)
                seconds[key].append(started[key].measure(count))
            except UnavailableError as why:
                print(f"skipped {SIDES[key].label}: {why}")
                del seconds[key]
    return seconds


def updates(options: argparse.Namespace) -> None:
    keys = [key for key in SIDES if not key.startswith("ppo")]
    if options.sides:
        keys = ["bmm", *(key for key in keys if key in options.sides and key != "bmm")]
    if options.skip_peers:
        keys = [key for key in keys if not SIDES[key].peer]
    with workers(keys, options.threads, options.peers) as started:
        labels = {key: f"{SIDES[key].label} ({w.version})" for key, w in started.items()}
        seconds = in_turn(started, options.rounds, options.updates, WARM_UP)
    products = 2 * CRITICS * BATCH * 2 * WIDTH * WIDTH
    speed = products / min(seconds.pop("bmm"))
    limits = {key: matrix_flops(SIDES[key].work) / speed for key in seconds}
    times = {key: statistics.median(values) for key, values in seconds.items()}
    effort = f"median of {options.rounds} rounds of {options.updates} updates"
    print(f"REDQ and SAC: {effort}, {options.threads} threads")
    print(f"  {'':<58}{'ms/update':>10}{'/ compiled':>12}{'/ limit':>10}")
    reference = times.get("compiled", math.nan)
    for key, value in times.items():
        ratio = f"{value / reference:12.2f}" if SIDES[key].work == EQUAL else " " * 12
        print(f"  {labels[key]:<58}{value * 1e3:10.2f}{ratio}{value / limits[key]:10.2f}")
    for name, work in (("REDQ", EQUAL), ("our layers", DEFAULTS), ("SAC", TWO)):
        flops = matrix_flops(work)
        print(f"  limit of {name}: {flops / 1e9:.2f} GFLOP at {speed / 1e9:.0f} GFLOP/s, ", end="")
        print(f"{flops / speed * 1e3:.1f} ms")
    peers = [key for key in times if SIDES[key].work == EQUAL and key not in OURS]
    for own in (key for key in ("compiled", "halved") if key in times):
        print(f"  {labels[own]}: {times[own] / limits[own]:.2f} x the limit", end="")
        print(" (aim 1.7)" if own == "compiled" else "")
        for halved in (False, True) if own == "halved" else (False,):
            among = [key for key in peers if key.endswith("halved") == halved]
            if among:
                fastest = min(among, key=lambda key: times[key])
                ratio = f"{times[fastest] / times[own]:.2f} x as fast"
                print(f"    {ratio} as {labels[fastest]} (aim 1.8)")


def concurrent_runs(options: argparse.Namespace) -> None:
    """Updates per second of several runs at once, all together."""
    print("REDQ, our layers, compiled: updates per second of all runs together")
    for runs, threads in ((1, options.threads), (1, 1), (2, 1), (2, options.threads), (3, 1)):
        started = [Worker("defaults", Path(sys.executable), threads) for _ in range(runs)]
        rates = []
        for _ in range(options.rounds):
            for worker in started:
                worker.ask(options.updates)
            rates.append(sum(1 / worker.answer()["seconds"] for worker in started))
        for worker in started:
            worker.close()
        print(f"  {runs} runs of {threads} threads{statistics.median(rates):10.1f}")


def ppo_steps_per_second(options: argparse.Namespace) -> None:
    keys = [key for key in SIDES if key.startswith("ppo")]
    with workers(keys, options.threads, None) as started:
        labels = {key: f"{SIDES[key].label} ({w.version})" for key, w in started.items()}
        seconds = in_turn(started, options.ppo_rounds, options.steps)
    rates = {key: 1 / statistics.median(values) for key, values in seconds.items()}
    print(f"PPO on {ENVIRONMENT}: median of {options.ppo_rounds} rounds of {options.steps:,} steps")
    for key, rate in rates.items():
        print(f"  {labels[key]:<36}{rate:10,.0f} steps/s")
    if len(rates) == 2:
        print(f"  ours / stock = {rates['ppo-ours'] / rates['ppo-sb3']:.2f}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--updates", type=int, default=50, help="per round")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--threads", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--steps", type=int, default=20_480, help="of PPO, per round")
    parser.add_argument("--ppo-rounds", type=int, default=3)
    parser.add_argument("--skip-peers", action="store_true", help="no Tianshou, no TorchRL")
    parser.add_argument("--sides", nargs="+", choices=SIDES, help="only updates, only of these")
    parser.add_argument(
        "--peers",
        type=Path,
        default=Path(tempfile.gettempdir()) / "tightrope-peers",
        help="folder of the virtual environment with Tianshou and TorchRL",
    )
    parser.add_argument("--measure", choices=SIDES, help="be one side; used by the script itself")
    options = parser.parse_args()
    if options.measure:
        serve(options.measure, options.threads)
        return
    updates(options)
    if options.sides:
        return
    concurrent_runs(options)
    ppo_steps_per_second(options)


if __name__ == "__main__":
    main()
