"""Which column is what: the grammar of the option, the usual names, and what is refused."""

import pytest

from tightrope.errors import InputError
from tightrope.rollouts.columns import ENDS, choose, parse

NAMES = (
    *("run", "t", "joint_b", "joint_a", "torque", "r", "fell", "cut", "won", "note"),
    *("next.joint_b", "camera"),
)
USUAL = ("episode", "reward", "obs_1", "observation.a", "other")
REST = "reward=r,episode=run,terminated=fell,truncated=cut"


def chosen(given, names=NAMES, **settings):
    """Columns by role, without roles that have none, and the images that are left out."""
    images = settings.pop("images", ("camera",))
    found, left_out = choose(names, given, images=images, **settings)
    return {role: columns for role, columns in found.items() if columns}, left_out


def refused(words, call, *args, **settings):
    with pytest.raises(InputError, match=words) as refusal:
        call(*args, **settings)
    assert "\n" not in str(refusal.value)


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("reward=r", {"reward": ("r",)}),
        ("obs=a,b,c,reward=r", {"obs": ("a", "b", "c"), "reward": ("r",)}),
        ("obs=a,reward=r,obs=b", {"obs": ("a", "b"), "reward": ("r",)}),
        (" obs = a , joint_* , reward = r ", {"obs": ("a", "joint_*"), "reward": ("r",)}),
        ("step=,done=over", {"step": (), "done": ("over",)}),
        ("", {}),
        (None, {}),
        ({"obs": ["a,b", "c=d"], "reward": "r"}, {"obs": ("a,b", "c=d"), "reward": ("r",)}),
        ({"step": None, "success": ()}, {"step": (), "success": ()}),
    ],
)
def test_an_option_names_columns_by_role(text, names):
    assert parse(text) == names


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ("joint_a", r"as ROLE=NAME,\.\.\. such as .*found 'joint_a'"),
        ("a,obs=b", "found 'a,obs=b'"),
        ("obs=a,,b", "found 'obs=a,,b'"),
        (",", "found ','"),
        ("rewrad=r", "roles among obs, reward, .* found 'rewrad'"),
        ("obs=a=b,c=d", "found 'c'"),
        ("=a", "found ''"),
        ({3: "red"}, "found 3"),
        ({"obs": [1, 2]}, r"names of columns for obs .* found \(1, 2\)"),
        ({"obs": 3}, "names of columns for obs .* found"),
        ({"obs": ""}, "names of columns for obs .* found"),
        (["obs=a"], "or a dictionary, found"),
    ],
)
def test_an_option_of_another_form_is_one_line(given, words):
    refused(words, parse, given)


@pytest.mark.parametrize(
    ("given", "obs"),
    [
        ("obs=torque,joint_*", ("torque", "joint_b", "joint_a")),  # in the order of the table
        ("obs=joint_a,joint_*", ("joint_a", "joint_b")),  # each once
        ("obs=joint_?,*.joint_b", ("joint_b", "joint_a", "next.joint_b")),
        ("obs=joint_[a]", ("joint_a",)),
        ("obs=*a*,t", ("joint_a", "t")),  # a pattern passes over other roles, a name does not
    ],
)
def test_names_and_patterns_of_columns(given, obs):
    found, _ = chosen(f"{given},{REST},step=t,success=won", names=NAMES[:-1])
    assert found["obs"] == obs


def test_a_name_goes_before_a_pattern_of_the_same_letters():
    names = ("obs[0]", "obs0", "reward", "episode", "done")
    assert chosen("obs=obs[0]", names)[0]["obs"] == ("obs[0]",)


ENDINGS = [  # more columns, the option, and what says how an episode ends
    (["terminated", "truncated"], "", {"terminated": "terminated", "truncated": "truncated"}),
    (["terminals", "timeouts"], "", {"terminated": "terminals", "truncated": "timeouts"}),
    (["terminated", "truncated", "done"], "", dict(zip(ENDS, ENDS[:2], strict=False))),
    (["done"], "", {"done": "done"}),
    (["next.done", "next.truncated"], "", {"done": "next.done", "truncated": "next.truncated"}),
    (["done", "terminated"], "", {"done": "done", "terminated": "terminated"}),
    (["terminated", "truncated", "over"], "done=over", {"done": "over"}),
    (["terminated", "truncated", "done"], "done=", {}),
    (["truncated", "done", "over"], "terminated=over", {"terminated": "over"}),
]


@pytest.mark.parametrize(("more", "given", "ends"), ENDINGS)
def test_how_episodes_end_goes_by_usual_names_unless_the_user_says_all_of_it(more, given, ends):
    found, _ = chosen(given, (*USUAL, *more))
    assert {role: found[role][0] for role in ENDS if role in found} == ends
    assert (found["episode"], found["reward"]) == (("episode",), ("reward",))
    assert found["obs"] == ("obs_1", "observation.a")


def test_an_option_for_one_role_leaves_the_others_to_their_usual_names():
    names = (*USUAL, "done", "success", "frame_index", "action")
    assert chosen(None, names)[0].keys() == {"obs", "reward", "episode", "step", "done", "success"}
    found, _ = chosen("reward=other,success=,step=,action=action", names)
    assert found["reward"] == ("other",)
    assert found.keys() == {"obs", "reward", "episode", "done", "action"}


def test_images_are_passed_over_only_if_nobody_named_the_observation():
    names = ("episode", "reward", "done", "obs.state", "obs.front", "obs.top")
    images = ("obs.front", "obs.top")
    found, left_out = chosen(None, names, images=images)
    assert (found["obs"], left_out) == (("obs.state",), images)
    assert chosen("obs=obs.state", names, images=images)[1] == ()
    for given in ("obs=obs.front", "obs=obs.*", "obs=obs.state,obs.top"):
        words = r"found images \(obs\.(front|top).*obs=NAME"
        refused(words, chosen, given, names, images=images)
    words = r"images \(obs.front, obs.top\).*robot's state or features"
    refused(words, chosen, None, (*names[:3], *images), images=images)


GOOD = {"obs": "torque", "reward": "r", "episode": "run", "terminated": "fell", "truncated": "cut"}
BAD = {
    "no such column": ({"obs": "jiont_*"}, "a column jiont_. for obs, found run, t"),
    "two rewards": ({"reward": "joint_*"}, "one column for reward .* found joint_b, joint_a"),
    "an image": ({"obs": "camera"}, r"images \(camera\): name columns of numbers"),
    "an image for a reward": ({"reward": "camera"}, r"numbers for reward, found images \(camera"),
}


@pytest.mark.parametrize(("changes", "words"), BAD.values(), ids=BAD)
def test_a_column_that_cannot_be_meant_is_one_line(changes, words):
    refused(words, chosen, {**GOOD, **changes})


def test_a_log_without_rewards_is_answered_with_what_can_serve_as_one():
    names = ("episode_index", "observation.state", "next.done")
    refused(r"`columns` reward=NAME$", chosen, None, names)
    words = r"or reward=next\.success if success is all that counts"
    refused(words, chosen, None, (*names, "next.success"))
    refused("one column of each name, found obs_1 twice", chosen, None, (*USUAL, "obs_1", "done"))
