"""Every kind of step as calls of the functions in kernels.c."""

from collections.abc import Callable, Mapping
from math import prod
from typing import Any

import numpy as np

from asni.engine.c_export.arena import added
from asni.engine.c_export.source import Source, number
from asni.engine.c_export.weights import Precision, Rounded, Sparse, rounded, stored_bits, without_zeros
from asni.engine.graph import Array
from asni.engine.steps import Activation, Kind, Shape, Step
from asni.errors import EngineError, shown

MOST_DIMENSIONS = 8
"""Of a walk, as in kernels.c, after those are joined that every operand walks over as over one."""

ACTIVATIONS = {
    "relu": "relu", "clip": "clip", "leaky_relu": "leaky_relu", "gelu": "gelu", "gelu_tanh": "gelu_tanh",
    "silu": "silu", "sigmoid": "sigmoid", "tanh": "hyperbolic_tangent", "hard_swish": "hard_swish",
    "hard_sigmoid": "hard_sigmoid", "erf": "error_function", "exp": "exponential", "sqrt": "square_root",
    "abs": "absolute", "neg": "negative",
}  # fmt: skip
_PARAMETERS = {"clip": ("low", "high"), "leaky_relu": ("low",), "hard_sigmoid": ("low", "high")}
BINARY = {
    "add": "add", "sub": "subtract", "mul": "multiply", "div": "divide", "pow": "power", "max": "maximum",
    "min": "minimum",
}  # fmt: skip


