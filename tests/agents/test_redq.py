"""REDQ's update against plain computations."""

import contextlib
import copy
import itertools
import math
import warnings
from collections import Counter

import gymnasium as gym
import numpy as np
import pytest
import torch
from scipy.stats import chisquare
from stable_baselines3 import SAC
from stable_baselines3.common.logger import Logger
from stable_baselines3.common.type_aliases import ReplayBufferSamples

from tightrope.agents import REDQ, SACPolicy
from tightrope.agents.redq import draw_members, squashed_sample


def model(**kwargs):
    env = gym.make("Pendulum-v1")
    defaults = {"critics": 4, "policy_kwargs": {"net_arch": [16, 16]}, "batch_size": 8, "seed": 0}
    made = REDQ(SACPolicy, env, **{**defaults, **kwargs})
    made.set_logger(Logger(None, []))
    return made


def fill(made, *, done=0.0, timeout=False, count=32):
    rng = np.random.default_rng(0)
    for _ in range(count):
        first, second = rng.normal(size=(2, 1, 3)).astype(np.float32)
        infos = [{"TimeLimit.truncated": timeout}]
        action = rng.uniform(-1, 1, (1, 1)).astype(np.float32)
        reward, ended = rng.normal(size=1), np.array([done])
        made.replay_buffer.add(first, second, action, reward, ended, infos)
    return made


def inputs(size=6):
    """A batch as the buffer gives it, and what an update draws for it."""
    generator = torch.Generator().manual_seed(3)

    def draw(*shape):
        return torch.randn(*shape, generator=generator)

    batch = ReplayBufferSamples(
        observations=draw(size, 3),
        actions=draw(size, 1).tanh(),
        next_observations=draw(size, 3),
        dones=torch.zeros(size, 1),
        rewards=5 * draw(size, 1),
    )
    return batch, draw(size, 1), torch.tensor([0.3])


def test_subsets_are_drawn_without_replacement_and_uniformly():
    torch.manual_seed(0)
    draws = Counter(tuple(sorted(draw_members(5, 2).tolist())) for _ in range(5000))
    subsets = list(itertools.combinations(range(5), 2))
    assert set(draws) == set(subsets)
    assert chisquare([draws[subset] for subset in subsets]).pvalue > 1e-4
    firsts = Counter(int(draw_members(5, 2)[0]) for _ in range(5000))
    assert chisquare(list(firsts.values())).pvalue > 1e-4


def test_log_densities_are_those_of_a_squashed_normal():
    """Against torch.distributions' transformed normal."""
    made = model()
    observations, noise = torch.randn(9, 3), torch.randn(9, 1)
    actions, log_prob = squashed_sample(made.actor, observations, noise)
    mean, log_deviation, _ = made.actor.get_action_dist_params(observations)
    normal = torch.distributions.Normal(mean.double(), log_deviation.double().exp())
    squashed = torch.distributions.TransformedDistribution(
        normal, torch.distributions.TanhTransform(cache_size=1)
    )
    raw = mean.double() + log_deviation.double().exp() * noise
    expected = squashed.log_prob(squashed.transforms[0](raw)).sum(dim=1)
    torch.testing.assert_close(log_prob.double(), expected, atol=1e-4, rtol=1e-4)
    torch.testing.assert_close(actions.double(), raw.tanh(), atol=1e-6, rtol=1e-6)
    with torch.no_grad():
        made.actor.mu.bias.fill_(50.0)  # saturated
    assert squashed_sample(made.actor, observations, noise)[1].isfinite().all()


def test_the_critic_loss_is_to_the_smaller_of_the_drawn_targets():
    """Huber's, by a loop; without a threshold it is that of SAC, below."""
    made = model(huber=1.0)
    with torch.no_grad():  # targets that differ from the critics
        for parameter in made.critic_target.parameters():
            parameter.add_(0.2 * torch.randn_like(parameter))
    batch, noise, temperature = inputs()
    drawn, discounts = torch.tensor([3, 1]), torch.full((6,), 0.99)
    loss = made.critic_loss(batch, discounts, noise, drawn, temperature)
    with torch.no_grad():
        actions, log_prob = squashed_sample(made.actor, batch.next_observations, noise)
        targets = made.critic_target.values(batch.next_observations, actions)
        values = made.critic.values(batch.observations, batch.actions)
    expected = 0.0
    for row in range(6):
        lowest = min(float(targets[3, row]), float(targets[1, row]))
        goal = float(batch.rewards[row]) + 0.99 * (lowest - 0.3 * float(log_prob[row]))
        for member in range(4):
            error = abs(float(values[member, row]) - goal)
            expected += (0.5 * error**2 if error <= 1.0 else error - 0.5) / 6
    assert loss.item() == pytest.approx(expected, rel=1e-5)
    assert all(p.grad is None for p in made.actor.parameters())


