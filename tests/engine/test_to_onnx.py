"""Graphs become ONNX files that the runtimes of others calculate the same with."""

from importlib.util import find_spec
from pathlib import Path

import numpy as np
import onnx
import pytest
import torch
from onnx.reference import ReferenceEvaluator

from asni.engine.frontends.from_onnx import read_onnx_graph
from asni.engine.frontends.from_torch import graph_of_module
from asni.engine.graph import BATCH, Array, Attribute, Graph, Node
from asni.engine.interpreter import run
from asni.engine.lowering import lower
from asni.engine.to_onnx import write_onnx
from asni.errors import AsniError, EngineError
from tests.engine.small_networks import IMAGE, SMALL_NETWORKS, lively


def numbers(*shape: int) -> Array:
    return np.random.default_rng(sum(shape)).standard_normal(shape).astype(np.float32)


def integers(*values: int) -> Array:
    return np.array(values, np.int64)


def small_network() -> Graph:
    weight = numbers(4, 3, 3, 3) * (numbers(4, 3, 3, 3) > 0.5)
    return Graph(
        {"x": (BATCH, 3, 8, 8)},
        ("logits",),
        (
            Node("Conv", "conv", ("x", "w", "b"), ("c",), {"pads": (1, 1, 1, 1), "kernel_shape": (3, 3)}),
            Node("BatchNormalization", "norm", ("c", "s", "b", "b", "v"), ("n",), {"epsilon": 1e-5}),
            Node("Silu", "act", ("n",), ("a",)),
            Node("AdaptiveAveragePool", "pool", ("a",), ("p",), {"output_size": (2, 2)}),
            Node("Reshape", "flat", ("p", "shape"), ("f",)),
            Node("Gemm", "head", ("f", "u"), ("logits",), {"transB": 1}),
        ),
        {
            "w": weight.astype(np.float32), "b": numbers(4), "s": numbers(4), "v": numbers(4) ** 2,
            "shape": integers(BATCH, 16), "u": numbers(5, 16),
        },
    )  # fmt: skip


def one_node(
    op: str, shape: tuple[int, ...], attributes: dict[str, Attribute], outputs: int = 1, **constants: Array
) -> Graph:
    node = Node(op, "it", ("x", *constants), tuple(f"y{index}" for index in range(outputs)), attributes)
    return Graph({"x": (BATCH, *shape)}, node.outputs, (node,), constants)


