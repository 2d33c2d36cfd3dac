"""What steps will take is known before they run."""

import tracemalloc

import numpy as np
import pytest

from asni.engine.cost import activation_bytes, constant_bytes, macs, scratch_bytes
from asni.engine.graph import BATCH, Graph, Node
from asni.engine.interpreter import run
from asni.engine.lowering import lower
from asni.engine.steps import Steps


def steps_of(op: str, shape: tuple[int, ...], weight: tuple[int, ...] | None = None, **attributes: object) -> Steps:
    constants = {} if weight is None else {"w": np.ones(weight, np.float32)}
    node = Node(op, "node", ("x", *constants), ("y",), attributes)  # type: ignore[arg-type]
    return lower(Graph({"x": (BATCH, *shape)}, ("y",), (node,), constants))


def test_multiplications_are_counted_as_if_weights_were_dense() -> None:
    assert macs(steps_of("Conv", (8, 10, 10), (12, 2, 3, 3), group=4)) == 12 * 8 * 8 * 2 * 3 * 3
    assert macs(steps_of("Gemm", (20,), (20, 7))) == 20 * 7
    assert macs(steps_of("MaxPool", (5, 6, 6), kernel_shape=(2, 3), strides=(2, 3))) == 5 * 3 * 2 * 6
    assert macs(steps_of("Relu", (5, 6))) == 30
    assert macs(steps_of("ReduceMean", (5, 6), axes=(1, 2))) == 30


def test_products_of_two_values_are_counted() -> None:
    node = Node("MatMul", "node", ("a", "b"), ("y",))
    assert macs(lower(Graph({"a": (BATCH, 3, 4), "b": (BATCH, 4, 5)}, ("y",), (node,), {}))) == 3 * 4 * 5


def test_a_value_is_kept_until_its_last_use() -> None:
    nodes = (
        Node("Concat", "wide", ("x", "x"), ("a",), {"axis": 1}),
        Node("Relu", "relu", ("a",), ("b",)),
        Node("Tanh", "tanh", ("b",), ("c",)),
        Node("Add", "add", ("c", "a"), ("y",)),
    )
    steps = lower(Graph({"x": (BATCH, 10)}, ("y",), nodes, {}))
    # While tanh runs, a, b and c are there; the input is not used any more.
    assert activation_bytes(steps) == 4 * 60
    assert constant_bytes(steps) == 0
    assert constant_bytes(steps_of("Gemm", (20,), (20, 7))) == 4 * (20 * 7 + 7)


@pytest.mark.parametrize(
    "steps",
    [
        steps_of("Conv", (16, 64, 64), (16, 16, 5, 5), pads=(2, 2, 2, 2)),
        steps_of("Conv", (4, 8, 8), (4, 1, 1, 1), group=4, pads=(400, 400, 400, 400), strides=(200, 200)),
        steps_of("MaxPool", (16, 100, 100), kernel_shape=(7, 7), strides=(3, 3), pads=(3, 3, 3, 3), ceil_mode=1),
        steps_of("AveragePool", (16, 100, 100), kernel_shape=(99, 99), pads=(50, 50, 50, 50)),
        steps_of("AdaptiveAveragePool", (32, 100, 100), output_size=(30, 30)),
        steps_of("Gelu", (100_000,)),
        steps_of("HardSwish", (100_000,)),
        steps_of("Softmax", (300, 300)),
        steps_of("Transpose", (300, 300), perm=(0, 2, 1)),
        steps_of("Gemm", (1000,), (1000, 1000)),
    ],
    ids=lambda steps: str(steps.shapes),
)
def test_one_item_takes_no_more_memory_than_was_said(steps: Steps) -> None:
    inputs = [np.ones(steps.shapes[name], np.float32) for name in steps.inputs]
    run(steps, inputs)
    tracemalloc.start()
    run(steps, inputs)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < activation_bytes(steps) + scratch_bytes(steps) + 10_000
