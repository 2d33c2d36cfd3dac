"""Every kind of step gives what PyTorch gives in float64."""

from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from torch.nn import functional

from asni.engine import interpreter
from asni.engine.activations import ACTIVATIONS, activate
from asni.engine.graph import Graph
from asni.engine.interpreter import run
from asni.engine.lowering import lower
from asni.engine.steps import Activation
from asni.errors import EngineError
from tests.engine.graphs import calculated, double, graph, node, normal, one, same

SIDES = st.integers(1, 3)


@settings(max_examples=60, deadline=None)
@given(
    groups=st.integers(1, 3), members=SIDES, outputs=SIDES, size=st.tuples(st.integers(1, 9), st.integers(1, 9)),
    kernel=st.tuples(SIDES, SIDES), stride=st.tuples(SIDES, SIDES), dilation=st.tuples(SIDES, SIDES),
    padding=st.tuples(st.integers(0, 4), st.integers(0, 4)), items=st.integers(1, 3), seed=st.integers(0, 99),
)  # fmt: skip
def test_convolutions(
    groups: int, members: int, outputs: int, size: tuple[int, int], kernel: tuple[int, int], stride: tuple[int, int],
    dilation: tuple[int, int], padding: tuple[int, int], items: int, seed: int,
) -> None:  # fmt: skip
    reach = [(k - 1) * d + 1 for k, d in zip(kernel, dilation, strict=True)]
    assume(all(n + 2 * p >= r for n, p, r in zip(size, padding, reach, strict=True)))
    x = normal(items, groups * members, *size, seed=seed)
    weight, bias = normal(groups * outputs, members, *kernel, seed=seed + 1), normal(groups * outputs, seed=seed + 2)
    weight[weight < 0.3] = 0
    settings = {"strides": stride, "dilations": dilation, "pads": padding * 2, "group": groups}
    expected = functional.conv2d(double(x), double(weight), double(bias), stride, padding, dilation, groups)
    same(calculated(one("Conv", x.shape[1:], weight, bias, **settings), x), expected)


