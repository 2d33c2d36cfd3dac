"""Graphs that are wrong, or made to harm: an error says which operator and node, and nothing large is made."""

from dataclasses import replace
from math import prod
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from asni.engine.fusing import fuse
from asni.engine.graph import BATCH, Array, Graph, Node
from asni.engine.interpreter import run
from asni.engine.lowering import lower
from asni.errors import EngineError
from tests.engine.graphs import graph, node, normal, one


def test_all_unsupported_operators_are_named_before_any_work() -> None:
    nodes = [node("Relu", "nowhere", "a"), node("Loop", "a", "b"), node("Einsum", "b", "c"), node("Loop", "c", "d")]
    with pytest.raises(EngineError, match=r"does not have these operators .*: Einsum \(c\), Loop \(b\)$"):
        lower(graph(nodes, x=(3,)))


@pytest.mark.parametrize(
    ("network", "said"),
    [
        pytest.param(one("Relu", (3,)), "no node makes the output z", id="output"),
        pytest.param(graph([node("Relu", "w", "y")], x=(3,)), "Relu 'y': no node .* its input w", id="input"),
        pytest.param(graph([node("Relu", "-", "y")], x=(3,)), "Relu 'y': input 0 is missing", id="absent"),
        pytest.param(Graph({}, ("y",), (node("Relu", "x", "y"),), {}), "no inputs", id="inputs"),
        pytest.param(Graph({"x": (BATCH, 3)}, ("x",), (), {}), "no nodes", id="nodes"),
        pytest.param(graph([node("Relu", "x", "x")], x=(3,)), "makes x, which is made before", id="twice"),
        pytest.param(graph([node("Relu", "x", "y")], {"x": 1.0}, x=(3,)), "the name of a constant", id="constant"),
        pytest.param(one("Relu", (0,)), r"input x: .*\(N, 0\) has a dimension below 1", id="zero"),
        pytest.param(one("Relu", (BATCH + 1,)), "input x: .*too large", id="dimension"),
        pytest.param(one("Relu", (2**20, 2**21)), "input x: .*too many elements", id="elements"),
        pytest.param(one("Relu", (1,) * 8), "input x: 9 dimensions", id="rank"),
        pytest.param(one("Relu", (BATCH,)), "input x: the batch size is in two dimensions", id="batches"),
        pytest.param(graph([node("Relu", "x", "y")], x=(3,), z=()), None, id="fine"),
        pytest.param(
            Graph({"x": (BATCH, 3), "z": (4, 3)}, ("y",), (node("Relu", "x", "y"),), {}),
            r"input z: the first dimension of \(4, 3\) is not the batch", id="one batch",
        ),
        pytest.param(one("Conv", (3, 4, 4), normal(4, 2, 1, 1)), "Conv 'y': .*fit to 3 channels", id="channels"),
        pytest.param(one("Conv", (4, 4, 4), normal(4, 1, 1, 1), group=3), "3 groups do not divide 4", id="groups"),
        pytest.param(one("Conv", (4, 4, 4), normal(4, 4, 1, 1), group=0), "0 groups", id="no groups"),
        pytest.param(one("Conv", (3, 4, 4), normal(4, 3, 5, 5)), "window is larger than the map", id="window"),
        pytest.param(one("Conv", (3, 4, 4), normal(4, 3, 1)), "3 dimensions do not fit", id="rank of weights"),
        pytest.param(one("Conv", (3, 4, 4, 4), normal(4, 3, 1, 1, 1)), "only one and two dimensions", id="three"),
        pytest.param(one("Conv", (3, 4, 4), normal(4, 3, 1, 1), pads=(2**31,) * 4), "pads is out of range", id="pads"),
        pytest.param(one("Conv", (3, 4, 4), normal(4, 3, 1, 1), pads=(-1,) * 4), "pads is out of range", id="crop"),
        pytest.param(one("Conv", (3, 4, 4), normal(4, 3, 1, 1), strides=(0, 1)), "strides is out", id="strides"),
        pytest.param(one("Conv", (3, 4, 4), normal(4, 3, 1, 1), strides="ab"), "list of integers", id="text"),
        pytest.param(one("Conv", (3, 4, 4), normal(4, 3, 1, 1), strides=(1, 1, 1)), "have 2 values", id="count"),
        pytest.param(one("Conv", (3, 4, 4), np.full((4, 3, 1, 1), np.inf)), "Conv 'y': c0 has NaN", id="weights"),
        pytest.param(one("MatMul", (3,), np.full((3, 2), np.nan)), "MatMul 'y': c0 has NaN", id="not a number"),
        pytest.param(one("MatMul", (3,), normal(4, 2)), "does not fit to weights for 4 inputs", id="product"),
        pytest.param(one("MaxPool", (3, 4, 4), kernel_shape=(2, 2), pads=(2, 0, 0, 0)), "padding alone", id="padding"),
        pytest.param(one("MaxPool", (3, 4, 4)), "no kernel_shape", id="kernel"),
        pytest.param(one("Reshape", (4,), np.array([-1, 3])), "does not fit", id="reshape"),
        pytest.param(one("Reshape", (4,), np.array([0, 0, 0])), "keeps a dimension", id="kept"),
        pytest.param(one("Reshape", (4,), np.array([-1, -1])), "not a shape", id="unknowns"),
        pytest.param(one("Transpose", (4,), perm=(0, 0)), "no order of 2 dimensions", id="order"),
        pytest.param(one("Transpose", (4,), perm=(0, 2)), "no order of 2 dimensions", id="place"),
        pytest.param(one("Softmax", (4,), axis=2), "no axis 2 in 2 dimensions", id="axis"),
        pytest.param(one("Gather", (4,), np.array(4), axis=1), "no place among 4", id="index"),
        pytest.param(one("Gather", (4,), np.array([0, 1, 3]), axis=1), "equal distances", id="indices"),
        pytest.param(one("Slice", (4,), np.array([4]), np.array([4]), np.array([1])), "nothing is left", id="nothing"),
        pytest.param(one("Cast", (4,), to=7), "float32 alone", id="integers"),
        pytest.param(one("Dropout", (4,), 0.5, np.array(True)), "training mode", id="training"),
        pytest.param(one("Add", (4,), normal(3)), r"do not fit: \(N, 4\) and \(3\)", id="broadcast"),
        pytest.param(one("Add", (4,), np.array(["a"])), "type <U1", id="strings"),
        pytest.param(one("Expand", (4,), np.array([2**30, 1, 4])), r"too many|too large|not the batch", id="expand"),
    ],
)  # fmt: skip
def test_bad_graphs_are_refused_by_name(network: Graph, said: str | None) -> None:
    if said is None:
        lower(network)
        return
    if said.startswith("no node makes the output"):
        network = replace(network, outputs=("z",))
    with pytest.raises(EngineError, match=said):
        lower(network)


