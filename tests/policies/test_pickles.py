"""An attacker's pickles: nothing executes, nothing is imported, and memory stays small."""

import os
import pickle
import struct
import subprocess
import sys
from collections import OrderedDict, defaultdict, deque
from itertools import product
from pathlib import Path

import numpy as np
import pytest
from opcodes import Bomb, numpy_array, vecnormalize, word

import tightrope
from tightrope.policies.inert import Inert, array, read_pickle

MKDIR = b"cos\nmkdir\n"
HUGE = b"\x8a\x06" + struct.pack("<q", 10**12)[:6]

# Pickles with MARKER for the name of a folder that must not appear.
ATTACKS = {
    "REDUCE": b"\x80\x02" + MKDIR + b"(VMARKER\ntR.",
    "REDUCE inside": vecnormalize(MKDIR + b"(VMARKER\ntR"),
    "BUILD": b"\x80\x02" + MKDIR + b")\x81}Vpath\nVMARKER\nsb.",
    "BUILD with code": b"\x80\x02cbuiltins\nobject\n)\x81}V__setstate__\ncos\nmkdir\nsbVMARKER\nb.",
    "INST": b"(VMARKER\nios\nmkdir\n.",
    "OBJ": b"(" + MKDIR + b"VMARKER\no.",
    "NEWOBJ": b"\x80\x02" + MKDIR + b"(VMARKER\nt\x81.",
    "NEWOBJ_EX": b"\x80\x04" + MKDIR + b"(VMARKER\nt}\x92.",
    "STACK_GLOBAL": b"\x80\x04" + word("os") + word("mkdir") + b"\x93(VMARKER\ntR.",
    "eval": b"\x80\x02cbuiltins\neval\n(V__import__('os').mkdir('MARKER')\ntR.",
    "an attribute of NumPy": b"\x80\x02cnumpy\n__builtins__\n.",
    "numpy.load": vecnormalize(b"cnumpy\nload\n(VMARKER\nN\x88tR"),
    "numpy.fromfile": vecnormalize(b"cnumpy\nfromfile\n(V/dev/zero\ntR"),
    "numpy.memmap": vecnormalize(b"cnumpy\nmemmap\n(VMARKER\nVf8\nVw+\ntR"),
    "numpy.core.multiarray.zeros": vecnormalize(b"cnumpy.core.multiarray\nzeros\n(" + HUGE + b"tR"),
    "numpy.random": vecnormalize(b"cnumpy.random._pickle\n__randomstate_ctor\n(VMT19937\ntR"),
    "EXT1": b"\x80\x02\x82\x01)R.",
    "EXT4": b"\x80\x02\x84\x01\x00\x00\x00)R.",
    "PERSID": b"PMARKER\n.",
    "BINPERSID": b"\x80\x02VMARKER\nQ.",
    "NEXT_BUFFER": b"\x80\x05\x97.",
    "objects": vecnormalize(
        numpy_array(b"(K\x01t", b"(X\x02\x00\x00\x00O8\x89\x88tR", b"]" + MKDIR + b"(VMARKER\ntRa")
    ),
    "void": vecnormalize(numpy_array(b"(K\x01t", b"(VV1000000000000\n\x89\x88tR")),
    "fields": vecnormalize(numpy_array(b"(K\x01t", b"(VU200000000\n\x89\x88tR")),
    "a dtype that is called": vecnormalize(
        numpy_array(b"(K\x01t", b"(" + MKDIR + b"(VMARKER\ntRtR")
    ),
    "a terabyte": vecnormalize(numpy_array(b"(" + HUGE + b"t")),
    "a terabyte by strides": vecnormalize(
        b"cnumpy.lib.stride_tricks\nas_strided\n(" + numpy_array(b"(K\x01t") + b"(" + HUGE + b"ttR"
    ),
    "a negative shape": vecnormalize(numpy_array(b"(J\xff\xff\xff\xfft")),
    "a million dimensions": vecnormalize(numpy_array(b"(" + b"K\x01" * 90_000 + b"t")),
    "too few bytes": vecnormalize(numpy_array(b"(K\x09t")),
    "a length that lies": b"\x80\x04\x8e" + struct.pack("<Q", 2**40) + b".",
    "a text that lies": b"\x80\x04\x8d" + struct.pack("<Q", 2**62) + b".",
    "a frame that lies": b"\x80\x04\x95" + struct.pack("<Q", 2**62) + b"N.",
    "a memo of gigabytes": b"\x80\x02Nr\xff\xff\xff\xff0.",
    "deep lists": b"\x80\x02" + b"]" * 50_000 + b"a" * 49_999 + b".",
    "deep tuples": b"\x80\x02N" + b"\x85" * 90_000 + b".",
    "deep calls": b"\x80\x02" + b"cm\nf\n" * 30_000 + b")R" + b"\x85R" * 29_999 + b".",
    "doubling tuples": b"\x80\x02N" + b"2\x86" * 40_000 + b".",
    "doubling keys": b"\x80\x02}N" + b"2\x86" * 60 + b"Ns.",
    "doubling lists": b"\x80\x02]" + b"(22e" * 20_000 + b".",
    "a number of a megabyte": b"\x80\x02\x8b" + struct.pack("<i", 10**6) + b"\x7f" * 10**6 + b".",
    "digits of a megabyte": b"L" + b"9" * 10**6 + b"L\n.",
    "operations without end": b"\x80\x02" + b"N0" * 4_000_000 + b".",
    "larger than any": b"\x80\x02C\x01" + bytes(11_000_000),
    "nothing on the stack": b"\x80\x02R.",
    "no mark": b"\x80\x02NNt.",
    "an unknown operation": b"\x80\x02\xff.",
    "an unknown memo": b"\x80\x02h\x07.",
    "itself": b"\x80\x02]q\x00h\x00a.",
}

