"""Which column is what: the grammar of the option, the usual names, and what is refused."""

import pytest

from tightrope.errors import InputError
from tightrope.rollouts.roles import ROLES, choose, parse

NAMES = (
    *("run", "t", "joint_b", "joint_a", "torque", "r", "fell", "cut", "won", "note"),
    *("next.joint_b", "camera"),
)
ENDS = "terminated=fell,truncated=cut"


def chosen(given, names=NAMES, **settings):
    return choose(names, given, where="the table", images=("camera",), **settings)


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("reward=r", {"reward": ("r",)}),
        ("obs=a,b,c,reward=r", {"obs": ("a", "b", "c"), "reward": ("r",)}),
        ("obs=a,reward=r,obs=b", {"obs": ("a", "b"), "reward": ("r",)}),
        (" obs = a , joint_* , reward = r ", {"obs": ("a", "joint_*"), "reward": ("r",)}),
        ("step=,done=over", {"step": (), "done": ("over",)}),
        ("obs=a b", {"obs": ("a b",)}),
        ("", {}),
        (None, {}),
        ({}, {}),
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
        ("obs=a,", "found 'obs=a,'"),
        (",", "found ','"),
        ("rewrad=r", "roles among obs, reward, .* found 'rewrad'"),
        ("obs=a=b,c=d", "found 'c'"),
        ("=a", "found ''"),
        ({"colour": "red"}, "found 'colour'"),
        ({3: "red"}, "found 3"),
        ({"obs": [1, 2]}, r"names of columns for obs .* found \[1, 2\]"),
        ({"obs": ""}, "names of columns for obs .* found ''"),
        (["obs=a"], "or a dictionary, found list"),
        (3, "or a dictionary, found int"),
    ],
)
def test_an_option_of_another_form_is_one_line(given, words):
    with pytest.raises(InputError, match=words) as refusal:
        parse(given)
    assert "\n" not in str(refusal.value)


def test_names_are_taken_in_the_order_given_and_patterns_in_that_of_the_table():
    rest = f"reward=r,episode=run,{ENDS}"
    assert chosen(f"obs=torque,joint_*,{rest}").obs == ("torque", "joint_b", "joint_a")
    assert chosen(f"obs=joint_a,joint_*,{rest}").obs == ("joint_a", "joint_b")
    assert chosen(f"obs=joint_?,*.joint_b,{rest}").obs == ("joint_b", "joint_a", "next.joint_b")
    assert chosen(f"obs=joint_[a],{rest}").obs == ("joint_a",)


def test_a_name_goes_before_a_pattern_of_the_same_letters():
    names = ("obs[0]", "obs0", "reward", "episode", "done")
    assert choose(names, "obs=obs[0]", where="the table").obs == ("obs[0]",)


def test_a_pattern_passes_over_columns_of_other_roles_and_a_name_does_not():
    given = f"reward=r,episode=run,step=t,success=won,{ENDS}"
    found = choose(NAMES[:-1], f"obs=*,{given}", where="the table")
    assert found.obs == ("joint_b", "joint_a", "torque", "note", "next.joint_b")
    found = chosen(f"obs=t,torque,action=joint_*,{given}")
    assert (found.obs, found.action) == (("t", "torque"), ("joint_b", "joint_a"))
    assert found.to_json() == {
        "obs": ["t", "torque"],
        "reward": "r",
        "episode": "run",
        "step": "t",
        "terminated": "fell",
        "truncated": "cut",
        "success": "won",
        "action": ["joint_b", "joint_a"],
    }
    assert sorted(found.names) == sorted(
        ["t", "torque", "joint_b", "joint_a", "r", "run", "fell", "cut", "won"]
    )


USUAL = ("episode", "reward", "obs_1", "observation.a", "other")


@pytest.mark.parametrize(
    ("more", "roles"),
    [
        (["terminated", "truncated"], {"terminated": "terminated", "truncated": "truncated"}),
        (["terminals", "timeouts"], {"terminated": "terminals", "truncated": "timeouts"}),
        (["terminated", "timeouts"], {"terminated": "terminated", "truncated": "timeouts"}),
        (["terminated", "truncated", "done"], {"done": None, "terminated": "terminated"}),
        (["done"], {"done": "done", "terminated": None, "truncated": None}),
        (["next.done", "next.truncated"], {"done": "next.done", "truncated": "next.truncated"}),
        (["done", "terminated"], {"done": "done", "terminated": "terminated"}),
        (["done", "step", "success"], {"step": "step", "success": "success"}),
        (["done", "frame_index", "next.success"], {"step": "frame_index"}),
        (["done", "action"], {"action": (), "step": None, "success": None}),
    ],
)
def test_without_an_option_columns_go_by_their_usual_names(more, roles):
    found = choose((*USUAL, *more), None, where="the table")
    assert (found.episode, found.reward) == ("episode", "reward")
    assert found.obs == ("obs_1", "observation.a")
    assert {role: getattr(found, role) for role in roles} == roles


