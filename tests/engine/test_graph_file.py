"""A graph goes into a packed file and comes out as it was; a hostile one is refused."""

import copy
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from asni.engine.frontends.graph_file import MOST_NODES, graph_of_file, read_graph, section_of
from asni.engine.graph import BATCH, Graph, Node
from asni.errors import PackError
from asni.packing import GraphSection, Source, Tensor, inspect, pack, read
from asni.packing.dtypes import DTYPES, from_float32
from asni.packing.writing import write

WEIGHT = np.array([[1.5, 0.0, 0.0], [0.0, -2.0, 0.0]], np.float32)
BIAS = np.array([0.25, -0.5], np.float32)
SHAPE = np.array([BATCH, 1, 2], np.int64)


def small() -> Graph:
    """relu(x W' + b), as one row for each item."""
    return Graph(
        inputs={"x": (BATCH, 3)},
        outputs=("y",),
        nodes=(
            Node("Gemm", "layer", ("x", "layer.weight", "b"), ("h",), {"transB": 1, "alpha": 1.0}),
            Node("Relu", "relu", ("h",), ("r",)),
            Node("Reshape", "rows", ("r", "shape"), ("y",)),
        ),
        constants={"layer.weight": WEIGHT, "b": BIAS, "shape": SHAPE},
    )


def tensors() -> dict[str, Tensor]:
    return {"layer.weight": Tensor.of(WEIGHT), "layer.bias": Tensor.of(BIAS)}


def packed(path: Path, graph: Graph, mode: str = "exact") -> Path:
    pack(Source(tensors(), graph=section_of(graph, tensors())), path, mode)
    return path


def assert_same(found: Graph, expected: Graph) -> None:
    assert (found.inputs, found.outputs, found.nodes) == (expected.inputs, expected.outputs, expected.nodes)
    assert found.constants.keys() == expected.constants.keys()
    for name, array in expected.constants.items():
        assert found.constants[name].dtype == array.dtype
        assert found.constants[name].tobytes() == array.tobytes()


def test_a_graph_comes_back_as_it_was(tmp_path: Path) -> None:
    assert_same(read_graph(packed(tmp_path / "net.asni", small())), small())


def test_every_kind_of_attribute_comes_back_with_its_type(tmp_path: Path) -> None:
    attributes: dict[str, Any] = {"i": -(2**63), "f": 1.0, "s": "größe", "is": (1, -2), "fs": (0.1, 1e300), "none": ()}
    node = Node("Any", "any", ("x", "", "x"), ("", "y"), attributes)
    graph = Graph({"x": ()}, ("y", "x"), (node,), {})
    found = read_graph(packed(tmp_path / "net.asni", graph)).nodes[0]
    assert found == node
    assert [type(value) for value in found.attributes.values()] == [int, float, str, tuple, tuple, tuple]


def test_weights_are_stored_once_and_only_the_other_constants_beside_them(tmp_path: Path) -> None:
    held = read(packed(tmp_path / "net.asni", small())).graph
    assert held is not None
    assert held.content["constants"] == {"layer.weight": "layer.weight", "b": "layer.bias", "shape": "shape"}
    assert held.constants.keys() == {"shape"}


def test_a_constant_with_the_name_of_another_tensor_takes_a_name_that_is_free(tmp_path: Path) -> None:
    graph = Graph({"x": (BATCH, 2)}, ("y",), (Node("Add", "", ("x", "layer.weight"), ("y",)),), {"layer.weight": -BIAS})
    path = packed(tmp_path / "net.asni", graph)
    assert_same(read_graph(path), graph)
    assert read(path).arrays["layer.weight"].tolist() == WEIGHT.tolist()


def test_rounded_weights_are_those_of_the_file_and_constants_stay_exact(tmp_path: Path) -> None:
    odd = np.array([[1 / 3, -np.inf]], np.float32)
    graph = Graph(
        {"x": (BATCH, 3)},
        ("y",),
        (Node("Gemm", "", ("x", "w"), ("h",), {"transB": 1}), Node("Add", "", ("h", "odd"), ("y",))),
        {"w": WEIGHT / 3, "odd": odd},
    )
    state = {"weight": Tensor.of(WEIGHT / 3)}
    for mode in ("half", "int8"):
        path = tmp_path / f"{mode}.asni"
        pack(Source(state, graph=section_of(graph, state)), path, mode)
        constants = read_graph(path).constants
        assert constants["w"].tobytes() == read(path).arrays["weight"].tobytes() != (WEIGHT / 3).tobytes()
        assert constants["odd"].tobytes() == odd.tobytes()


@pytest.mark.parametrize("dtype", ["float64", "float16", "bfloat16"])
def test_weights_of_another_precision_are_stored_once_and_calculated_with_in_float32(
    tmp_path: Path, dtype: str
) -> None:
    half = np.array([0.5, -0.0], np.float32)
    state = {"scale": Tensor.from_bits(DTYPES[dtype], from_float32(half, DTYPES[dtype]), (2,))}
    graph = Graph({"x": (BATCH, 2)}, ("y",), (Node("Mul", "", ("x", "s"), ("y",)),), {"s": half})
    section = section_of(graph, state)
    assert (section.content["constants"], section.constants) == ({"s": "scale"}, {})
    pack(Source(state, graph=section), tmp_path / "net.asni")
    assert_same(read_graph(tmp_path / "net.asni"), graph)


def test_what_the_graph_alone_uses_is_not_in_the_state_dict(tmp_path: Path) -> None:
    path = packed(tmp_path / "net.asni", small())
    assert list(read(path).tensors) == ["layer.weight", "layer.bias"]
    inspection = inspect(path)
    assert inspection.graph == {"nodes": 3, "inputs": {"x": [BATCH, 3]}, "outputs": ["y"]}
    assert inspection.dense_bytes == WEIGHT.nbytes + BIAS.nbytes
    assert inspection.parts["graph"] > 0
    assert sum(inspection.parts.values()) == inspection.bytes