class Calls:
    """Adds steps to a C file. `dense` stores every weight, to compare with."""

    def __init__(self, source: Source, precision: Precision, dense: bool) -> None:
        self._source, self._precision, self._dense = source, precision, dense
        self._kinds: Mapping[Kind, Callable[[Step, str], None]] = {
            "conv": self._conv,
            "linear": self._linear,
            "matmul": self._matmul,
            "pool": self._pool,
            "adaptive_pool": self._adaptive_pool,
            "unary": self._unary,
            "binary": self._binary,
            "expand": self._expand,
            "transpose": self._transpose,
            "concat": self._concat,
            "slice": self._slice,
            "softmax": self._softmax,
            "layer_norm": self._layer_norm,
            "mean": self._mean,
        }

    def add(self, step: Step, index: int) -> None:
        """Add one step; reshapes and constants are places alone."""
        if step.kind == "constant":
            self._source.table(self._place(step.output), np.asarray(step.constants["value"], np.float32))
        if step.kind in ("reshape", "constant"):
            return
        if step.kind not in self._kinds:
            raise EngineError(f"{step.kind} {shown(step.name)}: there is no C for this kind of step.")
        shapes = [self._source.shapes[value] for value in (*step.inputs, step.output)]
        arrow = ", ".join(map(_shape, shapes[:-1])) + f" -> {_shape(shapes[-1])}"
        self._source.comment(f"{printable(step.name)}: {step.kind}, {arrow}")
        self._kinds[step.kind](step, f"step{index}")

    def _place(self, value: str) -> str:
        return self._source.places[value]

    def _shape(self, value: str) -> Shape:
        return self._source.shapes[value]

    def _conv(self, step: Step, name: str) -> None:
        weight, settings = step.constants["weight"], step.settings
        (items, channels, height, width), (_, outputs, *out) = self._shape(step.inputs[0]), self._shape(step.output)
        groups = settings["groups"]
        window = (
            channels // groups, height, width, *out, *weight.shape[2:],
            *settings["stride"], *settings["dilation"], *settings["pads"],
        )  # fmt: skip
        at = self._source.struct("window", f"{name}_window", window)
        self._layer(step, name, items, at, outputs, outputs // groups)

    def _linear(self, step: Step, name: str) -> None:
        *rows, inputs = self._shape(step.inputs[0])
        self._layer(step, name, 1, prod(rows), inputs, self._shape(step.output)[-1])

    def _layer(self, step: Step, name: str, items: int, *sizes: object) -> None:
        """A convolution or a linear layer, with or without its zeros; then its residual and its activation."""
        source, weights = self._source, rounded(step, self._precision)
        sparse = None if self._dense else without_zeros(weights.stored)
        x, y = self._place(step.inputs[0]), self._place(step.output)
        if sparse is not None or (step.kind == "conv" and not self._dense and not weights.stored.all()):
            source.require("all_finite", x, prod(self._shape(step.inputs[0])))
        layer = self._weights(step, name, weights, sparse)
        form = "dense" if sparse is None else "sparse"
        if step.kind == "conv" and sparse is None:
            sizes = (*sizes, int(self._dense))
        of_x, of_y = (prod(self._shape(value)) // items for value in (step.inputs[0], step.output))
        for item in range(items):
            source.call(f"{form}_{step.kind}", layer, added(x, item * of_x), added(y, item * of_y), *sizes)
        if len(step.inputs) > 1:
            self._combine("add", name, step.output, step.inputs[1], step.output)
        self._activate(step)

    def _weights(self, step: Step, name: str, weights: Rounded, sparse: Sparse | None) -> str:
        tables = {
            "counts": None if sparse is None else sparse.counts,
            "gaps": None if sparse is None else sparse.gaps,
            "weights": stored_bits(weights.stored if sparse is None else sparse.stored),
            "scales": weights.scales,
            "bias": np.asarray(step.constants["bias"], np.float32),
        }
        members = [
            0 if array is None or array.size == 0 else self._source.table(f"{name}_{key}", array)
            for key, array in tables.items()
        ]
        return self._source.struct("layer", f"{name}_layer", members)

    def _activate(self, step: Step) -> None:
        activation: Activation | None = step.settings.get("activation")
        if activation is not None:
            parameters = (number(getattr(activation, key)) for key in _PARAMETERS.get(activation.function, ()))
            function = ACTIVATIONS[activation.function]
            self._source.call(function, self._place(step.output), prod(self._shape(step.output)), *parameters)

    def _unary(self, step: Step, name: str) -> None:
        x, y = self._place(step.inputs[0]), self._place(step.output)
        if x != y:
            self._source.call("copy", x, y, prod(self._shape(step.output)))
        self._activate(step)

    def _binary(self, step: Step, name: str) -> None:
        function, inputs = BINARY[step.settings["function"]], iter(step.inputs)
        a, b = (step.constants[key] if key in step.constants else next(inputs) for key in ("a", "b"))
        self._combine(function, name, a, b, step.output)

    def _combine(self, function: str, name: str, a: str | Array, b: str | Array, output: str) -> None:
        size = self._shape(output)
        operands = [self._operand(f"{name}_{key}", value) for key, value in (("a", a), ("b", b))]
        strides = [_broadcast_strides(shape, size) for _, shape in operands]
        walk = self._walk(name, size, *strides)
        self._source.call(function, walk, *(place for place, _ in operands), self._place(output))

    def _operand(self, name: str, value: str | Array) -> tuple[str, Shape]:
        if isinstance(value, str):
            return self._place(value), self._shape(value)
        return self._source.table(name, np.asarray(value, np.float32)), value.shape

    def _walk(self, name: str, size: Shape, a: Shape, b: Shape | None = None) -> str:
        joined = _joined(size, a, b or (0,) * len(size))
        if len(joined[0]) > MOST_DIMENSIONS:
            raise EngineError(f"{shown(name)}: arrays of more than {MOST_DIMENSIONS} dimensions cannot be exported.")
        tables = [
            self._source.table(f"{name}_{key}", np.array(numbers, np.int32))
            for key, numbers in zip(("size", "a_stride", "b_stride"), joined, strict=True)
        ]
        return self._source.struct("walk", f"{name}_walk", (len(joined[0]), *tables))

    def _pick(self, name: str, step: Step, start: int, strides: Shape) -> None:
        walk = self._walk(name, self._shape(step.output), strides)
        self._source.call("pick", walk, added(self._place(step.inputs[0]), start), self._place(step.output))

    def _expand(self, step: Step, name: str) -> None:
        self._pick(name, step, 0, _broadcast_strides(self._shape(step.inputs[0]), self._shape(step.output)))

    def _transpose(self, step: Step, name: str) -> None:
        strides = _strides(self._shape(step.inputs[0]))
        self._pick(name, step, 0, tuple(strides[axis] for axis in step.settings["permutation"]))

    def _slice(self, step: Step, name: str) -> None:
        strides = list(_strides(self._shape(step.inputs[0])))
        axis, start = step.settings["axis"], step.settings["start"]
        first = start * strides[axis]
        strides[axis] *= step.settings["step"]
        self._pick(name, step, first, tuple(strides))

    def _mean(self, step: Step, name: str) -> None:
        shape = self._shape(step.inputs[0])
        axes = [axis % len(shape) for axis in step.settings["axes"]]
        order = [axis for axis in range(len(shape)) if axis not in axes] + axes
        strides = _strides(shape)
        walk = self._walk(name, tuple(shape[axis] for axis in order), tuple(strides[axis] for axis in order))
        count = prod(shape[axis] for axis in axes)
        self._source.call("mean", walk, count, self._place(step.inputs[0]), self._place(step.output))

    def _concat(self, step: Step, name: str) -> None:
        shape, axis = self._shape(step.output), step.settings["axis"]
        larger, offset = prod(shape[axis:]), 0
        for value in step.inputs:
            size = prod(self._shape(value)[axis:])
            y = added(self._place(step.output), offset)
            self._source.call("put_blocks", self._place(value), y, prod(shape[:axis]), size, larger)
            offset += size

    def _softmax(self, step: Step, name: str) -> None:
        shape = self._shape(step.output)
        axis = step.settings["axis"] % len(shape)
        sizes = prod(shape[:axis]), shape[axis], prod(shape[axis + 1 :])
        self._source.call("softmax", self._place(step.inputs[0]), self._place(step.output), *sizes)

    def _layer_norm(self, step: Step, name: str) -> None:
        shape = self._shape(step.output)
        n = prod(shape[len(shape) - step.settings["dimensions"] :])
        tables = (
            self._source.table(f"{name}_{key}", np.asarray(step.constants[key], np.float32))
            for key in ("weight", "bias")
        )
        places = self._place(step.inputs[0]), self._place(step.output)
        self._source.call("layer_norm", *tables, number(step.settings["epsilon"]), *places, prod(shape) // n, n)

    def _matmul(self, step: Step, name: str) -> None:
        """One call for all products whose operands lie evenly; more calls if a dimension is broadcast among others."""
        (*lead_a, m, k), (*lead_b, _, n) = (self._shape(value) for value in step.inputs)
        *lead, _, _ = self._shape(step.output)
        strides = (_broadcast_strides(tuple(each), tuple(lead)) for each in (lead_a, lead_b))
        sizes, *steps = _joined(tuple(lead), *strides)
        a, b = (self._place(value) for value in step.inputs)
        for number_of_call, outer in enumerate(np.ndindex(*sizes[:-1])):
            at_a, at_b = (int(np.dot(outer, each[:-1])) for each in steps)
            operands = added(a, at_a * m * k), added(b, at_b * k * n)
            y = added(self._place(step.output), number_of_call * sizes[-1] * m * n)
            step_a, step_b = steps[0][-1] * m * k, steps[1][-1] * k * n
            self._source.call("matmul", *operands, y, sizes[-1], step_a, step_b, m, k, n)

    def _pool(self, step: Step, name: str) -> None:
        settings, (items, channels, *of_map) = step.settings, self._shape(step.inputs[0])
        window = (
            items * channels, *of_map, *self._shape(step.output)[2:], *settings["kernel"], *settings["stride"],
            *settings["dilation"], *settings["pads"],
        )  # fmt: skip
        at = self._source.struct("window", f"{name}_window", window)
        places = self._place(step.inputs[0]), self._place(step.output)
        if settings["mode"] == "max":
            self._source.call("max_pool", at, *places)
        else:
            self._source.call("average_pool", at, int(settings["count_include_pad"]), *places)

    def _adaptive_pool(self, step: Step, name: str) -> None:
        (items, channels, *of_map), (_, _, *out) = self._shape(step.inputs[0]), self._shape(step.output)
        places = self._place(step.inputs[0]), self._place(step.output)
        self._source.call(f"adaptive_{step.settings['mode']}_pool", *places, items * channels, *of_map, *out)


def printable(name: str) -> str:
    """A name as it may stand in a comment of C.

    >>> printable("/conv1/Conv*/ evil(); /*")
    '/conv1/Conv_/_evil____/_'
    """
    return "".join(each if each.isascii() and (each.isalnum() or each in "_./:-") else "_" for each in name)[:80]


def _shape(shape: Shape) -> str:
    return "x".join(map(str, shape)) or "1"


def _strides(shape: Shape) -> Shape:
    return tuple(prod(shape[axis + 1 :]) for axis in range(len(shape)))


def _broadcast_strides(shape: Shape, size: Shape) -> Shape:
    """The strides by which an array is walked over that is expanded to `size`."""
    whole = (1,) * (len(size) - len(shape)) + tuple(shape)
    return tuple(0 if own == 1 else stride for own, stride in zip(whole, _strides(whole), strict=True))


def _joined(size: Shape, *strides: Shape) -> tuple[tuple[int, ...], ...]:
    """Sizes and strides with as few dimensions as possible, and at least one.

    >>> _joined((1, 2, 3, 4), (24, 12, 4, 1), (0, 0, 0, 1))
    ((6, 4), (4, 1), (0, 1))
    """
    kept: list[list[int]] = []
    for n, *own in zip(size, *strides, strict=True):
        if n == 1:
            continue
        if kept and all(outer == n * inner for outer, inner in zip(kept[-1][1:], own, strict=True)):
            kept[-1] = [kept[-1][0] * n, *own]
        else:
            kept.append([n, *own])
    transposed: Any = zip(*(kept or [[1] + [0] * len(strides)]), strict=True)
    return tuple(transposed)