@pytest.mark.parametrize(
    ("climbs", "members", "reduce"),
    [("mean", None, np.mean), ("minimum", [2, 0], np.min)],
)
def test_the_actor_climbs_the_mean_of_all_critics_or_the_minimum_of_the_drawn(
    climbs, members, reduce
):
    made, (batch, noise, temperature) = model(actor_climbs=climbs), inputs()
    drawn = None if members is None else torch.tensor(members)
    loss, log_prob = made.actor_loss(batch, noise, drawn, temperature)
    actions, _ = squashed_sample(made.actor, batch.observations, noise)
    values = made.critic.values(batch.observations, actions).detach()
    expected = [
        0.3 * float(log_prob[row]) - reduce([float(values[m, row]) for m in members or range(4)])
        for row in range(6)
    ]
    assert loss.item() == pytest.approx(np.mean(expected), rel=1e-5)


def spied(made, name):
    """The arguments of every call of a loss of this agent."""
    seen, plain = [], getattr(made, name)
    setattr(made, name, lambda *given: (seen.append(given), plain(*given))[1])
    return seen


@pytest.mark.parametrize(("climbs", "drawn"), [("mean", None), ("minimum", 2)])
def test_an_update_draws_the_actors_critics_anew(climbs, drawn):
    made = fill(model(actor_climbs=climbs, critics=10))
    targets, climbed = spied(made, "critic_loss"), spied(made, "actor_loss")
    made.train(20, batch_size=8)
    members = [given[3].tolist() for given in targets]
    others = [None if given[2] is None else given[2].tolist() for given in climbed]
    assert {len(each) for each in members} == {2}
    assert {None if each is None else len(each) for each in others} == {drawn}
    assert members != others


@pytest.mark.parametrize(
    ("done", "timeout", "discount"), [(0.0, False, 0.99), (1.0, True, 0.99), (1.0, False, 0.0)]
)
def test_targets_bootstrap_through_truncation_but_not_through_termination(done, timeout, discount):
    made = fill(model(), done=done, timeout=timeout)
    seen = spied(made, "critic_loss")
    made.train(1, batch_size=8)
    torch.testing.assert_close(seen[0][1], torch.full((8,), discount))


def test_the_target_entropy_and_a_fixed_temperature():
    assert model().target_entropy == -1.0  # minus the number of actions
    assert REDQ(SACPolicy, gym.make("Hopper-v5"), buffer_size=10).target_entropy == -3.0
    made = fill(model(ent_coef=0.2))
    made.train(2, batch_size=8)
    assert made.log_ent_coef is None
    assert float(made.ent_coef_tensor) == pytest.approx(0.2)


def test_arguments_outside_their_sets_are_refused():
    for wrong, words in (
        ({"critics": 4, "subset": 5}, "1 <= subset <= critics"),
        ({"critics": 4, "subset": 0}, "1 <= subset <= critics"),
        ({"actor_climbs": "median"}, "expected actor_climbs minimum or mean, found 'median'"),
        ({"policy_kwargs": {"optimizer_class": torch.optim.AdamW}}, r"expected torch\.optim\.Adam"),
    ):
        with pytest.raises(ValueError, match=words):
            model(**wrong)


