"""Pickles written by hand, opcode by opcode: of other ages, and of attackers."""

import os
import struct

import numpy as np


class Bomb:
    """Unpickling it creates the marker, a folder."""

    def __init__(self, marker):
        self.marker = marker

    def __reduce__(self):
        return os.mkdir, (str(self.marker),)


def word(text):
    """A text."""
    return b"X" + struct.pack("<I", len(text)) + text.encode()


def numpy_array(shape, dtype=b"(X\x02\x00\x00\x00f8\x89\x88tR", content=b"C\x08" + bytes(8)):
    """An array as NumPy before 2.0 wrote it: opcodes of its shape, dtype and bytes."""
    made = b"cnumpy.core.multiarray\n_reconstruct\n(cnumpy\nndarray\n(K\x00tC\x01btR"
    return made + b"(K\x01" + shape + b"cnumpy\ndtype\n" + dtype + b"\x89" + content + b"tb"


def vecnormalize(mean, variance=None, **changes):
    """A VecNormalize in a Python without gym: its spaces and generators are elsewhere.

    Mean and variance are numbers, or opcodes; `changes` are opcodes of its attributes.
    """
    running = b"cstable_baselines3.common.running_mean_std\nRunningMeanStd\n)\x81}("
    for name, values in (("mean", mean), ("var", mean if variance is None else variance)):
        if not isinstance(values, bytes):
            content = np.asarray(values, "<f8").tobytes()
            values = numpy_array(b"(K%ct" % len(values), content=b"C%c" % len(content) + content)
        running += word(name) + values
    attributes = {
        "obs_rms": running + word("count") + b"G@Y" + bytes(6) + b"ub",
        "clip_obs": b"G@$" + bytes(6),
        "epsilon": b"G>Ey\x8e\xe2\x30\x8c\x3a",
        "norm_obs": b"\x88",
        "observation_space": b"cgym.spaces.box\nBox\n)\x81}b",
        "np_random": b"cgym.utils.seeding\nRandomNumberGenerator\n(K\x07tR",
    }
    state = b"".join(word(k) + v for k, v in {**attributes, **changes}.items() if v)
    made = b"cstable_baselines3.common.vec_env.vec_normalize\nVecNormalize\n)\x81}("
    return b"\x80\x04" + made + state + b"ub."