READ = """
import sys
from pathlib import Path
import numpy as np
import gymnasium as gym
from tightrope.errors import InputError
from tightrope.policies.vecnormalize import read_statistics
env = gym.make("Pendulum-v1")
for path in sorted(Path(sys.argv[1]).glob("*.pkl")):
    before = set(sys.modules)
    try:
        read_statistics(path, env)
        print(path.stem, "ACCEPTED")
    except InputError as error:
        print(path.stem, "LINES", len(str(error).splitlines()))
    before |= {name for name in sys.modules if name.startswith("encodings.")}
    if set(sys.modules) - before:
        print(path.stem, "IMPORTED", set(sys.modules) - before)
status = Path("/proc/self/status")
peak = status.read_text().partition("VmHWM:")[2].split()[0] if status.exists() else 0
print("MEMORY", peak)
"""


def test_no_pickle_executes_imports_or_fills_the_memory(tmp_path):
    """All in one process, so that the largest of them counts."""
    marker = tmp_path / "marker"
    for number, content in enumerate(ATTACKS.values()):
        armed = content.replace(b"MARKER", str(marker).encode())
        (tmp_path / f"{number:03}.pkl").write_bytes(armed)
    environment = {**os.environ, "PYTHONPATH": str(Path(tightrope.__file__).parents[1])}
    answer = subprocess.run(
        [sys.executable, "-c", READ, str(tmp_path)],
        capture_output=True,
        text=True,
        env=environment,
        check=True,
    )
    *lines, memory = answer.stdout.splitlines()
    assert lines == [f"{number:03} LINES 1" for number in range(len(ATTACKS))]
    assert int(memory.split()[1]) < 200_000  # kB
    assert not marker.exists()


@pytest.mark.parametrize("name", ["REDUCE", "INST", "OBJ", "NEWOBJ_EX"])
def test_the_attacks_are_live(name, tmp_path):
    """Python itself executes them, or tries to."""
    marker = tmp_path / "marker"
    content = ATTACKS[name].replace(b"MARKER", str(marker).encode())
    try:
        pickle.loads(content)
    except (TypeError, pickle.UnpicklingError):  # a function is no class
        assert name == "NEWOBJ_EX"
    else:
        assert marker.exists()


def test_plain_values_of_every_protocol_are_read_as_they_are():
    value = {"a": [1, -2.5, None, True], "b": ("text é", b"bytes\x00", 2**70), "c": {3: {"d": []}}}
    for protocol in range(6):
        found = read_pickle(pickle.dumps(value, protocol=protocol))
        if protocol < 3:  # bytes are text in Latin 1 there
            assert isinstance(found["b"][1], Inert)
            found["b"] = (found["b"][0], value["b"][1], found["b"][2])
        assert found == value


def test_classes_and_objects_are_named_and_not_made():
    found = read_pickle(pickle.dumps(os.path.join))
    assert (found.module, found.name, found.arguments) == ("posixpath", "join", None)
    assert read_pickle(pickle.dumps(Bomb("there"))).arguments == ("there",)
    others = OrderedDict(a=1), {2, 3}, frozenset((4,)), defaultdict(list, b=[5]), deque([6])
    first, *inert = read_pickle(pickle.dumps(others))
    assert first == {"a": 1}
    assert [each.name for each in inert] == ["set", "frozenset", "defaultdict", "deque"]


def test_arrays_are_read_in_every_order_and_protocol():
    for protocol, kind in product(range(6), ("<f8", ">f8", "<f4", ">f4", "<i8", "i4", "u1")):
        numbers = np.arange(6).astype(kind)
        for values in (
            *(numbers.reshape(2, 3), np.asfortranarray(numbers.reshape(2, 3)), numbers[::2]),
            *(np.zeros((0, 3), kind), numbers[1]),
        ):
            found = array(read_pickle(pickle.dumps(values, protocol=protocol)))
            np.testing.assert_array_equal(found, values)
            assert found.dtype == values.dtype