def test_sac_is_the_case_of_two_critics_squared_loss_and_their_minimum():
    """One update against SB3's own SAC, with the same weights, batch and noise.

    SB3 updates the temperature first, so it is fixed here.
    """
    given = {"critics": 2, "subset": 2, "huber": math.inf, "ent_coef": 0.2, "learning_rate": 1e-2}
    ours = fill(model(**given))
    stock = SAC(
        SACPolicy,
        gym.make("Pendulum-v1"),
        policy_kwargs={"net_arch": [16, 16]},
        ent_coef=0.2,
        learning_rate=1e-2,
    )
    stock.set_parameters(ours.get_parameters())
    stock.set_logger(Logger(None, []))
    stock.replay_buffer = ours.replay_buffer
    noise = torch.randn(2, 8, 1)
    queue = [noise[1], noise[0]]  # SB3 draws for the actor first

    class Distribution:
        @staticmethod
        def log_prob(observations):
            return squashed_sample(stock.actor, observations, queue.pop(0))

    stock.actor.action_log_prob = Distribution.log_prob
    original = torch.randn
    for agent in (ours, stock):
        np.random.seed(1)  # noqa: NPY002  # SB3's buffer draws from it
        torch.randn = lambda *_, **__: noise
        try:
            agent.train(1, batch_size=8)
        finally:
            torch.randn = original
    for name in ("critic", "actor", "critic_target"):
        mine, theirs = (getattr(agent, name).state_dict() for agent in (ours, stock))
        for key, value in mine.items():
            torch.testing.assert_close(value, theirs[key], atol=2e-5, rtol=1e-4)


def test_the_temperature_has_the_gradient_of_its_loss():
    """Where log-densities decide: against autograd; Adam keeps a tenth of its first gradient."""
    made = fill(model(target_entropy=-1.3))
    seen, plain = [], made.actor_loss
    made.actor_loss = lambda *given: (seen.append(plain(*given)), seen[-1])[1]
    before = made.log_ent_coef.detach().clone().requires_grad_()
    made.train(1, batch_size=8)
    (-before * (seen[0][1] - 1.3)).mean().backward()
    kept = made.ent_coef_optimizer.state[made.log_ent_coef]["exp_avg"]
    torch.testing.assert_close(kept, 0.1 * before.grad)


def test_a_schedule_of_the_learning_rate_is_followed():
    """Adam's first step is the rate of that update, against the sign of the gradient."""
    for target in (-100.0, 100.0):  # entropy far above, and far below, its target
        rates = [0.01]
        made = fill(model(learning_rate=lambda _, now=rates: now[-1], target_entropy=target))
        rates.append(0.02)
        made.train(1, batch_size=8)
        assert made.log_ent_coef.item() == pytest.approx(math.copysign(0.02, target), rel=1e-4)


def test_a_saved_agent_loads_acts_the_same_and_keeps_its_scaling(tmp_path):
    made = fill(model(policy_kwargs={"net_arch": [16, 16], "scaled": True}))
    made.train(2, batch_size=8)
    made.save(tmp_path / "redq.zip")
    again = REDQ.load(tmp_path / "redq.zip", env=gym.make("Pendulum-v1"))
    assert (again.critics, again.subset) == (4, 2)
    rows = np.random.default_rng(0).normal(size=(5, 3)).astype(np.float32)
    acts = [each.predict(rows, deterministic=True)[0] for each in (made, again)]
    np.testing.assert_array_equal(*acts)
    mean = made.actor.features_extractor.mean
    assert mean.abs().max() > 0
    again.set_logger(Logger(None, []))
    fill(again, count=64).train(1, batch_size=8)
    for network in (again.actor, again.policy.average, again.critic, again.critic_target):
        assert torch.equal(network.features_extractor.mean, mean)


def test_a_saved_policy_has_the_layers_it_was_built_with(tmp_path):
    """By itself, as SB3's policies are saved, without the agent."""
    kwargs = {"net_arch": [16, 16], "critic_norm": True, "learned_norm": True, "halved": True}
    made = model(policy_kwargs=kwargs).policy
    made.save(tmp_path / "policy.pth")
    again = SACPolicy.load(tmp_path / "policy.pth")
    assert again.state_dict().keys() == made.state_dict().keys()
    assert [getattr(layer, "halved", None) for layer in again.critic.layers] == [
        *(True, None, True, None),
        False,
    ]
    with again.averaged():
        pass


@contextlib.contextmanager
def the_compiler():
    """Runs the real one where there is one; the fallback would only warn."""
    torch._dynamo.reset()
    torch._dynamo.utils.counters.clear()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        yield
    said = [str(warning.message) for warning in caught]
    failed = [line for line in said if "torch.compile failed" in line]
    if failed:
        pytest.skip(f"no C++ compiler here: {failed}")


def graphs():
    return torch._dynamo.utils.counters["stats"]["unique_graphs"]


