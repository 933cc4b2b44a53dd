"""Policies stored as programs give the output of the module they were made from."""

import contextlib
import io
import pickle
import re
import sys
import warnings
import zipfile

import cloudpickle
import custom_environments  # noqa: F401
import numpy as np
import pytest
import torch
from command import run
from opcodes import Bomb
from refusals import refused

from tightrope.environments import make_env
from tightrope.errors import InputError
from tightrope.policies import act_in_blocks, check_fit, load_policy

RNG = np.random.default_rng(0)
OBSERVATIONS = RNG.normal(0, 1, (37, 5)).astype(np.float32)
NO_NOISE = np.zeros((37, 0), np.float32)
FIRST, SECOND = (RNG.normal(0, 0.5, shape).astype(np.float32) for shape in [(5, 8), (8, 1)])
EXPECTED = np.tanh(np.tanh(OBSERVATIONS @ FIRST + 0.25) @ SECOND - 0.5)  # (37, 1)


class Network(torch.nn.Module):
    """The same function for torch."""

    def __init__(self):
        super().__init__()
        self.first, self.second = torch.nn.Linear(5, 8), torch.nn.Linear(8, 1)
        with torch.no_grad():
            self.first.weight.copy_(torch.from_numpy(FIRST.T))
            self.second.weight.copy_(torch.from_numpy(SECOND.T))
            self.first.bias.fill_(0.25)
            self.second.bias.fill_(-0.5)

    def forward(self, observations):
        return torch.tanh(self.second(torch.tanh(self.first(observations))))


def loaded(path, env=None):
    """The policy in a file; only an ONNX program needs no trust."""
    return load_policy(path, env or environment(), trust=not str(path).endswith(".onnx"))


def environment(name="FiveNarrow-v0"):
    return make_env(name)


def torchscript(path, batch):
    torch.jit.trace(Network(), torch.zeros(batch or 2, 5)).save(str(path))


def exported(path, batch):
    shapes = {"observations": {0: torch.export.Dim("batch")}} if batch is None else None
    program = torch.export.export(Network(), (torch.zeros(batch or 2, 5),), dynamic_shapes=shapes)
    torch.export.save(program, str(path))


def onnx_model(batch, inputs=1):
    """The network written down by hand, node by node."""
    onnx = pytest.importorskip("onnx")
    helper, kind = onnx.helper, onnx.TensorProto.FLOAT
    constants = {"w1": FIRST, "b1": np.full(8, 0.25, np.float32), "w2": SECOND}
    constants["b2"] = np.full(1, -0.5, np.float32)
    nodes = [
        helper.make_node("MatMul", ["observations", "w1"], ["a"]),
        helper.make_node("Add", ["a", "b1"], ["b"]),
        helper.make_node("Tanh", ["b"], ["c"]),
        helper.make_node("MatMul", ["c", "w2"], ["d"]),
        helper.make_node("Add", ["d", "b2"], ["e"]),
        helper.make_node("Tanh", ["e"], ["actions"]),
    ]
    size = "batch" if batch is None else batch
    names = ["observations", "state"][:inputs]
    graph = helper.make_graph(
        nodes,
        "policy",
        [helper.make_tensor_value_info(name, kind, [size, 5]) for name in names],
        [helper.make_tensor_value_info("actions", kind, [size, 1])],
        [onnx.numpy_helper.from_array(value, name) for name, value in constants.items()],
    )
    return helper.make_model(
        graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8
    ).SerializeToString()


def onnx_file(path, batch):
    path.write_bytes(onnx_model(batch))


MAKERS = {"pt": torchscript, "ts": torchscript, "pt2": exported, "onnx": onnx_file}
CASES = [
    *[("pt", None), ("ts", None), ("pt2", None), ("pt2", 1), ("pt2", 16)],
    *[("onnx", None), ("onnx", 1), ("onnx", 4), ("onnx", 16)],
]


@pytest.fixture(scope="session")
def program(tmp_path_factory):
    """A function that writes (once) the network in a format, for a batch size or for any."""
    folder = tmp_path_factory.mktemp("programs")

    def write(suffix, batch=None):
        if suffix == "onnx":
            pytest.importorskip("onnxruntime")
        path = folder / f"network-{batch or 'any'}.{suffix}"
        if not path.exists():
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # torch warns of its own exporters
                MAKERS[suffix](path, batch)
        return path

    return write


