"""Operators that bring values to a scale, and means."""

from math import prod

import numpy as np

from asni.engine.lowering.arranging import broadcast, reshape_value
from asni.engine.lowering.call import Call
from asni.engine.lowering.values import Operand, shown_shape


def _batch_normalization(call: Call) -> Operand:
    """A factor and a summand for each channel, which are folded into a convolution before it."""
    call.require(call.integer("training_mode", 0) == 0, "it is in training mode; export in evaluation mode")
    x = call.value(0)
    call.require(len(x.shape) >= 2, "its input has no channels")
    call.apart(x, (1,))
    scale, shift, mean, variance = (call.weights(index).astype(np.float64) for index in range(1, 5))
    channels = x.shape[1]
    for each in (scale, shift, mean, variance):
        call.require(each.shape == (channels,), f"its constants must have the shape ({channels},)")
    with np.errstate(all="ignore"):
        factor = scale / np.sqrt(variance + call.number("epsilon", 1e-5))
        summand = shift - mean * factor
    column = (channels,) + (1,) * (len(x.shape) - 2)
    for function, array in (("mul", factor), ("add", summand)):
        constant = array.astype(np.float32).reshape(column)
        call.require(bool(np.isfinite(constant).all()), "its variance and epsilon give no finite factor")
        x = call.emit("binary", (x,), x.shape, {"function": function}, {"b": constant})
    return x


def _layer_normalization(call: Call) -> Operand:
    x = call.value(0)
    rank = len(x.shape)
    first = call.axis(call.integer("axis", -1), rank)
    call.apart(x, range(first, rank))
    trailing = x.shape[first:]
    call.afford(2 * prod(trailing))
    weight = call.floats(call.constant(1))
    bias = call.floats(call.constant(2)) if call.has(2) else np.zeros(1, np.float32)
    for each in (weight, bias):
        fits = broadcast(call, trailing, each.shape) == trailing
        call.require(fits, f"its constants do not fit to {shown_shape(trailing)}")
    constants = {
        "weight": np.ascontiguousarray(np.broadcast_to(weight, trailing)),
        "bias": np.ascontiguousarray(np.broadcast_to(bias, trailing)),
    }
    settings = {"dimensions": rank - first, "epsilon": call.number("epsilon", 1e-5)}
    return call.emit("layer_norm", (x,), x.shape, settings, constants)


def _softmax(call: Call) -> Operand:
    x = call.value(0)
    axis = call.axis(call.integer("axis", -1), len(x.shape))
    call.apart(x, (axis,))
    return call.emit("softmax", (x,), x.shape, {"axis": axis})


def _reduce_mean(call: Call) -> Operand:
    x, asked = call.value(0), call.listed("axes", 1)
    rank = len(x.shape)
    if not asked and call.integer("noop_with_empty_axes", 0):
        return x
    axes = sorted(call.axes(asked or range(rank), rank))
    call.apart(x, axes)
    kept = tuple(1 if axis in axes else each for axis, each in enumerate(x.shape))
    mean = call.emit("mean", (x,), kept, {"axes": tuple(axes)})
    if call.integer("keepdims", 1):
        return mean
    return reshape_value(call, mean, [each for axis, each in enumerate(x.shape) if axis not in axes])


NORMALISING = {
    "BatchNormalization": _batch_normalization, "LayerNormalization": _layer_normalization, "Softmax": _softmax,
    "ReduceMean": _reduce_mean,
}  # fmt: skip