def moves(made, count):
    """What each weight and each number that Adam keeps changes by."""

    def values():
        kept = made.critic.optimizer.state_dict()["state"] | {
            -1 - index: values
            for index, values in made.actor.optimizer.state_dict()["state"].items()
        }
        numbers = [value for values in kept.values() for value in values.values()]
        return [value.detach().clone() for value in (*made.policy.parameters(), *numbers)]

    torch.manual_seed(1)
    np.random.seed(1)  # noqa: NPY002  # SB3's buffer draws from it
    before = values()
    made.train(count, batch_size=8)
    return [new - old for new, old in zip(values(), before, strict=True)]


@pytest.mark.parametrize(
    ("layers", "share"),
    [
        ({"scaled": True, "optimizer_kwargs": {"betas": (0.5, 0.9), "eps": 1e-3}}, 1e-3),
        ({"critic_norm": True, "learned_norm": True}, 1e-3),
        # a sum at the edge between two bfloat16 numbers may go to either: all weights as one, since
        # it may turn the sign of a single gradient, and with it a whole step of Adam's
        ({"halved": True}, 0.1),
    ],
)
def test_the_compiled_update_is_the_plain_one_in_one_graph(layers, share):
    """Of a copy too, which leaves the networks of the other alone."""
    networks = {"policy_kwargs": {"net_arch": [16, 16], **layers}}
    made = fill(model(compile=True, **networks))
    before = [weight.clone() for weight in made.policy.parameters()]
    with the_compiler():
        ours = moves(copy.deepcopy(made), 2)
    assert all(map(torch.equal, before, made.policy.parameters()))
    theirs = moves(fill(model(**networks)), 2)
    assert graphs() == 1
    assert sum(bool(each.any()) for each in theirs) > 60
    if "halved" in layers:
        ours, theirs = ([torch.cat([each.flatten() for each in way])] for way in (ours, theirs))
    for found, expected in zip(ours, theirs, strict=True):
        rounding = 1e-5 * math.sqrt(expected.numel())
        assert (found - expected).norm() <= share * expected.norm() + rounding


def test_numbers_that_change_are_not_compiled_anew_and_the_rate_may_be_zero():
    """Also with a mean square of zero, where torch would divide zero by zero."""
    rates = [3e-4]
    made = fill(model(compile=True, learning_rate=lambda _: rates[-1]))
    with the_compiler():
        for rate, tau, entropy in ((1e-4, 0.005, -1.0), (2e-4, 0.1, -2.0), (0.0, 0.2, -3.0)):
            rates.append(rate)
            made.tau, made.target_entropy, made.gamma = tau, entropy, 1 - tau
            for kept in made.actor.optimizer.state.values():
                kept["exp_avg"].zero_(), kept["exp_avg_sq"].zero_()
            made.replay_buffer.observations[:, :, 0] = 0  # the gradient of its weights is zero
            moved = moves(made, 1)
    assert graphs() == 1
    assert all(each.isfinite().all() for each in moved)
    weights = [*made.critic.parameters(), *made.actor.parameters()]
    assert all(weight.isfinite().all() for weight in weights)


@pytest.mark.parametrize("error", [RuntimeError, torch._dynamo.exc.FailOnRecompileLimitHit])
def test_without_a_compiler_the_update_goes_on(error, monkeypatch):
    def broken(function, **_):
        def call(*args, **kwargs):
            raise error("no C++ compiler")

        return call

    monkeypatch.setattr(torch, "compile", broken)
    with pytest.warns(UserWarning, match=r"torch\.compile failed, going on without it"):
        ours = moves(fill(model(compile=True)), 2)
    for found, expected in zip(ours, moves(fill(model()), 2), strict=True):
        assert torch.equal(found, expected)


def test_what_fails_in_a_graph_that_has_run_is_not_run_again(monkeypatch):
    """It may have changed weights already."""
    calls = []

    def failing(function, **_):
        def call(*args, **kwargs):
            calls.append(None)
            if len(calls) == 3:
                raise RuntimeError("out of memory")
            return function(*args, **kwargs)

        return call

    monkeypatch.setattr(torch, "compile", failing)
    made = fill(model(compile=True))
    with pytest.raises(RuntimeError, match="out of memory"):
        made.train(4, batch_size=8)
    steps = {int(kept["step"]) for kept in made.critic.optimizer.state.values()}
    assert steps == {2}
