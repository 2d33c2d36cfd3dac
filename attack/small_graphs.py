"""Graphs that have every operator between them, small enough to run ten thousand times."""

from collections.abc import Sequence

import numpy as np

from asni.engine.graph import BATCH, Array, Attribute, Graph, Node


class _Writer:
    """Collects the nodes and constants of a graph."""

    def __init__(self) -> None:
        self.nodes: list[Node] = []
        self.constants: dict[str, Array] = {}
        self._rng = np.random.default_rng(0)

    def __call__(self, op: str, *inputs: str, outputs: int = 1, **attributes: Attribute) -> str:
        """Add a node, and return its output, or the first of several, whose names differ by their ends."""
        name = f"{op.lower()}{len(self.nodes)}"
        names = (name, *(f"{name}.{index}" for index in range(1, outputs)))
        self.nodes.append(Node(op, name, inputs, names, attributes))
        return name

    def constant(self, value: Array | Sequence[int] | int | float) -> str:
        name = f"constant{len(self.constants)}"
        self.constants[name] = np.asarray(value, np.float32 if isinstance(value, float) else None)
        return name

    def weight(self, *shape: int) -> str:
        dense = self._rng.normal(size=shape).astype(np.float32)
        return self.constant(dense * (self._rng.random(shape) < 0.5))

    def positive(self, *shape: int) -> str:
        return self.constant(self._rng.random(shape).astype(np.float32) + 0.5)

    def graph(self, *outputs: str, **inputs: tuple[int, ...]) -> Graph:
        return Graph(inputs, outputs, tuple(self.nodes), self.constants)


def originals() -> list[Graph]:
    """A network of convolutions, one of attention, and one of shapes that are calculated."""
    return [_convolutions(), _attention(), _shapes()]


def _convolutions() -> Graph:
    add = _Writer()
    x = add("Conv", "x", add.weight(8, 3, 3, 3), add.weight(8), pads=(1, 1, 1, 1), kernel_shape=(3, 3))
    x = add("BatchNormalization", x, *(add.positive(8) for _ in range(4)), epsilon=1e-5)
    short = x = add("MaxPool", add("Relu", x), kernel_shape=(3, 3), strides=(2, 2), pads=(1, 1, 1, 1), ceil_mode=1)
    x = add("Conv", x, add.weight(8, 2, 3, 3), group=4, dilations=(2, 2), pads=(2, 2, 2, 2))
    x = add("Add", add("LeakyRelu", x, alpha=0.1), short)
    x = add("AveragePool", add("Clip", x, add.constant(0.0), add.constant(6.0)), kernel_shape=(2, 2), strides=(1, 2))
    x = add("Conv", add("HardSwish", x), add.weight(4, 8, 1, 1), auto_pad="SAME_UPPER", strides=(2, 1))
    x = add(
        "Concat",
        add("AdaptiveAveragePool", x, output_size=(2, 2)),
        add("AdaptiveMaxPool", x, output_size=(2, 2)),
        axis=1,
    )
    line = add("Reshape", x, add.constant([0, 8, -1]))
    line = add("Conv", line, add.weight(8, 8, 3), pads=(1, 1))
    line = add("MaxPool", add("HardSigmoid", line, alpha=0.2, beta=0.5), kernel_shape=(2,), strides=(2,))
    pooled = add("Flatten", add("Add", add("GlobalAveragePool", x), add("GlobalMaxPool", x)))
    x = add("Concat", pooled, add("Flatten", line), axis=-1)
    x = add("Gemm", x, add.weight(10, 24), add.weight(10), transB=1, alpha=0.5, beta=2.0)
    return add.graph(add("Softmax", x, axis=-1), x=(BATCH, 3, 12, 10))


def _attention() -> Graph:
    add = _Writer()
    x = add("LayerNormalization", "x", add.positive(8), add.weight(8), axis=-1, epsilon=1e-5)
    x = add("Add", add("MatMul", x, add.weight(8, 24)), add.weight(24))
    parts = add("Split", x, outputs=3, axis=2)
    heads = []
    for part in (parts, f"{parts}.1", f"{parts}.2"):
        shaped = add("Reshape", part, add.constant([0, 5, 2, 4]))
        heads.append(add("Transpose", shaped, perm=(0, 2, 1, 3)))
    query, key, value = heads
    query = add("Mul", query, add.constant(0.5))
    scores = add("MatMul", query, add("Transpose", key, perm=(0, 1, 3, 2)))
    scores = add("Add", scores, add.constant(np.triu(np.full((5, 5), -np.inf, np.float32), 1)))
    x = add("MatMul", add("Softmax", scores, axis=3), value)
    x = add("Reshape", add("Transpose", x, perm=(0, 2, 1, 3)), add.constant([-1, 5, 8]))
    short = x = add("Sub", x, add("Div", add("Neg", "x"), add.constant(3.0)))
    x = add("Gelu", add("MatMul", x, add.weight(8, 16)), approximate="tanh")
    x = add("Add", add("MatMul", add("Silu", add("Gelu", x)), add.weight(16, 8)), short)
    first = add("Gather", x, add.constant(0), axis=1)
    mean = add("ReduceMean", x, add.constant([1]), keepdims=0)
    x = add("Max", first, mean, add("Min", first, add("Tanh", mean)))
    return add.graph(add("Gemm", x, add.weight(8, 3)), first, x=(BATCH, 5, 8))


def _shapes() -> Graph:
    add = _Writer()
    shape = add("Shape", "x")
    batch = add("Gather", shape, add.constant([0]), axis=0)
    rest = add("Div", add("Size", "x"), add.constant(4))
    rest = add("Div", add("Unsqueeze", rest, add.constant([0])), batch)
    x = add("Reshape", "x", add("Concat", batch, add.constant([4]), rest, axis=0))
    x = add("Slice", x, add.constant([1]), add.constant([2**63 - 1]), add.constant([2]), add.constant([2]))
    ones = add("Expand", add.constant(1.5), add("Concat", batch, add.constant([1, 3]), axis=0))
    places = add("Cast", add("Range", add.constant(0), add.constant(3), add.constant(1)), to=1)
    chosen = add(
        "Where", add("Equal", add.constant([-1, 2]), add.constant(-1)), add.constant([4, 4]), add.constant([3, 3])
    )
    grid = add("Cast", add("ConstantOfShape", chosen, value=2), to=1)
    x = add("Mul", add("Add", x, add("Mul", ones, places)), grid)
    x = add("Pow", add("Sqrt", add("Abs", add("Erf", x))), add.constant(2.0))
    x = add("Sum", add("Exp", x), add("Sigmoid", x), add("Identity", add("Dropout", x)))
    return add.graph(add("Squeeze", add("Unsqueeze", x, add.constant([2])), add.constant([2])), x=(BATCH, 2, 2, 6))
