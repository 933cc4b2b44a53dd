"""Step ii: episodes of a frozen policy, from roll-outs or logs, and their returns."""

from tightrope.rollouts.arrays import export_arrays
from tightrope.rollouts.collect import CollectionError, Rollout, collect, episode_seeds
from tightrope.rollouts.episodes import Episode, Episodes, join
from tightrope.rollouts.io import (
    RECORDINGS,
    PolicySource,
    check_destination,
    is_recording,
    load,
    load_episodes,
    policy_source,
    save,
    write_episodes,
)
from tightrope.rollouts.returns import GAMMA, Pairs, discounted_returns, first_visits, pairs
from tightrope.rollouts.roles import Columns

__all__ = [
    "GAMMA",
    "RECORDINGS",
    "CollectionError",
    "Columns",
    "Episode",
    "Episodes",
    "Pairs",
    "PolicySource",
    "Rollout",
    "check_destination",
    "collect",
    "discounted_returns",
    "episode_seeds",
    "export_arrays",
    "first_visits",
    "is_recording",
    "join",
    "load",
    "load_episodes",
    "pairs",
    "policy_source",
    "save",
    "write_episodes",
]