def run_by_onnx_runtime(path: Path, inputs: dict[str, Array]) -> list[list[Array]]:
    """What it gives, if it is installed."""
    if find_spec("onnxruntime") is None:
        return []
    import onnxruntime

    return [onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"]).run(None, inputs)]


def assert_same_results(graph: Graph, path: Path, batch: int = 3) -> None:
    """The file gives in the reference of ONNX, in its runtime, and read again here, what the graph gives here."""
    write_onnx(graph, path)
    inputs = {
        name: numbers(*(batch if size == BATCH else size for size in shape)) for name, shape in graph.inputs.items()
    }
    expected = run(lower(graph), list(inputs.values()))
    again = run(lower(read_onnx_graph(path)), list(inputs.values()))
    for results in (again, ReferenceEvaluator(str(path)).run(None, inputs), *run_by_onnx_runtime(path, inputs)):
        for result, each in zip(results, expected, strict=True):
            np.testing.assert_allclose(result, each, 1e-4, 1e-5)
            assert result.shape == each.shape


def test_a_network_gives_the_same_elsewhere(tmp_path: Path) -> None:
    assert_same_results(small_network(), tmp_path / "net.onnx")


@pytest.mark.parametrize("network", SMALL_NETWORKS)
def test_networks_of_torch_give_the_same_in_onnx_runtime(tmp_path: Path, network: str) -> None:
    onnxruntime = pytest.importorskip("onnxruntime")
    module = lively(SMALL_NETWORKS[network]())
    write_onnx(graph_of_module(module, torch.ones(2, *IMAGE)), tmp_path / "net.onnx")
    session = onnxruntime.InferenceSession(tmp_path / "net.onnx", providers=["CPUExecutionProvider"])
    for batch in (1, 2, 5):
        inputs = numbers(batch, *IMAGE)
        (result,) = session.run(None, {session.get_inputs()[0].name: inputs})
        expected = module(torch.from_numpy(inputs)).detach().numpy()
        np.testing.assert_allclose(result, expected, 1e-4, 1e-5)


def test_the_file_has_the_dense_values_and_an_open_batch(tmp_path: Path) -> None:
    graph = small_network()
    write_onnx(graph, tmp_path / "net.onnx")
    model = onnx.load(tmp_path / "net.onnx")
    values = {each.name: onnx.numpy_helper.to_array(each) for each in model.graph.initializer}
    np.testing.assert_array_equal(values["w"], graph.constants["w"])
    assert values["f/shape"].tolist() == [-1, 16]
    (first, *rest) = model.graph.input[0].type.tensor_type.shape.dim
    assert (first.dim_param, [each.dim_value for each in rest]) == ("batch", [3, 8, 8])
    assert [node.op_type for node in model.graph.node] == [
        "Conv", "BatchNormalization", "Sigmoid", "Mul", "AveragePool", "Reshape", "Gemm"
    ]  # fmt: skip


def test_a_fixed_batch_stays(tmp_path: Path) -> None:
    graph = Graph({"x": (3, 4)}, ("y",), (Node("Relu", "", ("x",), ("y",)),), {})
    assert_same_results(graph, tmp_path / "net.onnx")
    assert read_onnx_graph(tmp_path / "net.onnx").inputs == {"x": (3, 4)}


@pytest.mark.parametrize(
    "graph",
    [
        one_node("Clip", (4,), {"min": -0.5, "max": 0.5}),
        one_node("Clip", (4,), {"max": 0.5}),
        one_node("Unsqueeze", (4,), {"axes": (1,)}),
        one_node("Squeeze", (1, 4), {"axes": (1,)}),
        one_node("Slice", (6,), {"starts": (1,), "ends": (5,), "axes": (1,)}),
        one_node("ReduceMean", (4, 5), {"axes": (2,), "keepdims": 0}),
        one_node("Split", (6,), {"axis": 1}, outputs=2),
        one_node("Split", (6,), {"axis": 1, "split": (2, 4)}, outputs=2),
        one_node("LeakyRelu", (4,), {"alpha": 1}),
        one_node("Gelu", (4,), {"approximate": "tanh"}),
        one_node("Silu", (4,), {}),
        one_node("AdaptiveAveragePool", (2, 5, 7), {"output_size": (1, 1)}),
        one_node("AdaptiveMaxPool", (2, 6, 9), {"output_size": (2, 3)}),
        one_node("AdaptiveMaxPool", (2, 6, 9), {"output_size": (1, 1)}),
        one_node("AdaptiveAveragePool", (2, 6), {"output_size": (1,)}),
        one_node("Expand", (1, 4), {}, to=integers(BATCH, 3, 4)),
        one_node("Reshape", (2, 6), {}, to=integers(BATCH, 3, 4)),
        one_node("Reshape", (2, 6), {}, to=integers(BATCH, -1, 4)),
    ],
    ids=lambda graph: f"{graph.nodes[0].op}-{'-'.join(graph.nodes[0].attributes)}",
)
def test_nodes_of_older_operator_sets_and_our_own_become_standard(tmp_path: Path, graph: Graph) -> None:
    assert_same_results(graph, tmp_path / "net.onnx")


def test_a_learned_token_is_expanded_to_the_batch(tmp_path: Path) -> None:
    graph = Graph(
        {"x": (BATCH, 4, 6)},
        ("y",),
        (
            Node("Expand", "token", ("t", "shape"), ("e",)),
            Node("Concat", "join", ("e", "x"), ("y",), {"axis": 1}),
        ),
        {"t": numbers(1, 1, 6), "shape": integers(BATCH, 1, 6)},
    )
    assert_same_results(graph, tmp_path / "net.onnx")


def test_new_names_do_not_meet_old_ones(tmp_path: Path) -> None:
    graph = Graph(
        {"x": (BATCH, 4)},
        ("y", "y/sigmoid"),
        (Node("Silu", "", ("x",), ("y",)), Node("Relu", "", ("x",), ("y/sigmoid",))),
        {},
    )
    assert_same_results(graph, tmp_path / "net.onnx")


@pytest.mark.parametrize(
    ("graph", "message"),
    [
        (one_node("AdaptiveAveragePool", (2, 7, 7), {"output_size": (2, 2)}), r"AdaptiveAveragePool 'it': .*\(7, 7\)"),
        (one_node("Invented", (4,), {}), "Invented 'it': .* does not have this operator"),
        (one_node("Upsample", (4, 4), {}), "Upsample 'it': .* does not have this operator"),
        (one_node("Relu", (4,), {"slope": 0.5}), "Relu 'it': .* does not have its attribute slope"),
        (one_node("Gelu", (4,), {"approximate": "tanh"}, more=numbers(1)), "ONNX refuses the graph: "),
    ],
)
def test_what_standard_onnx_cannot_say_is_refused_by_name(tmp_path: Path, graph: Graph, message: str) -> None:
    with pytest.raises(EngineError, match=message):
        write_onnx(graph, tmp_path / "net.onnx")
    assert not list(tmp_path.iterdir())


def test_a_path_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    with pytest.raises(AsniError, match=r"cannot write .*folder"):
        write_onnx(small_network(), tmp_path / "folder")
