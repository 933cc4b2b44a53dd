"""Step ii: episodes of a frozen policy, from roll-outs or logs, and their returns."""

from tightrope.rollouts.collect import CollectionError, Rollout, collect, episode_seeds
from tightrope.rollouts.episodes import Episode, Episodes, join
from tightrope.rollouts.logs import (
    export_arrays,
    export_minari,
    import_arrays,
    import_frame,
    import_lerobot,
    import_minari,
    import_table,
)
from tightrope.rollouts.returns import GAMMA, Pairs, discounted_returns, first_visits, pairs
from tightrope.rollouts.sources import (
    PolicySource,
    check_destination,
    is_recording,
    load_episodes,
    policy_source,
    write_episodes,
)
from tightrope.rollouts.storage import load, save

__all__ = [
    "GAMMA",
    "CollectionError",
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
    "export_minari",
    "first_visits",
    "import_arrays",
    "import_frame",
    "import_lerobot",
    "import_minari",
    "import_table",
    "is_recording",
    "join",
    "load",
    "load_episodes",
    "pairs",
    "policy_source",
    "save",
    "write_episodes",
]
