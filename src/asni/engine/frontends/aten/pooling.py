"""Pooling. What torch rounds up in ceil_mode is written as padding at the end."""

import math
from functools import partial

import numpy as np
import torch

from asni.engine.frontends.aten.calls import Call, Operator, Shape, UnsupportedError, Value, of_each
from asni.engine.graph import Array, Attribute

aten = torch.ops.aten


class _Window:
    """The kernel of a pool, and how far it reaches beyond the end."""

    def __init__(self, call: Call) -> None:
        self.kernel: Shape = tuple(call["kernel_size"])
        dimensions = len(self.kernel)
        self.inputs: Shape = call["self"].shape[-dimensions:]
        self.outputs = call.shape[-dimensions:]
        self.strides = of_each(call["stride"], dimensions) or self.kernel
        self.dilations = of_each(call.arguments.get("dilation") or [1], dimensions)
        self.padding = of_each(call["padding"], dimensions)
        self.ends = tuple(map(self._end, range(dimensions))) if call["ceil_mode"] else self.padding

    def _end(self, axis: int) -> int:
        reach = (self.outputs[axis] - 1) * self.strides[axis] + self.dilations[axis] * (self.kernel[axis] - 1) + 1
        return max(self.padding[axis], reach - self.inputs[axis] - self.padding[axis])

    @property
    def attributes(self) -> dict[str, Attribute]:
        return {"kernel_shape": self.kernel, "strides": self.strides, "pads": self.padding + self.ends}

    def sizes(self) -> Array:
        """How many elements torch divides by at each place: those of the input and of its padding."""
        sizes = np.ones((), np.float32)
        for axis, outputs in enumerate(self.outputs):
            starts = np.arange(outputs) * self.strides[axis] - self.padding[axis]
            ends = np.minimum(starts + self.kernel[axis], self.inputs[axis] + self.padding[axis])
            sizes = sizes[..., None] * (ends - starts).astype(np.float32)
        return sizes


def _require_a_batch(call: Call, dimensions: int) -> None:
    shape = call["self"].shape
    if len(shape) != dimensions + 2:
        raise UnsupportedError(f"an input of shape {shape}, which is not (batch, channels) and {dimensions} more")


def _max_pool(call: Call) -> Value:
    window = _Window(call)
    _require_a_batch(call, len(window.kernel))
    return call.emit("MaxPool", [call["self"]], attributes={**window.attributes, "dilations": window.dilations})


def _max_pool_with_indices(call: Call) -> tuple[Value | None, ...]:
    return _max_pool(call), None


def _average_pool(call: Call) -> Value:
    window, divisor = _Window(call), call.arguments.get("divisor_override")
    _require_a_batch(call, len(window.kernel))
    counts_padding = bool(call["count_include_pad"]) and any(window.padding)
    attributes = {**window.attributes, "count_include_pad": int(counts_padding or divisor is not None)}
    average = call.emit("AveragePool", [call["self"]], attributes=attributes)
    if divisor is not None:
        return call.emit("Mul", [average, call.number(math.prod(window.kernel) / divisor, "divisor")])
    if counts_padding and window.ends != window.padding:
        return call.emit("Mul", [average, call.array(np.float32(math.prod(window.kernel)) / window.sizes(), "sizes")])
    return average


def _adaptive(op: str, dimensions: int, call: Call) -> Value:
    _require_a_batch(call, dimensions)
    return call.emit(op, [call["self"]], attributes={"output_size": call.shape[-dimensions:]})


def _adaptive_max(dimensions: int, call: Call) -> tuple[Value | None, ...]:
    return _adaptive("AdaptiveMaxPool", dimensions, call), None


POOLING: dict[torch._ops.OpOverload, Operator] = {
    aten.max_pool1d.default: _max_pool,
    aten.max_pool2d.default: _max_pool,
    aten.max_pool2d_with_indices.default: _max_pool_with_indices,
    aten.avg_pool1d.default: _average_pool,
    aten.avg_pool2d.default: _average_pool,
    aten.adaptive_avg_pool1d.default: partial(_adaptive, "AdaptiveAveragePool", 1),
    aten.adaptive_avg_pool2d.default: partial(_adaptive, "AdaptiveAveragePool", 2),
    aten._adaptive_avg_pool2d.default: partial(_adaptive, "AdaptiveAveragePool", 2),
    aten.adaptive_max_pool1d.default: partial(_adaptive_max, 1),
    aten.adaptive_max_pool2d.default: partial(_adaptive_max, 2),
}