@pytest.mark.parametrize(
    "nodes",
    [
        pytest.param([node("ConstantOfShape", "big", "c")], id="filled"),
        pytest.param([node("Range", "zero large one", "c")], id="range"),
        pytest.param([node("Expand", "number big", "c")], id="expanded"),
        pytest.param([node("Add", "column row", "c")], id="outer sum"),
        pytest.param([node("ConstantOfShape", "over", "c")], id="for every item"),
        pytest.param(
            [node("Concat", "row row", "row0", axis=0)]
            + [node("Concat", f"row{index} row{index}", f"row{index + 1}", axis=0) for index in range(10)]
            + [node("Concat", "row10 row10", "c", axis=0)], id="doubled",
        ),
        pytest.param(
            [node("Expand", f"{name} half", f"{name}s") for name in ("number", "column")]
            + [node("Add", "numbers columns", "c")], id="in several nodes",
        ),
    ],
)  # fmt: skip
def test_a_small_file_makes_no_large_constant(nodes: list[Node]) -> None:
    constants = {
        "big": [2**20, 2**10], "over": [BATCH, 2**30], "half": [2**13, 2**12],
        "zero": 0, "large": 2**40, "one": 1, "number": 1.0,
        "column": np.zeros((2**13, 1)), "row": np.zeros((1, 2**14)),
    }  # fmt: skip
    with pytest.raises(EngineError, match=r"'c'.*too (large|long)"):
        lower(graph([*nodes, node("Relu", "x", "y")], constants, x=(3,)))


