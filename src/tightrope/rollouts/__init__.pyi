from .collecting import (
    CollectionError as CollectionError,
    Rollout as Rollout,
    collect as collect,
    episode_seeds as episode_seeds,
)
from .columns import Columns as Columns
from .episodes import (
    GAMMA as GAMMA,
    Episode as Episode,
    Episodes as Episodes,
    Pairs as Pairs,
    discounted_returns as discounted_returns,
    first_visits as first_visits,
    join as join,
    pairs as pairs,
)
from .io import (
    RECORDINGS as RECORDINGS,
    PolicySource as PolicySource,
    check_destination as check_destination,
    is_recording as is_recording,
    load as load,
    load_episodes as load_episodes,
    policy_source as policy_source,
    save as save,
    write_episodes as write_episodes,
)
from .logs import export_arrays as export_arrays
