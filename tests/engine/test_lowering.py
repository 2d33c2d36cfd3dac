"""A graph becomes steps that give what the graph gives, for any batch; or it is refused, by operator and node."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional

from asni.engine.fusing import fuse
from asni.engine.graph import BATCH, Graph, Node
from asni.engine.interpreter import run
from asni.engine.lowering import lower
from asni.errors import EngineError
from tests.engine.graphs import calculated, double, find, graph, kinds, node, normal, one, same


def test_shapes_are_those_of_one_item() -> None:
    nodes = [
        node("Conv", "x w", "map", pads=(1, 1, 1, 1)),
        node("Reshape", "map rows", "rows_of_batch"),
        node("Transpose", "rows_of_batch", "turned", perm=(1, 0)),
        node("Transpose", "turned", "back", perm=(1, 0)),
        node("Reshape", "back flat", "y"),
    ]
    constants = {"w": normal(4, 3, 3, 3), "rows": [-1, 8], "flat": [BATCH, 80]}
    steps = lower(graph(nodes, constants, x=(3, 4, 5)))
    assert steps.shapes == {
        "x": (1, 3, 4, 5), "map": (1, 4, 4, 5), "rows_of_batch": (10, 8), "turned": (8, 10), "back": (10, 8),
        "y": (1, 80),
    }  # fmt: skip
    assert steps.fixed_batch is None


def test_a_graph_without_a_batch_takes_one_size() -> None:
    steps = lower(Graph({"x": (6, 4)}, ("y",), (node("Relu", "x", "y"),), {}))
    assert (steps.fixed_batch, steps.shapes) == (6, {"x": (6, 4), "y": (6, 4)})


def test_one_dimension_is_a_map_of_height_1() -> None:
    steps = lower(one("Conv", (3, 7), normal(4, 3, 5), pads=(2, 1), strides=(2,), dilations=(1,)))
    conv = find(steps, "conv")
    assert conv.settings == {
        "stride": (1, 2), "dilation": (1, 1), "pads": (0, 2, 0, 1), "groups": 1, "activation": None,
    }  # fmt: skip
    assert conv.constants["weight"].shape == (4, 3, 1, 5)
    assert [steps.shapes[step.output] for step in steps.steps] == [(1, 3, 1, 7), (1, 4, 1, 3), (1, 4, 3)]


def test_shape_arithmetic_is_folded() -> None:
    """What exporters write for x.view(x.size(0), -1), x.view(-1, c, h * w) and expand_as."""
    nodes = [
        node("Shape", "x", "shape"),
        node("Gather", "shape zero", "n"),
        node("Unsqueeze", "n axis", "n1"),
        node("Slice", "shape two four", "hw"),
        node("Split", "hw", "h w", axis=0),
        node("Mul", "h w", "area"),
        node("Cast", "area", "area64", to=7),
        node("Concat", "n1 three area64", "target", axis=0),
        node("Reshape", "x target", "flat"),
        node("Equal", "target minus", "unknown"),
        node("Where", "unknown ones target", "size"),
        node("Expand", "row size", "rows"),
        node("Add", "flat rows", "y"),
    ]
    constants = {
        "zero": 0, "axis": [0], "two": [2], "four": [4], "three": [3], "minus": [-1], "ones": [1, 1, 1],
        "row": normal(1, 1, 20),
    }  # fmt: skip
    x = normal(2, 3, 4, 5)
    network = graph(nodes, constants, x=(3, 4, 5))
    same(calculated(network, x), double(x).reshape(2, 3, 20) + double(np.asarray(constants["row"])))
    assert kinds(lower(network)) == ["reshape", "constant", "expand", "binary"]


@pytest.mark.parametrize(
    ("op", "other"),
    [("Add", 1), ("Sub", 1), ("Div", 2), ("Div", 0), ("Pow", 2), ("Max", 5), ("Equal", 4)],
)
def test_no_number_is_made_of_the_batch_size_but_a_multiple(op: str, other: int) -> None:
    nodes = [node("Shape", "x", "shape", end=1), node(op, "shape other", "odd"), node("Cast", "odd", "y", to=6)]
    with pytest.raises(EngineError, match=rf"{op} 'odd': .*batch size"):
        lower(graph(nodes, {"other": [other]}, x=(3,)))


def test_no_result_is_scaled_by_the_batch_size() -> None:
    shape = node("Size", "x", "size")
    with pytest.raises(EngineError, match=r"Cast 'number': its result would depend on the batch size"):
        lower(graph([shape, node("Cast", "size", "number", to=1), node("Div", "x number", "y")], x=(3,)))
    with pytest.raises(EngineError, match=r"Div 'y': its result would depend on the batch size"):
        lower(graph([shape, node("Div", "x size", "y")], x=(3,)))
    cut = node("Slice", "x zero end axis", "y")
    with pytest.raises(EngineError, match=r"Slice 'y': where it cuts depends on the batch size"):
        lower(graph([node("Shape", "x", "end", end=1), cut], {"zero": [0], "axis": [1]}, x=(3,)))


def test_the_largest_integer_as_an_end_means_all() -> None:
    x = normal(2, 5)
    for last in (2**31 - 1, 2**63 - 1):
        network = one("Slice", (5,), np.array([0, 1]), np.array([last, last]), np.array([0, 1]))
        same(calculated(network, x), double(x)[:, 1:])


def reference(op: str, torchs: Callable[[torch.Tensor], torch.Tensor], *constants: object, **attributes: Any) -> Any:
    return pytest.param(op, torchs, constants, attributes, id=f"{op}-{len(constants)}-{'-'.join(attributes)}")


@pytest.mark.parametrize(
    ("op", "torchs", "constants", "attributes"),
    [
        reference("Relu", torch.relu),
        reference("Clip", lambda x: x.clamp(0, 6), 0.0, 6.0),
        reference("Clip", lambda x: x.clamp(0, 6), min=0.0, max=6.0),
        reference("Clip", lambda x: x.clamp(min=-0.5), -0.5),
        reference("Clip", lambda x: x.clamp(min=0), 0.0),
        reference("LeakyRelu", lambda x: functional.leaky_relu(x, 0.2), alpha=0.2),
        reference("Gelu", functional.gelu),
        reference("Gelu", lambda x: functional.gelu(x, approximate="tanh"), approximate="tanh"),
        reference("HardSigmoid", lambda x: (0.3 * x + 0.4).clamp(0, 1), alpha=0.3, beta=0.4),
        reference("HardSwish", functional.hardswish),
        reference("Silu", functional.silu),
        reference("Swish", functional.silu, alpha=1.0),
        reference("Add", lambda x: x + 2, 2.0),
        reference("Sub", lambda x: x - double(np.ones((3, 1))), np.ones((3, 1))),
        reference("Pow", lambda x: x**2, 2),
        reference("Max", lambda x: x.clamp(0.1, None).maximum(torch.tensor(0.2)), np.float16(0.1), 0.2),
        reference("Min", lambda x: x),
        reference("Flatten", lambda x: x.flatten(1)),
        reference("Flatten", lambda x: x.flatten(1), axis=-2),
        reference("Reshape", lambda x: x.reshape(2, 12), np.array([0, -1])),
        reference("Reshape", lambda x: x.reshape(2, 2, 6), np.array([BATCH, 2, 6])),
        reference("Transpose", lambda x: x.transpose(1, 2), perm=(0, 2, 1)),
        reference("Unsqueeze", lambda x: x[:, None, :, None], np.array([1, -2])),
        reference("Unsqueeze", lambda x: x[:, None], axes=(1,)),
        reference("Slice", lambda x: x[:, 1:, :3:2], *np.array([[1, 0], [9, -1], [1, 2], [1, 2]])),
        reference("Slice", lambda x: x[:, :, 1:3], starts=(1,), ends=(3,), axes=(2,)),
        reference("Slice", lambda x: x.flip(2)[:, :, 1:], *np.array([[-2], [-9], [2], [-1]])),
        reference("Gather", lambda x: x[:, -1], np.array(-1), axis=1),
        reference("Gather", lambda x: x[:, :, [1, 3]], np.array([1, 3]), axis=2),
        reference("Gather", lambda x: x[:, :, [2, 1, 0]], np.array([2, 1, 0]), axis=2),
        reference("Expand", lambda x: x, np.array([1, 3, 1])),
        reference("Identity", lambda x: x),
        reference("Dropout", lambda x: x, 0.5, np.array(False)),
        reference("Cast", lambda x: x, to=1),
        reference("ReduceMean", lambda x: x.mean(2, keepdim=True), np.array([-1])),
        reference("ReduceMean", lambda x: x.mean((1, 2)), axes=(2, 1), keepdims=0),
        reference("ReduceMean", lambda x: x, noop_with_empty_axes=1),
        reference("MatMul", lambda x: x @ double(normal(4, 5)), normal(4, 5)),
        reference("MatMul", lambda x: x @ double(normal(4)), normal(4)),
        reference("MatMul", lambda x: x @ double(normal(1, 4, 5)), normal(1, 4, 5)),
    ],
)  # fmt: skip
def test_operators(
    op: str, torchs: Callable[[torch.Tensor], torch.Tensor], constants: Sequence[object], attributes: Any
) -> None:
    x = normal(2, 3, 4)
    same(calculated(one(op, (3, 4), *constants, **attributes), x), torchs(double(x)))


@pytest.mark.parametrize("rows", [(), (1,), (5,), (1, 5)])
@pytest.mark.parametrize("transposed", [0, 1])
def test_gemm(rows: tuple[int, ...], transposed: int) -> None:
    x, weight, bias = normal(3, 4), normal(*((5, 4) if transposed else (4, 5)), seed=1), normal(*rows, seed=2)
    network = one("Gemm", (4,), weight, bias, alpha=0.5, beta=2.0, transB=transposed)
    expected = 0.5 * double(x) @ double(weight.T if transposed else weight) + 2 * double(bias)
    same(calculated(network, x), expected)
    assert kinds(lower(network)) == ["linear"]


def test_gemm_of_values() -> None:
    nodes = [node("Gemm", "x y z", "out", alpha=2.0, beta=0.5, transA=1, transB=1)]
    x, y, z = normal(4, 3), normal(5, 4, seed=1), normal(3, 5, seed=2)
    network = Graph({"x": (4, 3), "y": (5, 4), "z": (3, 5)}, ("out",), tuple(nodes), {})
    (result,) = run(fuse(lower(network)), [x, y, z])
    same(result, 2 * double(x).T @ double(y).T + 0.5 * double(z))


@pytest.mark.parametrize("sizes", [None, (1, 2, 3)])
def test_split(sizes: tuple[int, ...] | None) -> None:
    attributes = {} if sizes is None else {"split": sizes}
    nodes = [node("Split", "x", "a b c", axis=1, **attributes), node("Concat", "c a b", "y", axis=1)]
    x = normal(2, 6)
    a, b, c = double(x).split(2 if sizes is None else list(sizes), 1)
    same(calculated(graph(nodes, x=(6,)), x), torch.cat([c, a, b], 1))


def test_a_constant_alone_is_calculated_beforehand() -> None:
    nodes = [node("Softmax", "c", "s", axis=0), node("MatMul", "s w", "p"), node("Mul", "x p", "y")]
    constants = {"c": normal(3, 4), "w": normal(4, 4, seed=1)}
    network = graph(nodes, constants, x=(3, 4))
    x = normal(2, 3, 4)
    same(calculated(network, x), double(x) * (double(constants["c"]).softmax(0) @ double(constants["w"])))
    assert kinds(fuse(lower(network))) == ["binary"]


def test_outputs_keep_their_names_and_order() -> None:
    nodes = [node("Identity", "x", "a"), node("Relu", "x", "b"), node("Identity", "b", "c"), node("Flatten", "b", "d")]
    network = graph(nodes, outputs=("c", "a", "d", "b"), x=(2,))
    x = normal(3, 2)
    for steps in (lower(network), fuse(lower(network))):
        assert steps.outputs == ("c", "a", "d", "b")
        relu = np.maximum(x, 0)
        for result, expected in zip(run(steps, [x]), (relu, x, relu, relu), strict=True):
            np.testing.assert_array_equal(result, expected)


def test_made_names_do_not_clash_with_given_ones() -> None:
    nodes = [node("Relu", "x", "y.0"), node("ReduceMean", "y.0", "y", axes=(1,), keepdims=0), node("Add", "y y", "z")]
    x = normal(2, 3)
    same(calculated(graph(nodes, x=(3,)), x), 2 * double(x).relu().mean(1))


class Attention(nn.Module):
    """As PyTorch's multi-head attention calculates: tokens first, then the batch with the heads inside."""

    def __init__(self) -> None:
        super().__init__()
        self.qkv, self.out = nn.Linear(8, 24), nn.Linear(8, 8)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        tokens, items, width = x.shape
        q, k, v = (each.reshape(tokens, items * 2, 4).transpose(0, 1) for each in self.qkv(x).chunk(3, -1))
        mixed = (q * 0.5 @ k.transpose(1, 2)).softmax(-1) @ v
        out: torch.Tensor = self.out(mixed.transpose(0, 1).reshape(tokens, items, width))
        return out


