"""Episodes in a file: what is written is what is read, and damage never passes for data."""

import dataclasses
import json
import os

import numpy as np
import pytest
from tables import filled

from tightrope.errors import InputError
from tightrope.files import sha256
from tightrope.rollouts import Episodes, load, save

SUBJECT = {"environment": {"id": "Hopper-v4"}, "policy": {"name": "p", "digest": None}, "seed": 0}


def episodes(**changes):
    return filled(subject=SUBJECT, **changes)


def assert_equal(found, expected):
    for field in dataclasses.fields(Episodes):
        one, other = getattr(found, field.name), getattr(expected, field.name)
        if field.name == "properties":
            assert {k: v.tolist() for k, v in one.items()} == {
                k: v.tolist() for k, v in other.items()
            }
        elif isinstance(other, np.ndarray):
            assert one.dtype == other.dtype, field.name
            np.testing.assert_array_equal(one, other)
        else:
            assert one == other, field.name


@pytest.fixture
def stored(tmp_path):
    save(episodes(), tmp_path / "episodes.safetensors")
    return tmp_path / "episodes.safetensors"


# --- round trips ------------------------------------------------------------------------------


def test_actions_of_every_type_and_shape_missing_fields_and_spans_survive(tmp_path):
    """Also of the other byte order, as numbers: HDF5 files from other machines hold them."""
    kinds = ("i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8", "f2", "f4", "f8")
    bare = dataclasses.replace(episodes(), actions=None, final_observations=None, success=None)
    originals = [
        *(episodes(actions=np.dtype(kind)) for kind in kinds),
        *(
            dataclasses.replace(episodes(), actions=np.arange(np.prod(shape)).reshape(shape))
            for shape in ((8,), (8, 3), (8, 2, 2))
        ),
        *(bare, episodes().span(1, 3)),
        dataclasses.replace(episodes(), properties={"peak torque": np.arange(3.0)}),
    ]
    for number, original in enumerate(originals):
        save(original, tmp_path / f"{number}.safetensors")
        assert_equal(load(tmp_path / f"{number}.safetensors"), original)
    swapped = episodes().actions.astype(np.dtype(np.float32).newbyteorder())
    save(dataclasses.replace(episodes(), actions=swapped), tmp_path / "swapped.safetensors")
    found = load(tmp_path / "swapped.safetensors")
    np.testing.assert_array_equal(found.actions, episodes().actions)


def test_equal_episodes_give_equal_bytes_and_others_do_not(tmp_path):
    paths = [tmp_path / f"{index}.safetensors" for index in range(4)]
    save(episodes(), paths[0])
    save(episodes(), paths[1])
    save(episodes(seed=1), paths[2])
    save(dataclasses.replace(episodes(), subject={**SUBJECT, "seed": 1}), paths[3])
    assert paths[0].read_bytes() == paths[1].read_bytes()
    assert len({path.read_bytes() for path in paths}) == 3
    assert sha256(paths[0]) == sha256(paths[1]) != sha256(paths[2])
    backwards = dataclasses.replace(load(paths[0]), subject=dict(reversed(SUBJECT.items())))
    save(backwards, tmp_path / "backwards.safetensors")
    assert (tmp_path / "backwards.safetensors").read_bytes() == paths[0].read_bytes()


def test_nothing_is_overwritten_and_nothing_half_written(stored):
    before = stored.read_bytes()
    with pytest.raises(InputError, match="already there: choose another"):
        save(episodes(seed=1), stored)
    unwritable = dataclasses.replace(episodes(), subject={"policy": object()})
    with pytest.raises((InputError, TypeError)):
        save(unwritable, stored.with_name("new.safetensors"))
    assert stored.read_bytes() == before
    assert os.listdir(stored.parent) == [stored.name]


# --- damage -----------------------------------------------------------------------------------


def test_a_bit_flipped_in_the_header_never_passes_for_other_data(stored):
    """One bit of every byte: refused, or a word of the subject; the arrays stay what they are."""
    content, original, rng = stored.read_bytes(), load(stored), np.random.default_rng(0)
    size = int.from_bytes(content[:8], "little")
    wrong = []
    for place in range(8 + size):
        damaged = bytearray(content)
        damaged[place] ^= 1 << rng.integers(8)
        stored.write_bytes(damaged)
        try:
            found = load(stored)
        except InputError as refusal:
            assert "\n" not in str(refusal)  # noqa: PT017
            continue
        same = [
            np.array_equal(getattr(found, name), array)
            for name, array in vars(original).items()
            if name != "subject"
        ]
        if not all(same):
            wrong.append(bytes(damaged[max(0, place - 10) : place + 10]))
    assert not wrong


def rewrite(path, change):
    """Change the header, a JSON object, and write it back with the data."""
    content = path.read_bytes()
    size = int.from_bytes(content[:8], "little")
    header = json.loads(content[8 : 8 + size])
    header = change(header) or header
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    path.write_bytes(len(text).to_bytes(8, "little") + text + content[8 + size :])


def about(**changes):
    def change(header):
        found = json.loads(header["__metadata__"]["tightrope"])
        header["__metadata__"]["tightrope"] = json.dumps({**found, **changes})

    return change


FORGED = {
    "no metadata": lambda h: {n: v for n, v in h.items() if n != "__metadata__"},
    "metadata that is no JSON": lambda h: h["__metadata__"].update(tightrope="{"),
    "metadata that is a list": lambda h: h["__metadata__"].update(tightrope="[1]"),
    "a later format": about(format="tightrope.episodes/2"),
    "another format": about(format="tightrope.predictor/1"),
    "no format": about(format=None),
    "a subject that is no object": about(subject=[1, 2]),
    "seeds as numbers with fractions": lambda h: h["seeds"].update(dtype="F64"),
    "final observations as whole numbers": lambda h: h["final_observations"].update(dtype="I32"),
    "a shape turned over": lambda h: h["observations"].update(shape=[2, 8]),
    "an unknown array": lambda h: h.update(reward_s=h.pop("success")),
}


def test_a_header_that_does_not_fit_the_data_is_an_input_error(stored):
    content = stored.read_bytes()
    for case, change in FORGED.items():
        stored.write_bytes(content)
        rewrite(stored, change)
        with pytest.raises(InputError, match=r"expected|damaged|cannot read"):
            pytest.fail(f"{case}: {load(stored)}")
