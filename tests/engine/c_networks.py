"""Small networks of every kind of step, drawn at random."""

from collections.abc import Callable, Sequence
from math import prod
from typing import Any

import numpy as np
from hypothesis import strategies as st

from asni.engine.steps import Activation, Function, Kind, Shape, Step, Steps

Array = np.ndarray[Any, Any]

TAME: tuple[Function, ...] = (
    "relu",
    "leaky_relu",
    "gelu",
    "gelu_tanh",
    "silu",
    "sigmoid",
    "tanh",
    "hard_swish",
    "erf",
    "abs",
    "neg",
)
"""Functions whose results stay small however many follow one another."""


class Builder:
    """Steps that grow; every value is named by its number."""

    def __init__(self, *inputs: Shape, seed: int = 0) -> None:
        self.random = np.random.default_rng(seed)
        self.inputs = tuple(f"in{i}" for i in range(len(inputs)))
        self.shapes: dict[str, Shape] = dict(zip(self.inputs, inputs, strict=True))
        self.steps: list[Step] = []

    def add(
        self,
        kind: Kind,
        inputs: Sequence[str],
        shape: Shape,
        settings: dict[str, Any] | None = None,
        constants: dict[str, Array] | None = None,
    ) -> str:
        output = f"v{len(self.steps)}"
        self.steps.append(
            Step(kind, f"{kind}_{len(self.steps)}", tuple(inputs), output, settings or {}, constants or {})
        )
        self.shapes[output] = shape
        return output

    def done(self, *outputs: str) -> Steps:
        return Steps(self.inputs, outputs, tuple(self.steps), self.shapes)

    def numbers(self, *shape: int) -> Array:
        return self.random.standard_normal(shape).astype(np.float32)

    def weights(self, density: float, *shape: int) -> Array:
        kept = self.random.random(shape) < density
        return np.where(kept, self.numbers(*shape) / np.sqrt(max(1, prod(shape[1:]) * density)), 0).astype(np.float32)

    def linear(self, x: str, outputs: int, density: float, *residual: str, activation: Activation | None = None) -> str:
        *rows, inputs = self.shapes[x]
        constants = {"weight": self.weights(density, outputs, inputs), "bias": self.numbers(outputs)}
        return self.add("linear", (x, *residual), (*rows, outputs), {"activation": activation}, constants)

    def conv(
        self,
        x: str,
        outputs: int,
        kernel: tuple[int, int],
        density: float,
        *,
        stride: tuple[int, int] = (1, 1),
        dilation: tuple[int, int] = (1, 1),
        pads: tuple[int, int, int, int] = (0, 0, 0, 0),
        groups: int = 1,
        activation: Activation | None = None,
    ) -> str:
        items, channels, *size = self.shapes[x]
        out = _places(size, kernel, stride, dilation, pads)
        settings = {"stride": stride, "dilation": dilation, "pads": pads, "groups": groups, "activation": activation}
        constants = {
            "weight": self.weights(density, outputs, channels // groups, *kernel),
            "bias": self.numbers(outputs),
        }
        return self.add("conv", (x,), (items, outputs, *out), settings, constants)

    def pool(
        self,
        x: str,
        mode: str,
        kernel: tuple[int, int],
        *,
        stride: tuple[int, int] = (1, 1),
        dilation: tuple[int, int] = (1, 1),
        pads: tuple[int, int, int, int] = (0, 0, 0, 0),
        include: bool = False,
    ) -> str:
        items, channels, *size = self.shapes[x]
        out = _places(size, kernel, stride, dilation, pads)
        settings = {
            "mode": mode, "kernel": kernel, "stride": stride, "dilation": dilation, "pads": pads,
            "count_include_pad": include,
        }  # fmt: skip
        return self.add("pool", (x,), (items, channels, *out), settings)

    def unary(self, x: str, activation: Activation) -> str:
        return self.add("unary", (x,), self.shapes[x], {"activation": activation})

    def combine(self, function: str, a: str, b: str) -> str:
        shape = np.broadcast_shapes(self.shapes[a], self.shapes[b])
        return self.add("binary", (a, b), shape, {"function": function})

    def layer_norm(self, x: str, dimensions: int, epsilon: float = 0.1) -> str:
        shape = self.shapes[x]
        own = shape[len(shape) - dimensions :]
        constants = {"weight": self.numbers(*own), "bias": self.numbers(*own)}
        return self.add("layer_norm", (x,), shape, {"dimensions": dimensions, "epsilon": epsilon}, constants)


def _places(
    size: Sequence[int],
    kernel: Sequence[int],
    stride: Sequence[int],
    dilation: Sequence[int],
    pads: Sequence[int],
) -> tuple[int, ...]:
    return tuple(
        (size[axis] + pads[axis] + pads[axis + 2] - (kernel[axis] - 1) * dilation[axis] - 1) // stride[axis] + 1
        for axis in range(2)
    )


@st.composite
def networks(draw: st.DrawFn) -> Steps:
    """A few steps, any of which may read any earlier value; outputs are one or two values, inputs among them."""
    small = st.integers(1, 5)
    shapes = draw(st.lists(st.tuples(st.just(1), small, small, st.integers(1, 7)), min_size=1, max_size=2))
    builder = Builder(*shapes, seed=draw(st.integers(0, 1000)))
    for _ in range(draw(st.integers(1, 7))):
        x = draw(st.sampled_from(list(builder.shapes)))
        draw(st.sampled_from(GROWTHS))(builder, x, draw)
    return builder.done(*draw(st.lists(st.sampled_from(list(builder.shapes)), min_size=1, max_size=2)))


def _activation(draw: st.DrawFn) -> Activation | None:
    function = draw(st.none() | st.sampled_from(TAME))
    return None if function is None else Activation(function, 0.1)


def _density(draw: st.DrawFn) -> float:
    return draw(st.sampled_from([0.0, 0.1, 0.3, 1.0]))


def _linear(builder: Builder, x: str, draw: st.DrawFn) -> None:
    outputs, density, activation = draw(st.integers(1, 6)), _density(draw), _activation(draw)
    shape = (*builder.shapes[x][:-1], outputs)
    alike = [name for name, other in builder.shapes.items() if other == shape]
    residual = draw(st.lists(st.sampled_from(alike), max_size=1)) if alike else []
    builder.linear(x, outputs, density, *residual, activation=activation)


def _as_map(builder: Builder, x: str) -> str:
    shape = builder.shapes[x]
    return x if len(shape) == 4 else builder.add("reshape", (x,), (1, 1, *shape) if len(shape) == 2 else (1, *shape))


def _window(builder: Builder, x: str, draw: st.DrawFn) -> dict[str, Any]:
    """A kernel that fits into the map with its padding, and no padding as large as the kernel."""
    kernel = draw(st.tuples(*(st.integers(1, min(3, size)) for size in builder.shapes[x][2:])))
    pads = tuple(draw(st.integers(0, kernel[i % 2] - 1)) for i in range(4))
    stride = draw(st.tuples(st.integers(1, 3), st.integers(1, 3)))
    room = [size + pads[i] + pads[i + 2] for i, size in enumerate(builder.shapes[x][2:])]
    dilation = tuple(draw(st.integers(1, max(1, min(2, (room[i] - 1) // max(1, k - 1))))) for i, k in enumerate(kernel))
    return {"kernel": kernel, "pads": pads, "stride": stride, "dilation": dilation}


def _conv(builder: Builder, x: str, draw: st.DrawFn) -> None:
    x = _as_map(builder, x)
    groups = draw(st.sampled_from([g for g in (1, 2, 3) if builder.shapes[x][1] % g == 0]))
    outputs = groups * draw(st.integers(1, 3))
    how = _window(builder, x, draw)
    builder.conv(x, outputs, how.pop("kernel"), _density(draw), groups=groups, activation=_activation(draw), **how)


def _pool(builder: Builder, x: str, draw: st.DrawFn) -> None:
    x = _as_map(builder, x)
    how = _window(builder, x, draw)
    how["dilation"] = (1, 1)
    builder.pool(x, draw(st.sampled_from(["max", "average"])), include=draw(st.booleans()), **how)


def _adaptive_pool(builder: Builder, x: str, draw: st.DrawFn) -> None:
    x = _as_map(builder, x)
    size = draw(st.tuples(st.integers(1, 4), st.integers(1, 4)))
    mode = draw(st.sampled_from(["max", "average"]))
    builder.add("adaptive_pool", (x,), (*builder.shapes[x][:2], *size), {"mode": mode})


def _unary(builder: Builder, x: str, draw: st.DrawFn) -> None:
    builder.unary(x, Activation(draw(st.sampled_from(TAME)), 0.1))


def _binary(builder: Builder, x: str, draw: st.DrawFn) -> None:
    function = draw(st.sampled_from(["add", "sub", "mul", "max", "min"]))
    shape = builder.shapes[x]
    if draw(st.booleans()):
        own = tuple(draw(st.sampled_from([1, size])) for size in shape[draw(st.integers(0, len(shape))) :])
        side = draw(st.sampled_from(["a", "b"]))
        builder.add("binary", (x,), shape, {"function": function}, {side: builder.numbers(*own)})
    else:
        alike = [name for name, other in builder.shapes.items() if _broadcast(shape, other)]
        builder.combine(function, x, draw(st.sampled_from(alike)))


def _broadcast(a: Shape, b: Shape) -> bool:
    return all(1 in pair or pair[0] == pair[1] for pair in zip(reversed(a), reversed(b), strict=False))


def _transpose(builder: Builder, x: str, draw: st.DrawFn) -> None:
    shape = builder.shapes[x]
    permutation = tuple(draw(st.permutations(range(len(shape)))))
    builder.add("transpose", (x,), tuple(shape[axis] for axis in permutation), {"permutation": permutation})
    _restore_batch(builder, draw)


def _restore_batch(builder: Builder, draw: st.DrawFn) -> None:
    """Networks keep one item in front."""
    last = builder.steps[-1].output
    if builder.shapes[last][0] != 1:
        builder.add("reshape", (last,), (1, prod(builder.shapes[last])))


def _slice(builder: Builder, x: str, draw: st.DrawFn) -> None:
    shape = list(builder.shapes[x])
    axis = draw(st.integers(1, len(shape) - 1))
    step = draw(st.sampled_from([1, 2, -1]))
    start = draw(st.integers(0, shape[axis] - 1))
    reach = start + 1 if step < 0 else shape[axis] - start
    shape[axis] = draw(st.integers(1, -(-reach // abs(step))))
    builder.add("slice", (x,), tuple(shape), {"axis": axis, "start": start, "step": step})


def _concat(builder: Builder, x: str, draw: st.DrawFn) -> None:
    shape = builder.shapes[x]
    axis = draw(st.integers(1, len(shape) - 1))
    alike = [
        name
        for name, other in builder.shapes.items()
        if (*other[:axis], *other[axis + 1 :]) == (*shape[:axis], *shape[axis + 1 :])
    ]
    parts = [x, *draw(st.lists(st.sampled_from(alike), min_size=1, max_size=2))]
    whole = sum(builder.shapes[part][axis] for part in parts)
    builder.add("concat", parts, (*shape[:axis], whole, *shape[axis + 1 :]), {"axis": axis})


def _expand(builder: Builder, x: str, draw: st.DrawFn) -> None:
    first, *rest = builder.shapes[x]
    builder.add("expand", (x,), (first, *(draw(st.integers(1, 3)) if size == 1 else size for size in rest)))


def _softmax(builder: Builder, x: str, draw: st.DrawFn) -> None:
    shape = builder.shapes[x]
    builder.add("softmax", (x,), shape, {"axis": draw(st.integers(1, len(shape) - 1))})


def _layer_norm(builder: Builder, x: str, draw: st.DrawFn) -> None:
    builder.layer_norm(x, draw(st.integers(1, len(builder.shapes[x]) - 1)))


def _mean(builder: Builder, x: str, draw: st.DrawFn) -> None:
    shape = builder.shapes[x]
    axes = tuple(sorted(draw(st.sets(st.integers(1, len(shape) - 1), min_size=1))))
    kept = tuple(1 if axis in axes else size for axis, size in enumerate(shape))
    builder.add("mean", (x,), kept, {"axes": axes})


def _matmul(builder: Builder, x: str, draw: st.DrawFn) -> None:
    *lead, m, k = builder.shapes[x]
    n = draw(st.integers(1, 4))
    b = builder.add("constant", (), (*lead, k, n), {}, {"value": builder.numbers(*lead, k, n) / np.float32(k)})
    builder.add("matmul", (x, b), (*lead, m, n))


GROWTHS: tuple[Callable[[Builder, str, st.DrawFn], None], ...] = (
    _linear, _conv, _pool, _adaptive_pool, _unary, _binary, _transpose, _slice, _concat, _expand, _softmax,
    _layer_norm, _mean, _matmul,
)  # fmt: skip