@settings(max_examples=40, deadline=None)
@given(size=st.integers(1, 9), kernel=SIDES, stride=SIDES, padding=st.tuples(SIDES, SIDES), groups=st.integers(1, 2))
def test_convolutions_in_one_dimension(
    size: int, kernel: int, stride: int, padding: tuple[int, int], groups: int
) -> None:
    x, weight = normal(2, 4, size), normal(6, 4 // groups, kernel, seed=1)
    padded = functional.pad(double(x), padding)
    assume(padded.shape[2] >= kernel)
    network = one("Conv", (4, size), weight, strides=(stride,), pads=padding, group=groups)
    same(calculated(network, x), functional.conv1d(padded, double(weight), None, stride, groups=groups))


@pytest.mark.parametrize("how", ["SAME_UPPER", "SAME_LOWER"])
@pytest.mark.parametrize("size", [5, 6, 7])
@pytest.mark.parametrize("stride", [1, 2, 3])
def test_a_same_padding_gives_a_window_for_every_stride(how: str, size: int, stride: int) -> None:
    x, weight = normal(1, 1, size), normal(1, 1, 4, seed=1)
    count = -(-size // stride)
    total = max((count - 1) * stride + 4 - size, 0)
    less, more = total // 2, total - total // 2
    padded = functional.pad(double(x), (less, more) if how == "SAME_UPPER" else (more, less))
    network = one("Conv", (1, size), weight, strides=(stride,), auto_pad=how)
    result = calculated(network, x)
    assert result.shape[2] == count
    same(result, functional.conv1d(padded, double(weight), None, stride))


@settings(max_examples=100, deadline=None)
@given(
    size=st.tuples(st.integers(1, 9), st.integers(1, 9)), kernel=st.tuples(SIDES, SIDES), data=st.data(),
    stride=st.tuples(SIDES, SIDES), ceil=st.booleans(), average=st.booleans(), counted=st.booleans(),
    dilation=st.tuples(SIDES, SIDES),
)  # fmt: skip
def test_pools(
    size: tuple[int, int], kernel: tuple[int, int], data: st.DataObject, stride: tuple[int, int], ceil: bool,
    average: bool, counted: bool, dilation: tuple[int, int],
) -> None:  # fmt: skip
    """Windows that leave the map on the right because counts are rounded up are divided as PyTorch divides them."""
    padding = tuple(data.draw(st.integers(0, k // 2)) for k in kernel)
    dilation = (1, 1) if average else dilation
    reach = [(k - 1) * d + 1 for k, d in zip(kernel, dilation, strict=True)]
    assume(all(n + 2 * p >= r for n, p, r in zip(size, padding, reach, strict=True)))
    assume(all(d <= n for n, d in zip(size, dilation, strict=True)))
    x = normal(2, 3, *size)
    common: dict[str, Any] = {"kernel_shape": kernel, "strides": stride, "pads": padding * 2, "ceil_mode": int(ceil)}
    if average:
        network = one("AveragePool", x.shape[1:], **common, count_include_pad=int(counted))
        expected = functional.avg_pool2d(double(x), kernel, stride, padding, ceil, counted)
    else:
        network = one("MaxPool", x.shape[1:], **common, dilations=dilation)
        expected = functional.max_pool2d(double(x), kernel, stride, padding, dilation, ceil)
    same(calculated(network, x), expected)


def test_an_average_over_a_window_that_is_cut_off() -> None:
    """The last window has the 4 alone. A padding on the right would count, and there is none."""
    x = np.array([[[1, 2, 4]]], np.float32)
    common = {"kernel_shape": (2,), "strides": (2,), "ceil_mode": 1}
    for counted in (0, 1):
        assert calculated(one("AveragePool", (1, 3), **common, count_include_pad=counted), x).tolist() == [[[1.5, 4]]]
    padded = one("AveragePool", (1, 3), **common, pads=(0, 1), count_include_pad=1)
    assert calculated(padded, x).tolist() == [[[1.5, 2]]]


@settings(max_examples=50, deadline=None)
@given(
    size=st.tuples(SIDES, st.integers(1, 9)), out=st.tuples(st.integers(1, 5), st.integers(1, 5)), average=st.booleans()
)
def test_adaptive_pools(size: tuple[int, int], out: tuple[int, int], average: bool) -> None:
    x = normal(2, 3, *size)
    torchs = functional.adaptive_avg_pool2d if average else functional.adaptive_max_pool2d
    op = "AdaptiveAveragePool" if average else "AdaptiveMaxPool"
    same(calculated(one(op, x.shape[1:], output_size=out), x), torchs(double(x), out))
    torchs_1d = functional.adaptive_avg_pool1d if average else functional.adaptive_max_pool1d
    flat = x.reshape(2, 3, -1)
    same(calculated(one(op, flat.shape[1:], output_size=(out[0],)), flat), torchs_1d(double(flat), out[0]))


@pytest.mark.parametrize("shape", [(2, 3, 5), (2, 3, 4, 5), (2, 3, 2, 3, 4)])
def test_global_pools(shape: tuple[int, ...]) -> None:
    x = normal(*shape)
    axes = tuple(range(2, len(shape)))
    same(calculated(one("GlobalAveragePool", shape[1:]), x), double(x).mean(axes, keepdim=True))
    same(calculated(one("GlobalMaxPool", shape[1:]), x), double(x).amax(axes, keepdim=True))


TORCHS: dict[str, Any] = {
    "relu": functional.relu, "gelu": functional.gelu, "silu": functional.silu, "sigmoid": torch.sigmoid,
    "gelu_tanh": lambda x: functional.gelu(x, approximate="tanh"), "tanh": torch.tanh,
    "hard_swish": functional.hardswish, "erf": torch.erf, "exp": torch.exp, "sqrt": torch.sqrt, "abs": torch.abs,
    "neg": torch.neg, "clip": lambda x: torch.clamp(x, -1, 2), "leaky_relu": lambda x: functional.leaky_relu(x, 0.1),
    "hard_sigmoid": functional.hardsigmoid,
}  # fmt: skip
NUMBERS = {"clip": (-1.0, 2.0), "leaky_relu": (0.1, 0.0), "hard_sigmoid": (1 / 6, 0.5)}


@pytest.mark.parametrize("function", ACTIVATIONS)
def test_functions_of_one_number_and_of_no_number(function: Any) -> None:
    x = np.array([-np.inf, -88, -5, -1, -0.3, 0, 1e-3, 0.5, 1, 3, 5, 80, np.inf, np.nan], np.float32)
    with np.errstate(all="ignore"):
        result = np.asarray(activate(Activation(function, *NUMBERS.get(function, ())), x), np.float32)
    same(result, TORCHS[function](double(x)))


@pytest.mark.parametrize("weight", [0.0, -0.0])
def test_a_zero_weight_times_infinity_is_not_a_number(weight: float) -> None:
    x = np.array([[np.inf, 1.0]], np.float32)
    assert np.isnan(calculated(one("MatMul", (2,), [[weight], [1.0]]), x)).all()
    image = x.reshape(1, 2, 1, 1)
    assert np.isnan(calculated(one("Conv", (2, 1, 1), np.reshape([weight, 1.0], (1, 2, 1, 1))), image)).all()


def test_what_is_no_number_stays_so_in_pools_and_maxima() -> None:
    x = np.array([[[[1, np.nan], [2, 3]]]], np.float32)
    for network in (
        one("MaxPool", (1, 2, 2), kernel_shape=(2, 2)), one("AveragePool", (1, 2, 2), kernel_shape=(2, 2)),
        one("GlobalMaxPool", (1, 2, 2)), one("GlobalAveragePool", (1, 2, 2)),
    ):  # fmt: skip
        assert np.isnan(calculated(network, x)).all()
    assert np.isnan(calculated(one("Max", (1, 2, 2), 0.0), x)).sum() == 1


@pytest.mark.parametrize("axis", [1, 2, -1])
def test_softmax(axis: int) -> None:
    x = normal(2, 3, 4) * 50
    same(calculated(one("Softmax", (3, 4), axis=axis), x), double(x).softmax(axis))


@pytest.mark.parametrize("trailing", [(4,), (3, 4)])
def test_layer_norm(trailing: tuple[int, ...]) -> None:
    x, weight, bias = normal(2, 3, 4) + 5, normal(*trailing, seed=1), normal(*trailing, seed=2)
    network = one("LayerNormalization", (3, 4), weight, bias, axis=-len(trailing), epsilon=1e-3)
    same(calculated(network, x), functional.layer_norm(double(x), trailing, double(weight), double(bias), 1e-3))


def test_batch_norm() -> None:
    x, (scale, shift, mean) = normal(2, 3, 4), normal(3, 3, seed=1)
    variance = np.array([0.5, 1, 2], np.float32)
    statistics = double(mean), double(variance)
    expected = functional.batch_norm(double(x), *statistics, double(scale), double(shift), eps=1e-3)
    same(calculated(one("BatchNormalization", (3, 4), scale, shift, mean, variance, epsilon=1e-3), x), expected)


def test_any_number_of_items_and_none() -> None:
    network = lower(one("GlobalAveragePool", (3, 2, 2)))
    x = normal(5, 3, 2, 2)
    for count in (0, 1, 5):
        (result,) = run(network, [x[:count]])
        assert result.shape == (count, 3, 1, 1)
        np.testing.assert_allclose(result, x[:count].mean((2, 3), keepdims=True), rtol=1e-5)


@pytest.mark.parametrize("count", [0, 1, 3, 4])
def test_a_fixed_batch_is_run_whole_and_no_other_is_taken(count: int) -> None:
    network = lower(Graph({"x": (2, 3)}, ("y",), (node("Softmax", "x", "y", axis=0),), {}))
    assert network.fixed_batch == 2
    x = normal(4, 3)
    same(run(network, [x[:2]])[0], double(x)[:2].softmax(0))
    with pytest.raises(EngineError, match=r"has the shape .*; expected \(2, 3\), .* this batch size alone"):
        run(network, [x[:count]])


def test_a_result_without_a_batch_is_given_once() -> None:
    network = lower(Graph({"x": (2, 3)}, ("y",), (node("ReduceMean", "x", "y", keepdims=0),), {}))
    x = normal(4, 3)
    same(run(network, [x[:2]])[0], double(x)[:2].mean())
    with pytest.raises(EngineError, match="this batch size alone"):
        run(network, [x])


@pytest.mark.parametrize(
    ("shapes", "said"),
    [
        ([(2, 2, 3)], "has 2 inputs, and 1 are given"),
        ([(2, 2, 3), (3, 3)], "differ in their number of items"),
        ([(2, 3), (2, 3)], "input a has the shape"),
        ([(2, 2, 4), (2, 3)], "input a has the shape"),
    ],
)
def test_wrong_inputs_are_named(shapes: list[tuple[int, ...]], said: str) -> None:
    network = lower(graph([node("Unsqueeze", "b", "c", axes=(1,)), node("Add", "a c", "sum")], a=(2, 3), b=(3,)))
    with pytest.raises(EngineError, match=said):
        run(network, [normal(*shape) for shape in shapes])


def test_a_large_map_is_convolved_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    x, weight = normal(1, 3, 20, 20), normal(4, 3, 3, 3, seed=1)
    network = lower(one("Conv", x.shape[1:], weight))
    whole = run(network, [x])[0]
    monkeypatch.setattr(interpreter, "MOST_COLUMNS", 27 * 18 * 5)
    np.testing.assert_allclose(run(network, [x])[0], whole, rtol=1e-5, atol=1e-6)