def attention(x: str, y: str) -> list[Node]:
    heads = [node("Reshape", f"{name} heads", f"{name}h") for name in "qkv"]
    return [
        node("MatMul", f"{x} w", "xw"), node("Add", "xw b", "qkv"), node("Split", "qkv", "q k v", axis=2), *heads,
        node("Transpose", "qh", "qt", perm=(1, 0, 2)), node("Transpose", "kh", "kt", perm=(1, 2, 0)),
        node("Transpose", "vh", "vt", perm=(1, 0, 2)), node("Mul", "qt half", "scaled"),
        node("MatMul", "scaled kt", "scores"), node("Softmax", "scores", "weights", axis=-1),
        node("MatMul", "weights vt", "mixed"), node("Transpose", "mixed", "turned", perm=(1, 0, 2)),
        node("Reshape", "turned back", "joined"), node("MatMul", "joined wo", "projected"),
        node("Add", "projected bo", y),
    ]  # fmt: skip


def test_attention_with_heads_inside_the_batch() -> None:
    torch.manual_seed(0)
    module, tokens = Attention(), 5
    nodes = [
        node("Transpose", "x", "tokens", perm=(1, 0, 2)), *attention("tokens", "attended"),
        node("Add", "attended tokens", "sum"), node("Transpose", "sum", "y", perm=(1, 0, 2)),
    ]  # fmt: skip
    state = {name: each.detach().numpy() for name, each in module.state_dict().items()}
    constants = {
        "w": state["qkv.weight"].T, "b": state["qkv.bias"], "wo": state["out.weight"].T, "bo": state["out.bias"],
        "heads": [tokens, 2 * BATCH, 4], "back": [tokens, BATCH, 8], "half": 0.5,
    }  # fmt: skip
    network = graph(nodes, constants, x=(tokens, 8))
    assert lower(network).shapes["qh"] == (tokens, 2, 4)
    x = normal(3, tokens, 8)
    turned = double(x).transpose(0, 1)
    with torch.no_grad():
        same(calculated(network, x), (module.double()(turned) + turned).transpose(0, 1))


def test_a_class_token_is_made_once() -> None:
    nodes = [
        node("Shape", "x", "n", end=1), node("Concat", "n rest", "size", axis=0),
        node("Expand", "token size", "tokens"), node("Concat", "tokens x", "y", axis=1),
    ]  # fmt: skip
    token, x = normal(1, 1, 4, seed=1), normal(3, 5, 4)
    network = graph(nodes, {"rest": [1, 4], "token": token}, x=(5, 4))
    same(calculated(network, x), torch.cat([double(token).expand(3, 1, 4), double(x)], 1))
    steps = fuse(lower(network))
    assert kinds(steps) == ["constant", "concat"]
    assert find(steps, "constant").constants["value"].shape == (1, 1, 4)
