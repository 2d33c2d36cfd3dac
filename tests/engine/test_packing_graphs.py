"""A packed file that carries the graph of its network runs without PyTorch and without ONNX."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

import asni
from asni.engine.frontends.from_packed import read_steps
from asni.engine.interpreter import run
from asni.errors import AsniError, PackError, UsageError
from asni.packing import pack as pack_without
from asni.packing import read, unpack
from tests.packing.same_bits import assert_same_bits


class Network(nn.Module):
    """A constant of the graph alone, a fixed mask, and one weight in two places."""

    def __init__(self) -> None:
        super().__init__()
        self.norm, self.layer, self.tied = nn.BatchNorm1d(6), nn.Linear(6, 6), nn.Linear(6, 6)
        self.tied.weight = self.layer.weight
        self.register_buffer("mask", torch.tensor([1.0, 0, 1, 0, 1, 1]), persistent=False)
        with torch.no_grad():
            self.layer.weight[::2] = 0.0
            self.norm.bias.uniform_()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        hidden = torch.relu(self.layer(self.norm(x)) * self.mask)
        out: torch.Tensor = self.tied(hidden)
        return out.reshape(-1, 2, 3)


@pytest.fixture
def model() -> Network:
    torch.manual_seed(0)
    return Network()


def outputs(path: Path, x: torch.Tensor) -> torch.Tensor:
    (found,) = run(read_steps(path), [x.numpy()])
    return torch.from_numpy(found)


def test_a_packed_model_gives_what_the_model_gives(tmp_path: Path, model: Network) -> None:
    x = torch.randn(5, 6)
    inspection = asni.pack(model, tmp_path / "net.asni", example=x[:2])
    assert inspection.graph is not None
    assert inspection.graph["inputs"].keys() == {"x"}
    torch.testing.assert_close(outputs(tmp_path / "net.asni", x), model.eval()(x))


def test_the_state_dict_is_what_it_was_and_weights_are_stored_once(tmp_path: Path, model: Network) -> None:
    with_graph, without = tmp_path / "with.asni", tmp_path / "without.asni"
    inspection = asni.pack(model, with_graph, example=torch.zeros(2, 6))
    plain = asni.pack(model, without)
    assert_same_bits(asni.load(with_graph), model.state_dict())
    for part in ("mask", "scales", "values"):
        assert inspection.parts[part] == plain.parts[part]
    assert inspection.layers == plain.layers
    held = read(with_graph).graph
    assert held is not None
    assert max(tensor.array.size for tensor in held.constants.values()) == 6
    unpack(with_graph, tmp_path / "with.safetensors")
    unpack(without, tmp_path / "without.safetensors")
    assert (tmp_path / "with.safetensors").read_bytes() == (tmp_path / "without.safetensors").read_bytes()


def test_without_a_graph_files_stay_as_they_were(tmp_path: Path, model: Network) -> None:
    asni.pack(model, tmp_path / "public.asni")
    pack_without(model, tmp_path / "plain.asni")
    data = (tmp_path / "public.asni").read_bytes()
    assert data == (tmp_path / "plain.asni").read_bytes()
    assert data[5] == 1
    asni.pack(model, tmp_path / "graph.asni", example=torch.zeros(2, 6))
    assert (tmp_path / "graph.asni").read_bytes()[5] == 2


@pytest.mark.parametrize("mode", ["half", "int8"])
def test_a_rounded_file_runs_with_the_weights_that_it_holds(tmp_path: Path, model: Network, mode: str) -> None:
    x = torch.randn(4, 6)
    asni.pack(model, tmp_path / "net.asni", mode, example=x)
    rounded = Network()
    rounded.load_state_dict(asni.load(tmp_path / "net.asni"))
    assert not torch.equal(rounded.layer.weight, model.layer.weight)
    torch.testing.assert_close(outputs(tmp_path / "net.asni", x), rounded.eval()(x))


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16])
def test_another_precision_is_stored_once_and_runs_in_float32(
    tmp_path: Path, model: Network, dtype: torch.dtype
) -> None:
    x = torch.randn(3, 6)
    asni.pack(model.to(dtype), tmp_path / "net.asni", example=x)
    held = read(tmp_path / "net.asni").graph
    assert held is not None
    assert max(tensor.array.size for tensor in held.constants.values()) == 6
    torch.testing.assert_close(outputs(tmp_path / "net.asni", x), model.float().eval()(x))


def test_an_onnx_file_is_packed_with_its_graph_and_without(tmp_path: Path) -> None:
    onnx = pytest.importorskip("onnx")
    weight = np.array([[1, 0, -2], [0, 3, 0]], np.float32)
    node = onnx.helper.make_node("Gemm", ["x", "w"], ["y"], "product", transB=1)
    x, y = (
        onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, ["n", size])
        for name, size in (("x", 3), ("y", 2))
    )
    graph = onnx.helper.make_graph([node], "net", [x], [y], [onnx.numpy_helper.from_array(weight, "w")])
    onnx.save(onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 20)]), tmp_path / "net.onnx")
    asni.pack(tmp_path / "net.onnx", tmp_path / "net.asni", graph=True)
    assert read(tmp_path / "net.asni").arrays["w"].tolist() == weight.tolist()
    given = torch.randn(2, 3)
    torch.testing.assert_close(outputs(tmp_path / "net.asni", given), given @ torch.from_numpy(weight).T)
    assert asni.pack(tmp_path / "net.onnx", tmp_path / "plain.asni").graph is None


def refused(tmp_path: Path, error: type[AsniError], reason: str, *arguments: object, **options: object) -> None:
    with pytest.raises(error, match=reason):
        asni.pack(arguments[0], tmp_path / "net.asni", *arguments[1:], **options)  # type: ignore[arg-type]
    assert not (tmp_path / "net.asni").exists()


def test_what_has_no_graph_is_refused_before_anything_is_written(tmp_path: Path, model: Network) -> None:
    x = torch.zeros(2, 6)
    torch.save(model.state_dict(), tmp_path / "net.pt")
    refused(tmp_path, UsageError, r"needs an example .*example=x", model, graph=True)
    refused(tmp_path, UsageError, r"amenable .*no graph", model, "amenable", example=x)
    refused(tmp_path, UsageError, "goes with a model", model.state_dict(), example=x)
    refused(tmp_path, PackError, r"a state_dict does not describe .*asni\.pack\(model", model.state_dict(), graph=True)
    refused(tmp_path, PackError, r"net\.pt does not describe its network", tmp_path / "net.pt", graph=True)
    refused(tmp_path, AsniError, "cumsum", Sorted(), example=x)


class Sorted(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x.cumsum(1)


def test_activations_count_in_the_memory_that_a_file_may_ask_for(tmp_path: Path) -> None:
    asni.pack(nn.Conv2d(1, 64, 1), tmp_path / "net.asni", example=torch.zeros(1, 1, 700, 700))
    read(tmp_path / "net.asni")
    with pytest.raises(PackError, match=r"net\.asni: .*memory.*max_memory"):
        read_steps(tmp_path / "net.asni")
    assert read_steps(tmp_path / "net.asni", max_memory=10**10).outputs


RUN = """
import sys
for name in ("torch", "onnx", "safetensors", "pydantic", "scipy", "rich", "typer", "matplotlib", "filelock"):
    sys.modules[name] = None
import numpy as np
import asni
engine = asni.load_engine(sys.argv[1])
np.save(sys.argv[2], engine(np.arange(12, dtype=np.float32).reshape(2, 6)))
"""


@pytest.mark.parametrize("isa", ["", "numpy"])
def test_running_needs_numpy_alone(tmp_path: Path, model: Network, isa: str) -> None:
    asni.pack(model, tmp_path / "net.asni", example=torch.zeros(2, 6))
    arguments = [sys.executable, "-c", RUN, str(tmp_path / "net.asni"), str(tmp_path / "y.npy")]
    environment = {**os.environ, "ASNI_ISA": isa}
    result = subprocess.run(arguments, capture_output=True, text=True, check=False, env=environment)
    assert result.stderr == ""
    x = torch.arange(12.0).reshape(2, 6)
    torch.testing.assert_close(torch.from_numpy(np.load(tmp_path / "y.npy")), model.eval()(x).detach())