def test_a_file_without_a_graph_says_how_to_get_one(tmp_path: Path) -> None:
    pack({"weight": WEIGHT}, tmp_path / "net.asni")
    assert inspect(tmp_path / "net.asni").graph is None
    with pytest.raises(PackError, match=r"net\.asni: it holds no graph.*--graph"):
        read_graph(tmp_path / "net.asni")


Spoil = Callable[[dict[str, Any]], object]


def set_node(**changes: Any) -> Spoil:
    """Change keys of the first node."""
    return lambda content: content["nodes"][0].update(changes)


def attribute(value: Any) -> Spoil:
    return set_node(attributes={"a": value})


REFUSED: list[tuple[Spoil, str]] = [
    (lambda content: content.pop("constants"), "other keys than constants, inputs, nodes, outputs"),
    (lambda content: content.update(more=1), "other keys"),
    (lambda content: content.update(inputs={}), "no input"),
    (lambda content: content.update(inputs={"": [1]}), "'' is not a name of an input"),
    (lambda content: content.update(inputs={"x": [1] * 33}), "input x is not a list of up to 32 sizes"),
    (lambda content: content.update(inputs={"b": [1]}), "name of a constant"),
    (lambda content: content.update(outputs=[]), "no output"),
    (lambda content: content.update(outputs=["z"]), "no node gives the output z"),
    (lambda content: content.update(constants=["b"]), "constants of the graph are not names"),
    (lambda content: content["constants"].update(b="nothing"), "constant b is the tensor 'nothing', which is not"),
    (lambda content: content["constants"].update(b=7), "constant b is the tensor 7"),
    (lambda content: content["constants"].pop("b"), "Gemm layer reads b, which nothing before it gives"),
    (lambda content: content["nodes"].reverse(), "Reshape rows reads r, which nothing before it gives"),
    (lambda content: content["nodes"].append(content["nodes"][0]), "Gemm layer gives h, which is there already"),
    (lambda content: content["nodes"].append(None), "node 3 of the graph does not have the keys of a node"),
    (set_node(more=1), "node 0 of the graph does not have the keys"),
    (set_node(op=""), "node 0 of the graph has no operator"),
    (set_node(name=5), "node 0 of the graph has no name"),
    (set_node(name="\ud800"), "node 0 of the graph has no name"),
    (set_node(inputs="x"), "inputs of Gemm layer are not names"),
    (set_node(inputs=[["x"]]), "inputs of Gemm layer are not names"),
    (set_node(outputs=[""]), "Gemm layer has no output"),
    (set_node(outputs=["x"]), "Gemm layer gives x, which is there already"),
    (set_node(attributes=[]), "attributes of Gemm layer are not by name"),
    (attribute(2**63), "attribute a of Gemm layer is no number"),
    (attribute(float("nan")), "attribute a of Gemm layer is no number"),
    (attribute([1, 2.0]), "attribute a of Gemm layer is no number"),
    (attribute([float("inf")]), "attribute a of Gemm layer is no number"),
    (attribute(True), "attribute a of Gemm layer is no number"),
    (attribute(None), "attribute a of Gemm layer is no number"),
    (attribute([["1"]]), "attribute a of Gemm layer is no number"),
    (attribute(["text"]), "attribute a of Gemm layer is no number"),
    (attribute({"b": 1}), "attribute a of Gemm layer is no number"),
    (lambda content: content.update(nodes=[{}] * (MOST_NODES + 1)), "100,001 nodes; a file holds up to 100,000"),
]


@pytest.mark.parametrize(("spoil", "reason"), REFUSED, ids=[f"{at} {reason}" for at, (_, reason) in enumerate(REFUSED)])
def test_what_is_no_graph_is_refused_with_the_place(tmp_path: Path, spoil: Spoil, reason: str) -> None:
    held = read(packed(tmp_path / "net.asni", small()))
    assert held.graph is not None
    content = copy.deepcopy(held.graph.content)
    spoil(content)
    with pytest.raises(PackError, match=re.escape(reason)):
        graph_of_file(replace(held, graph=replace(held.graph, content=content)))


def test_a_hostile_graph_with_good_checksums_is_refused_with_the_name_of_its_file(tmp_path: Path) -> None:
    section = section_of(small(), tensors())
    section.content["nodes"][0]["inputs"][0] = "evil\x1b[2J"
    write(tmp_path / "net.asni", tensors(), "exact", {}, {}, section)
    with pytest.raises(PackError, match=r"net\.asni: Gemm layer reads 'evil\\x1b\[2J', which nothing before it gives"):
        read_graph(tmp_path / "net.asni")


def test_float8_cannot_be_calculated_with(tmp_path: Path) -> None:
    scale = Tensor.from_bits(DTYPES["float8_e5m2"], np.array([0x38], np.uint8), (1,))
    content = {"inputs": {"x": [1]}, "outputs": ["x"], "constants": {"s": "scale"}, "nodes": []}
    write(tmp_path / "net.asni", {"scale": scale}, "exact", {}, {}, GraphSection(content, {}))
    with pytest.raises(PackError, match="constant s is float8_e5m2"):
        read_graph(tmp_path / "net.asni")


def test_an_amenable_file_carries_no_graph(tmp_path: Path) -> None:
    with pytest.raises(PackError, match=r"amenable .*no graph.*'exact', 'half' or 'int8'"):
        packed(tmp_path / "net.asni", small(), "amenable")
    assert not list(tmp_path.iterdir())