def test_an_option_for_one_role_leaves_the_others_to_their_usual_names():
    names = (*USUAL, "done", "success", "step")
    found = choose(names, "reward=other,success=,step=", where="the table")
    assert (found.reward, found.episode, found.done) == ("other", "episode", "done")
    assert (found.success, found.step) == (None, None)
    assert choose(names, {"reward": "obs_1"}, where="the table").obs == ("observation.a",)


def test_a_user_who_says_how_episodes_end_says_all_of_it():
    names = (*USUAL, "terminated", "truncated", "done", "over")
    found = choose(names, "done=over", where="the table")
    assert (found.done, found.terminated, found.truncated) == ("over", None, None)
    found = choose(names, "done=", where="the table")
    assert (found.done, found.terminated, found.truncated) == (None, None, None)
    found = choose(names, "terminated=over", where="the table")
    assert (found.done, found.terminated, found.truncated) == (None, "over", None)
    with pytest.raises(InputError, match="at most two of terminated, truncated and done"):
        choose(names, "terminated=over,truncated=truncated,done=done", where="the table")


def test_images_are_passed_over_only_if_nobody_named_the_observation():
    names = ("episode", "reward", "done", "obs.state", "obs.front", "obs.top")
    images = ("obs.front", "obs.top")
    found = choose(names, None, where="the table", images=images)
    assert (found.obs, found.left_out) == (("obs.state",), images)
    found = choose(names, "obs=obs.state", where="the table", images=images)
    assert (found.obs, found.left_out) == (("obs.state",), ())
    for given in ("obs=obs.front", "obs=obs.*", "obs=obs.state,obs.top"):
        with pytest.raises(InputError, match=r"found images \(obs\.(front|top).*obs=NAME"):
            choose(names, given, where="the table", images=images)


GOOD = {"obs": "torque", "reward": "r", "episode": "run", "terminated": "fell", "truncated": "cut"}
BAD = {
    "no such column": ({"obs": "jiont_*"}, "a column jiont_. for obs in the table, found run, t"),
    "no such reward": ({"reward": "x"}, "a column x for reward"),
    "two rewards": ({"reward": "joint_*"}, "one column for reward .* found joint_b, joint_a"),
    "no reward on purpose": ({"reward": None}, "one column for reward .* found no columns"),
    "no episode on purpose": ({"episode": None}, "one column for episode .* found no columns"),
    "no observation on purpose": ({"obs": None}, "names of columns for obs"),
    "an image": ({"obs": "camera"}, r"images \(camera\) in the table: name numeric"),
    "an image for a reward": ({"reward": "camera"}, "numbers in the column camera, found images"),
    "an image for an action": ({"action": "camera"}, r"numbers for action, found images \(camera"),
}


@pytest.mark.parametrize(("changes", "words"), BAD.values(), ids=BAD)
def test_a_column_that_cannot_be_meant_is_one_line(changes, words):
    with pytest.raises(InputError, match=words) as refusal:
        chosen({**GOOD, **changes})
    assert "\n" not in str(refusal.value)


def test_only_images_are_refused_with_what_to_do():
    names = ("episode", "reward", "done", "observation.image")
    with pytest.raises(
        InputError, match=r"images \(observation.image\).*robot's state or features"
    ):
        choose(names, None, where="the table", images=names[-1:])


def test_a_log_without_rewards_is_answered_with_what_can_serve_as_one():
    names = ("episode_index", "observation.state", "next.done")
    with pytest.raises(InputError, match=r"`columns` reward=NAME$"):
        choose(names, None, where="the table")
    with pytest.raises(InputError, match=r"or reward=next\.success if success is all that counts"):
        choose((*names, "next.success"), None, where="the table")


def test_one_name_twice_is_refused():
    with pytest.raises(InputError, match="one column of each name, found obs_1 twice"):
        choose((*USUAL, "obs_1", "done"), None, where="the table")


def test_every_role_can_be_given():
    given = {role: "x" for role in ROLES if role not in ("truncated", "done")}
    found = choose(("x",), given, where="the table")
    assert found.names == ("x",)