WORDS: list[Any] = [
    -1,
    0,
    1,
    3,
    2**31 - 1,
    2**63,
    0.5,
    float("nan"),
    "SAME_UPPER",
    "",
    (),
    (0,),
    (1, -1),
    (2,) * 4,
    (BATCH, 3),
]
ARRAYS: list[Array] = [
    np.array(0), np.array([1, -1]), np.array([BATCH, 4]), np.zeros((0,)), np.zeros((0, 3), np.int64), np.array(["a"]),
    np.array(True), normal(3, 4), normal(2, 3, 3, 3), np.array(2**63 - 1), np.array([2**62] * 3), np.array(1j),
]  # fmt: skip


def victims() -> list[Graph]:
    image = [
        node("Conv", "x w", "a", pads=(1, 1, 1, 1), group=1, strides=(1, 1), auto_pad="NOTSET"),
        node("BatchNormalization", "a s s s s", "b", epsilon=1e-3), node("Clip", "b", "c", min=0.0, max=6.0),
        node("MaxPool", "c", "d", kernel_shape=(2, 2), strides=(2, 2), ceil_mode=1),
        node("AdaptiveAveragePool", "d", "e", output_size=(1, 1)), node("Flatten", "e", "f", axis=1),
        node("Gemm", "f l", "g", alpha=1.0, transB=1), node("LayerNormalization", "g t t", "h", axis=-1),
    ]  # fmt: skip
    tokens = [
        node("Shape", "x", "n", start=0, end=1), node("Concat", "n rest", "size", axis=0),
        node("Mul", "size ones", "product"), node("ConstantOfShape", "product", "filled", value=0.5),
        node("Concat", "filled x", "all", axis=1), node("Split", "all", "p q", axis=2, split=(2, 2)),
        node("Transpose", "q", "t", perm=(0, 2, 1)), node("MatMul", "p t", "scores"),
        node("Softmax", "scores", "soft", axis=-1), node("Slice", "soft from to axis", "cut"),
        node("Gather", "cut index", "row", axis=1), node("ReduceMean", "row", "mean", axes=(1,), keepdims=1),
        node("Unsqueeze", "mean", "more", axes=(1,)), node("Squeeze", "more", "less", axes=(1,)),
    ]  # fmt: skip
    return [
        graph(image, {"w": normal(3, 3, 3, 3), "s": np.ones(3), "l": normal(2, 3), "t": np.ones(2)}, x=(3, 5, 5)),
        graph(tokens, {
            "rest": [1, 4], "ones": [1, 1, 1], "from": [0], "to": [2], "axis": [1], "index": 0,
        }, x=(3, 4)),
    ]  # fmt: skip


@settings(max_examples=600, deadline=None)
@given(st.data())
def test_a_spoilt_graph_runs_or_is_refused(data: st.DataObject) -> None:
    """Attributes, inputs and constants are replaced by others: there is an EngineError, or steps with a result."""
    network = data.draw(st.sampled_from(victims()))
    nodes, constants = list(network.nodes), dict(network.constants)
    names = [*network.inputs, *constants, *(name for each in nodes for name in each.outputs), "nowhere", ""]
    for _ in range(data.draw(st.integers(1, 3))):
        place = data.draw(st.integers(0, len(nodes) - 1))
        spoilt = nodes[place]
        match data.draw(st.sampled_from(["attribute", "input", "constant", "operator", "drop"])):
            case "attribute" if spoilt.attributes:
                name = data.draw(st.sampled_from(sorted(spoilt.attributes)))
                nodes[place] = replace(
                    spoilt, attributes={**spoilt.attributes, name: data.draw(st.sampled_from(WORDS))}
                )
            case "input":
                inputs = data.draw(st.lists(st.sampled_from(names), max_size=3))
                nodes[place] = replace(spoilt, inputs=tuple(inputs))
            case "constant":
                constants[data.draw(st.sampled_from(sorted(constants)))] = data.draw(st.sampled_from(ARRAYS))
            case "operator":
                nodes[place] = replace(
                    spoilt, op=data.draw(st.sampled_from([each.op for v in victims() for each in v.nodes]))
                )
            case "drop" if len(nodes) > 1:
                del nodes[place]
    shape = network.inputs["x"][1:]
    try:
        steps = lower(replace(network, nodes=tuple(nodes), constants=constants))
    except EngineError:
        return
    if sum(prod(each) for each in steps.shapes.values()) > 10**6:
        return
    x = normal(2, *shape)
    for one_way, other in zip(run(steps, [x]), run(fuse(steps), [x]), strict=True):
        np.testing.assert_allclose(other, one_way, rtol=1e-3, atol=1e-3)