@pytest.mark.parametrize(("suffix", "batch"), CASES)
def test_a_program_gives_the_output_of_its_network_where_it_fits(suffix, batch, program):
    path = program(suffix, batch)
    policy = loaded(path)
    check_fit(policy, environment())
    actions = act_in_blocks(policy, OBSERVATIONS, NO_NOISE)
    np.testing.assert_allclose(actions, EXPECTED, atol=1e-5, rtol=0)
    assert policy.deterministic
    assert policy.noise_size == 0
    # Another number of observations, another width and another kind of actions.
    for name in ("Pendulum-v1", "Five-v0", "FiveKeys-v0") if batch is None else ():
        env = environment(name)
        with refused() as refusal:
            check_fit(loaded(path, env), env)
        spaces = str(env.observation_space), str(env.action_space)
        assert any(space in str(refusal.value) for space in spaces), str(refusal.value)


def test_an_onnx_file_exported_by_torch_is_read(tmp_path):
    pytest.importorskip("onnxscript")
    pytest.importorskip("onnxruntime")
    path = tmp_path / "exported.onnx"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.onnx.export(
            Network(),
            (torch.zeros(2, 5),),
            path,
            dynamo=True,
            dynamic_shapes={"observations": {0: torch.export.Dim("batch")}},
            external_data=False,
            verbose=False,
        )
    actions = act_in_blocks(load_policy(path, environment()), OBSERVATIONS, NO_NOISE)
    np.testing.assert_allclose(actions, EXPECTED, atol=1e-5, rtol=0)


@pytest.mark.parametrize("suffix", ["pt", "pt2", "onnx"])
def test_a_program_travels_to_a_worker_after_it_has_been_used(suffix, program, monkeypatch):
    path = program(suffix)
    monkeypatch.chdir(path.parent)
    policy = loaded(path.name)  # a relative path
    policy.act(OBSERVATIONS, NO_NOISE)
    monkeypatch.chdir("/")
    copy = pickle.loads(cloudpickle.dumps(policy))
    np.testing.assert_allclose(copy.act(OBSERVATIONS, NO_NOISE), EXPECTED, atol=1e-5, rtol=0)


