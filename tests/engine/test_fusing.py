"""Fewer steps, and the same results: what can be folded into a layer is, and what is used elsewhere is not."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn
from torch.nn import functional

from asni.engine.frontends.from_torch import graph_of_module
from asni.engine.fusing import fuse
from asni.engine.graph import BATCH, Graph, Node
from asni.engine.interpreter import run
from asni.engine.lowering import lower
from asni.engine.steps import Activation, Steps
from tests.engine.graphs import calculated, double, find, graph, kinds, node, normal, same

CONV = node("Conv", "x w b", "c", pads=(1, 1, 1, 1))
NORM = node("BatchNormalization", "c scale shift mean variance", "n", epsilon=1e-3)
CONSTANTS: dict[str, Any] = {
    "w": normal(4, 4, 3, 3), "b": normal(4, seed=1), "scale": normal(4, seed=2), "shift": normal(4, seed=3),
    "mean": normal(4, seed=4), "variance": np.array([0.5, 1, 2, 3]),
}  # fmt: skip


def fused(
    nodes: list[Node], constants: dict[str, Any] | None = None, outputs: tuple[str, ...] = (), **inputs: Any
) -> Steps:
    """The fused steps, which give what the lowered ones give."""
    network = graph(nodes, constants, outputs, **inputs)
    calculated(network, *(normal(2, *shape, seed=index) for index, shape in enumerate(inputs.values())))
    return fuse(lower(network))


def test_a_residual_block_is_two_convolutions() -> None:
    nodes = [
        CONV, NORM, node("Relu", "n", "r"), node("Conv", "r w", "d", pads=(1, 1, 1, 1)),
        node("BatchNormalization", "d scale shift mean variance", "m"), node("Add", "m x", "s"),
        node("Clip", "s", "y", min=0.0, max=6.0),
    ]  # fmt: skip
    steps = fused(nodes, CONSTANTS, x=(4, 5, 5))
    assert kinds(steps) == ["conv", "conv"]
    first, second = steps.steps
    assert first.settings["activation"] == Activation("relu")
    assert (second.inputs, second.settings["activation"]) == (("r", "x"), Activation("clip", 0, 6))
    assert (second.output, first.name, second.name) == ("y", "c", "d")


def test_a_batch_norm_is_folded_with_one_rounding() -> None:
    conv = find(fused([CONV, NORM], CONSTANTS, x=(4, 5, 5)), "conv")
    scale = CONSTANTS["scale"] / np.sqrt(CONSTANTS["variance"] + 1e-3)
    np.testing.assert_allclose(conv.constants["weight"], CONSTANTS["w"] * scale[:, None, None, None], rtol=2e-7)
    np.testing.assert_allclose(
        conv.constants["bias"], (CONSTANTS["b"] - CONSTANTS["mean"]) * scale + CONSTANTS["shift"], rtol=1e-6, atol=1e-6
    )
    assert conv.constants["weight"].dtype == conv.constants["bias"].dtype == np.float32


def test_zeros_stay_zeros() -> None:
    weight = CONSTANTS["w"] * (np.abs(CONSTANTS["w"]) > 1)
    conv = find(fused([CONV, NORM], {**CONSTANTS, "w": weight}, x=(4, 5, 5)), "conv")
    np.testing.assert_array_equal(conv.constants["weight"] == 0, weight == 0)


@pytest.mark.parametrize(
    "scaled",
    [
        node("Mul", "c k", "y"), node("Mul", "k c", "y"), node("Add", "k c", "y"), node("Sub", "c k", "y"),
        node("Sub", "k c", "y"), node("Div", "c k", "y"),
    ],
    ids=lambda each: f"{each.op} {' '.join(each.inputs)}",
)  # fmt: skip
@pytest.mark.parametrize("shape", [(), (1,), (4, 1, 1), (1, 4, 1, 1)])
def test_numbers_for_channels_go_into_a_convolution(scaled: Node, shape: tuple[int, ...]) -> None:
    constants = {**CONSTANTS, "k": normal(*shape, seed=5) + 3}
    assert kinds(fused([CONV, scaled], constants, x=(4, 5, 5))) == ["conv"]


@pytest.mark.parametrize("op", ["Mul", "Add"])
def test_numbers_for_outputs_go_into_a_linear_layer(op: str) -> None:
    for shape in ((), (3,), (1, 3)):
        nodes = [node("MatMul", "x w", "p"), node(op, "p k", "y")]
        steps = fused(nodes, {"w": normal(4, 3), "k": normal(*shape, seed=1)}, x=(5, 4))
        assert kinds(steps) == ["linear"]


@pytest.mark.parametrize(
    ("nodes", "left"),
    [
        pytest.param([CONV, node("Mul", "c k", "y"), node("Add", "c y", "z")], 3, id="used elsewhere"),
        pytest.param([CONV, node("Relu", "c", "r"), node("Mul", "r k", "z")], 2, id="after an activation"),
        pytest.param([CONV, node("Add", "c x", "s"), node("Mul", "s k", "z")], 2, id="after a residual"),
        pytest.param([CONV, node("Div", "k c", "z")], 2, id="divided by"),
        pytest.param([CONV, node("Pow", "c k", "z")], 2, id="a power"),
        pytest.param([CONV, node("Mul", "c row", "z")], 2, id="for columns"),
        pytest.param([CONV, node("Mul", "c huge", "z")], 2, id="too large for a weight"),
    ],
)
def test_what_must_not_be_folded_is_not(nodes: list[Node], left: int) -> None:
    constants = {**CONSTANTS, "k": np.full((4, 1, 1), 2.0), "row": normal(5), "huge": 3e38}
    network = graph(nodes, constants, x=(4, 5, 5))
    steps = fuse(lower(network))
    assert len(steps.steps) == left
    x = np.abs(normal(2, 4, 5, 5))
    np.testing.assert_allclose(run(steps, [x])[0], run(lower(network), [x])[0], rtol=1e-5)


def test_an_output_is_not_fused_away() -> None:
    steps = fused([CONV, node("Relu", "c", "y")], CONSTANTS, ("c", "y"), x=(4, 5, 5))
    assert kinds(steps) == ["conv", "unary"]


def test_a_residual_of_itself_and_of_another_shape_is_not_fused() -> None:
    assert kinds(fused([CONV, node("Add", "c c", "y")], CONSTANTS, x=(4, 5, 5))) == ["conv", "binary"]
    nodes = [CONV, node("GlobalAveragePool", "x", "p"), node("Add", "c p", "y")]
    assert kinds(fused(nodes, CONSTANTS, x=(4, 5, 5))) == ["conv", "adaptive_pool", "binary"]


def test_of_two_layers_the_later_one_takes_the_sum() -> None:
    nodes = [CONV, node("Conv", "x w", "d", pads=(1, 1, 1, 1)), node("Add", "c d", "s"), node("LeakyRelu", "s", "y")]
    steps = fused(nodes, CONSTANTS, x=(4, 5, 5))
    assert [step.inputs for step in steps.steps] == [("x",), ("x", "c")]
    assert steps.steps[1].settings["activation"] == Activation("leaky_relu", 0.01)


def test_what_nobody_uses_is_dropped() -> None:
    nodes = [node("Relu", "x", "y"), CONV, node("Flatten", "c", "f"), node("ReduceMean", "f", "m", axes=(1,))]
    steps = fused(nodes, CONSTANTS, ("y",), x=(4, 5, 5))
    assert kinds(steps) == ["unary"]
    assert set(steps.shapes) == {"x", "y"}


@pytest.mark.parametrize(
    "nodes",
    [
        pytest.param([node("Reshape", "x same", "m")], id="reshape"),
        pytest.param([node("Reshape", "x flat", "a"), node("Reshape", "a same", "m")], id="there and back"),
        pytest.param([node("Transpose", "x", "m", perm=(0, 1, 2, 3))], id="transpose"),
        pytest.param(
            [node("Transpose", "x", "a", perm=(0, 2, 3, 1)), node("Transpose", "a", "m", perm=(0, 3, 1, 2))],
            id="channels last and back",
        ),
        pytest.param([node("Slice", "x", "m", starts=(0,), ends=(99,), axes=(2,))], id="slice"),
        pytest.param([node("Concat", "x", "m", axis=1)], id="concat"),
        pytest.param([node("MaxPool", "x", "m", kernel_shape=(1, 1))], id="pool"),
        pytest.param([node("AdaptiveAveragePool", "x", "m", output_size=(5, 5))], id="adaptive"),
        pytest.param([node("Expand", "x ones", "m")], id="expand"),
        pytest.param([node("Dropout", "x", "m")], id="dropout"),
    ],
)
def test_what_moves_nothing_is_no_step(nodes: list[Node]) -> None:
    constants = {"same": [0, 4, 5, 5], "flat": [0, -1], "ones": [1, 1, 1]}
    assert kinds(fused([*nodes, node("Sigmoid", "m", "y")], constants, x=(4, 5, 5))) == ["unary"]
    assert (
        len(fused([node("Sigmoid", "x", "x1"), *[_reading(each) for each in nodes]], constants, x=(4, 5, 5)).steps) == 1
    )


def _reading(each: Node) -> Node:
    return replace(each, inputs=tuple("x1" if name == "x" else name for name in each.inputs))


def test_a_mean_over_a_map_is_a_pool() -> None:
    steps = fused([node("ReduceMean", "x", "m", axes=(2, 3), keepdims=0)], x=(4, 5, 6))
    assert kinds(steps) == ["adaptive_pool", "reshape"]


SQUARE = [node("Pow", "d two", "q")]
PRODUCT = [node("Mul", "d d", "q")]
TWICE = [node("Sub", "x m", "e"), node("Pow", "e two", "q")]


@pytest.mark.parametrize("square", [SQUARE, PRODUCT, TWICE], ids=["pow", "mul", "two differences"])
@pytest.mark.parametrize("axes", [(-1,), (1, 2)])
@pytest.mark.parametrize("scaled", [True, False])
def test_a_layer_norm_in_parts_is_one_step(square: list[Node], axes: tuple[int, ...], scaled: bool) -> None:
    nodes = [
        node("ReduceMean", "x", "m", axes=axes), node("Sub", "x m", "d"), *square,
        node("ReduceMean", "q", "v", axes=axes), node("Add", "v eps", "ve"), node("Sqrt", "ve", "r"),
        node("Div", "d r", "n"),
    ] + [node("Mul", "n g", "ng"), node("Add", "ng h", "y")] * scaled  # fmt: skip
    shape = (3, 4)[-len(axes) :]
    weight, bias = normal(*shape, seed=1), normal(*shape, seed=2)
    constants = {"two": 2.0, "eps": 1e-3, "g": weight, "h": bias}
    assert kinds(fused(nodes, constants, x=(3, 4))) == ["layer_norm"]
    x = normal(2, 3, 4)
    expected = functional.layer_norm(double(x), shape, eps=1e-3)
    expected = expected * double(weight) + double(bias) if scaled else expected
    same(calculated(graph(nodes, constants, x=(3, 4)), x), expected)


def test_what_is_almost_a_layer_norm_is_left_alone() -> None:
    def parts(first: int, second: int, base: str) -> list[Node]:
        return [
            node("ReduceMean", "x", "m", axes=(first,)), node("Sub", "x m", "d"), node("Mul", f"{base} {base}", "q"),
            node("ReduceMean", "q", "v", axes=(second,)), node("Add", "v eps", "ve"), node("Sqrt", "ve", "r"),
            node("Div", "d r", "n"),
        ]  # fmt: skip

    for nodes in (parts(1, 1, "d"), parts(1, 2, "d"), parts(2, 2, "x")):
        assert "layer_norm" not in kinds(fused(nodes, {"eps": 1e-3}, x=(4, 4)))


GELUS = {
    "x/2 * (1+e)": [("Mul", "x half", "h"), ("Mul", "h p", "y")],
    "x * (1+e) / 2": [("Mul", "x p", "h"), ("Div", "h two", "y")],
    "x * (1+e) * 0.5": [("Mul", "p x", "h"), ("Mul", "h half", "y")],
    "x * (0.5 * (1+e))": [("Mul", "half p", "h"), ("Mul", "x h", "y")],
}


@pytest.mark.parametrize("order", GELUS)
@pytest.mark.parametrize("divided", [True, False])
def test_gelu_in_parts_is_one_step(order: str, divided: bool) -> None:
    inner = node("Div", "x root", "u") if divided else node("Mul", "inverse x", "u")
    outer = [node(op, inputs, output) for op, inputs, output in GELUS[order]]
    nodes = [inner, node("Erf", "u", "e"), node("Add", "e one", "p"), *outer]
    constants = {"root": np.float32(2**0.5), "inverse": np.float32(0.5**0.5), "one": 1.0, "half": 0.5, "two": 2.0}
    assert find(fused(nodes, constants, x=(3, 4)), "unary").settings["activation"] == Activation("gelu")
    x = normal(2, 3, 4)
    same(calculated(graph(nodes, constants, x=(3, 4)), x), functional.gelu(double(x)))


@pytest.mark.parametrize(("name", "number"), [("root", 1.5), ("one", 0.9), ("half", 0.6)])
def test_what_is_almost_gelu_is_left_alone(name: str, number: float) -> None:
    nodes = [
        node("Div", "x root", "u"), node("Erf", "u", "e"), node("Add", "e one", "p"), node("Mul", "x half", "h"),
        node("Mul", "h p", "y"),
    ]  # fmt: skip
    steps = fused(nodes, {"root": 2**0.5, "one": 1.0, "half": 0.5, name: number}, x=(3, 4))
    assert find(steps, "unary").settings["activation"] == Activation("erf")


@pytest.mark.parametrize(
    ("gate", "found"),
    [
        (node("Sigmoid", "x", "g"), "silu"),
        (node("HardSigmoid", "x", "g", alpha=1 / 6, beta=0.5), "hard_swish"),
        (node("HardSigmoid", "x", "g"), None),
        (node("Tanh", "x", "g"), None),
    ],
    ids=["silu", "hard-swish", "other numbers", "other function"],
)
@pytest.mark.parametrize("order", ["x g", "g x"])
def test_a_gated_value_is_one_function(gate: Node, found: str | None, order: str) -> None:
    steps = fused([gate, node("Mul", order, "y")], x=(3, 4))
    assert kinds(steps) == (["unary"] if found else ["unary", "binary"])
    assert found is None or steps.steps[0].settings["activation"].function == found


def test_squeeze_and_excite_is_not_taken_for_silu() -> None:
    nodes = [node("Sigmoid", "x", "g"), node("Mul", "z g", "y")]
    assert kinds(fused(nodes, x=(3,), z=(3,))) == ["unary", "binary"]


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Conv1d(4, 4, 3, padding=1), nn.Conv1d(4, 4, 3, padding=1)
        self.norm = nn.BatchNorm1d(4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        inner = torch.relu(self.norm(self.first(x)))
        return torch.relu(self.norm(self.second(inner)) + x)


def test_convolutions_in_one_dimension_are_reshaped_at_the_ends_alone() -> None:
    """Batch norms, sums and activations between them do not keep reshapes from cancelling."""
    torch.manual_seed(0)
    module = nn.Sequential(nn.Conv1d(4, 4, 3), Block(), nn.MaxPool1d(2), Block(), nn.Flatten(), nn.Linear(12, 3)).eval()
    x = torch.randn(2, 4, 8)
    steps = fuse(lower(graph_of_module(module, x)))
    assert kinds(steps) == ["reshape", "conv", "conv", "conv", "pool", "conv", "conv", "reshape", "linear"]
    with torch.no_grad():
        same(run(steps, [x.numpy()])[0], module.double()(x.double()))


def test_two_branches_in_one_dimension_are_summed_where_both_are_made() -> None:
    nodes = [
        node("Conv", "x w", "a"), node("Sigmoid", "a", "p"), node("Conv", "x v", "b"), node("Sigmoid", "b", "q"),
        node("Mul", "p q", "y"),
    ]  # fmt: skip
    steps = fused(nodes, {"w": normal(4, 4, 1), "v": normal(4, 4, 1, seed=1)}, x=(4, 6))
    assert kinds(steps) == ["reshape", "conv", "unary", "reshape", "conv", "unary", "binary", "reshape"]


@pytest.mark.parametrize(
    "nodes",
    [
        pytest.param([node("Reshape", "x one", "r"), node("Add", "r column", "y")], id="the sum is larger"),
        pytest.param([node("Reshape", "x other", "r"), node("Add", "r column", "y")], id="other rows"),
        pytest.param(
            [node("Reshape", "x flat", "r"), node("Reshape", "z flat", "s"), node("Add", "r s", "y")], id="two shapes"
        ),
        pytest.param(
            [node("Reshape", "x flat", "r"), node("MatMul", "r w", "m"), node("Reshape", "m heads", "y")], id="heads"
        ),
    ],
)
def test_reshapes_stay_where_they_matter(nodes: list[Node]) -> None:
    constants = {
        "one": [0, 2, 6, 1], "other": [0, 6, 2], "column": normal(2, seed=1), "flat": [0, 12], "w": normal(12, 6),
        "heads": [0, 2, 3],
    }  # fmt: skip
    first = [node("Sigmoid", "a", "x"), node("Sigmoid", "b", "z")]
    steps = fused([*first, *nodes], constants, a=(2, 6), b=(3, 4))
    assert kinds(steps).count("reshape") == sum(each.op == "Reshape" for each in nodes)


@pytest.mark.parametrize("order", ["s x", "x s"])
def test_a_calculated_constant_goes_to_its_side(order: str) -> None:
    nodes = [node("Softmax", "c", "s", axis=0), node("Sub", order, "y")]
    constant, x = normal(3), normal(2, 3, seed=1)
    network = graph(nodes, {"c": constant}, x=(3,))
    assert kinds(fuse(lower(network))) == ["binary"]
    difference = double(constant).softmax(0) - double(x)
    same(calculated(network, x), difference if order == "s x" else -difference)


def test_attention_has_no_reshapes_around_its_layers() -> None:
    torch.manual_seed(0)
    module = nn.TransformerEncoderLayer(8, 2, 16, 0.0, nn.GELU(), batch_first=True, norm_first=True).eval()
    x = torch.randn(3, 5, 8)
    steps = fuse(lower(graph_of_module(module, x)))
    layers = [step for step in steps.steps if step.kind == "linear"]
    assert len(layers) == 4
    assert [len(step.inputs) for step in layers] == [1, 2, 1, 2]
    assert not [step for step in steps.steps if step.kind == "binary" and len(step.inputs) == 2]
    with torch.no_grad():
        same(run(steps, [x.numpy()])[0], module.double()(x.double()))


POINTWISE: list[Callable[[str, str, str], Node]] = [
    lambda a, b, y: node("Relu", a, y), lambda a, b, y: node("Sigmoid", a, y),
    lambda a, b, y: node("Add", f"{a} {b}", y),
    lambda a, b, y: node("Mul", f"{a} {b}", y), lambda a, b, y: node("Mul", f"{a} k", y),
    lambda a, b, y: node("Sub", f"k {a}", y), lambda a, b, y: node("Add", f"{a} row", y),
    lambda a, b, y: node("Conv", f"{a} w", y, pads=(1, 1, 1, 1)), lambda a, b, y: node("MatMul", f"{a} l", y),
    lambda a, b, y: node("Transpose", a, y, perm=(0, 1, 3, 2)), lambda a, b, y: node("Reshape", f"{a} there", y),
    lambda a, b, y: node("Softmax", a, y), lambda a, b, y: node("ReduceMean", a, y, axes=(2, 3)),
]  # fmt: skip


@settings(max_examples=150, deadline=None)
@given(st.data())
def test_any_network_gives_the_same_after_fusing(data: st.DataObject) -> None:
    """Values of one shape, each made of two earlier ones; any of them may be an output."""
    names, nodes = ["x"], []
    for index in range(data.draw(st.integers(1, 9))):
        a, b = (data.draw(st.sampled_from(names[-4:])) for _ in "ab")
        made = data.draw(st.sampled_from(POINTWISE))(a, b, f"v{index}")
        nodes.append(made)
        if made.op == "ReduceMean":
            nodes.append(node("Expand", f"v{index} full", f"v{index}e"))
        if made.op == "Reshape":
            nodes += [node("Mul", f"v{index} k2", f"v{index}k"), node("Reshape", f"v{index}k full", f"v{index}e")]
        names.append(nodes[-1].outputs[0])
    outputs = data.draw(st.lists(st.sampled_from(names[1:]), min_size=1, max_size=3, unique=True))
    constants = {
        "k": normal(2, 1, 1, seed=1), "row": normal(3, seed=2), "w": 0.3 * normal(2, 2, 3, 3, seed=3),
        "l": 0.3 * normal(3, 3, seed=4), "there": [BATCH, 2, 1, 3, 3], "full": [BATCH, 2, 3, 3],
        "k2": normal(2, 1, 1, 1),
    }  # fmt: skip
    steps = lower(
        Graph({"x": (BATCH, 2, 3, 3)}, tuple(outputs), tuple(nodes), {n: np.array(c) for n, c in constants.items()})
    )
    x = normal(2, 2, 3, 3)
    smaller = fuse(steps)
    assert len(smaller.steps) <= len(steps.steps)
    for one_way, other in zip(run(steps, [x]), run(smaller, [x]), strict=True):
        np.testing.assert_allclose(other, one_way, rtol=1e-3, atol=1e-3 * max(1, np.abs(one_way).max()))


def test_a_constant_that_widens_a_reshaped_value_stays_behind_the_reshape() -> None:
    nodes = [node("Relu", "x", "r"), node("Unsqueeze", "r", "u", axes=(2,)), node("Mul", "u c", "y")]
    assert kinds(fused(nodes, {"c": normal(3)}, x=(4,))) == ["unary", "reshape", "binary"]