@pytest.mark.parametrize("suffix", ["pt", "pt2", "onnx"])
def test_a_damaged_program_is_an_input_error(suffix, program, tmp_path):
    content, path = program(suffix).read_bytes(), tmp_path / f"damaged.{suffix}"
    for kept in (0, 1, 20, len(content) // 2, len(content) - 1):
        path.write_bytes(content[:kept])
        with refused("cannot load"):
            check_fit(loaded(path), environment())


class Writing(torch.nn.Module):
    """A program that writes a file whenever it acts."""

    def __init__(self, path: str):
        super().__init__()
        self.path = path

    def forward(self, observations: torch.Tensor) -> torch.Tensor:
        torch.save(observations, self.path)
        return torch.tanh(observations[:, :1])


def rewritten(path, old, change):
    """An archive with each member as `change(name, content)` gives it."""
    with zipfile.ZipFile(old) as source, zipfile.ZipFile(path, "w") as target:
        for name in source.namelist():
            target.writestr(name, change(name, source.read(name)))


def scripted(kind):
    return lambda path, marker, program: torch.jit.script(kind(str(marker))).save(str(path))


def pickles(path, marker, program):
    bomb = io.BytesIO()
    torch.save(Bomb(marker), bomb)
    change = lambda name, content: bomb.getvalue() if name.endswith((".pt", ".pkl")) else content  # noqa: E731
    rewritten(path, program("pt2"), change)


def expressions(path, marker, program):
    """torch has sympy evaluate the size of a dimension, which is Python's eval."""
    code = "+".join(f"chr({ord(letter)})" for letter in str(marker))

    def change(name, content):
        if not name.endswith("models/model.json"):
            return content
        armed, count = re.subn(
            rb'("expr_str": ?")[^"]*"', rb"\1open(" + code.encode() + rb',chr(119))"', content
        )
        assert count
        return armed

    rewritten(path, program("pt2"), change)


ARMED = {
    "torch.save": ("pt", scripted(Writing)),
    "torch.save as .ts": ("ts", scripted(Writing)),
    "pickles": ("pt2", pickles),
    "expressions": ("pt2", expressions),
}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(("suffix", "arm"), ARMED.values(), ids=ARMED)
def test_a_program_of_torch_runs_only_with_trust(suffix, arm, program, tmp_path, capfd):
    marker, path = tmp_path / "marker", tmp_path / f"armed.{suffix}"
    arm(path, marker, program)
    for verb in (("certify",), ("collect", "--out", tmp_path / "episodes.npz")):
        code, out, said = run(capfd, *verb, path, "--env", "FiveNarrow-v0")
        assert (code, out, len(said)) == (2, "", 1)
        assert "expected --trust with" in said[0]
    assert not marker.exists()
    with contextlib.suppress(InputError):
        check_fit(load_policy(path, environment(), trust=True), environment())
    assert marker.exists()  # so it was armed indeed


@pytest.mark.filterwarnings("ignore:.*torch.jit:DeprecationWarning")
def test_a_link_to_a_program_of_torch_is_what_its_own_name_says(tmp_path):
    pytest.importorskip("onnxruntime")
    marker = tmp_path / "marker"
    scripted(Writing)(tmp_path / "armed.pt", marker, None)
    (tmp_path / "policy.onnx").symlink_to(tmp_path / "armed.pt")
    with pytest.raises(InputError, match=r"cannot load .*policy\.onnx"):
        check_fit(load_policy(tmp_path / "policy.onnx", environment()), environment())
    assert not marker.exists()


def test_an_onnx_program_behind_a_link_is_read(program, tmp_path):
    """As download caches keep them: under a name without a suffix."""
    (tmp_path / "blob").write_bytes(program("onnx").read_bytes())
    (tmp_path / "policy.onnx").symlink_to(tmp_path / "blob")
    policy = load_policy(tmp_path / "policy.onnx", environment())
    np.testing.assert_allclose(policy.act(OBSERVATIONS, NO_NOISE), EXPECTED, atol=1e-5, rtol=0)


def test_an_onnx_program_cannot_read_weights_from_elsewhere(tmp_path, monkeypatch):
    onnx = pytest.importorskip("onnx")
    pytest.importorskip("onnxruntime")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "secret").write_bytes(bytes(4 * 5 * 8))
    (tmp_path / "folder").mkdir()
    path = tmp_path / "folder" / "external.onnx"
    for place in ("secret", "../secret", str(tmp_path / "secret")):
        model = onnx.load_from_string(onnx_model(None))
        weights = next(one for one in model.graph.initializer if one.name == "w1")
        onnx.external_data_helper.set_external_data(weights, place)
        weights.ClearField("raw_data")
        path.write_bytes(model.SerializeToString())
        with pytest.raises(InputError, match="cannot load"):
            check_fit(load_policy(path, environment()), environment())


def test_an_onnx_program_of_two_inputs_or_without_the_runtime_is_one_line(tmp_path, monkeypatch):
    pytest.importorskip("onnxruntime")
    path = tmp_path / "two.onnx"
    path.write_bytes(onnx_model(None, inputs=2))
    with pytest.raises(InputError, match="one input"):
        check_fit(load_policy(path, environment()), environment())
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    with pytest.raises(InputError, match=r'pip install "tightrope\[onnx\]"'):
        check_fit(load_policy(path, environment()), environment())


def test_a_program_cannot_sample_takes_no_statistics_and_must_be_there(program, tmp_path):
    with pytest.raises(InputError, match="`sample`"):
        load_policy(program("pt"), environment(), sample=True, trust=True)
    with pytest.raises(InputError, match="`normalize`"):
        load_policy(program("pt"), environment(), normalize=tmp_path / "statistics.npz")
    for suffix in (*MAKERS, "zip", "safetensors"):
        with pytest.raises(InputError, match="nothing at"):
            load_policy(tmp_path / f"nowhere.{suffix}", environment())
