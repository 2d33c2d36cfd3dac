"""Operators that move numbers and compute nothing."""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

import numpy as np
import torch

from asni.engine.frontends.aten.calls import Call, Operator, Shape, Value, axis_of
from asni.engine.graph import BATCH

aten = torch.ops.aten


def _same(call: Call) -> Value:
    value: Value = call["self"]
    return value


def _reshape(call: Call) -> Value:
    return call.reshape(call["self"], call.shape)


def _squeeze(call: Call) -> Value:
    value = call["self"]
    if "dim" not in call.arguments:
        wanted: Sequence[int] = range(len(value.shape))
    else:
        wanted = [call["dim"]] if isinstance(call["dim"], int) else call["dim"]
    axes = sorted({axis_of(each, len(value.shape)) for each in wanted})
    axes = [each for each in axes if value.shape[each : each + 1] == (1,)]
    return call.emit("Squeeze", [value, call.integers(axes, "axes")]) if axes else value


def _unsqueeze(call: Call) -> Value:
    axis = axis_of(call["dim"], len(call.shape))
    return call.emit("Unsqueeze", [call["self"], call.integers([axis], "axes")])


def _permute(call: Call) -> Value:
    rank = len(call.shape)
    return call.emit("Transpose", [call["self"]], attributes={"perm": tuple(axis_of(d, rank) for d in call["dims"])})


def _transpose(call: Call) -> Value:
    rank = len(call.shape)
    permutation = list(range(rank))
    if rank > 1:
        first, second = axis_of(call.arguments.get("dim0", 0), rank), axis_of(call.arguments.get("dim1", 1), rank)
        permutation[first], permutation[second] = second, first
    return call.emit("Transpose", [call["self"]], attributes={"perm": tuple(permutation)})


def _expand(call: Call) -> Value:
    value = call["self"]
    result = expanded(call, value, call.shape)
    if value.constant is None or call.shape[0] != BATCH:
        return result
    return replace(result, repeated=value.constant.expand(1, *call.shape[1:]))


def expanded(call: Call, value: Value, shape: Shape) -> Value:
    return call.emit("Expand", [value, call.integers(shape, "shape")], shape)


def _slice(call: Call) -> Value:
    value: Value = call["self"]
    step = call["step"]
    axis = axis_of(call["dim"], len(value.shape))
    if call.shape == value.shape and step == 1:
        return value
    size = value.shape[axis]
    start = call["start"] or 0
    start = min(start + size if start < 0 else start, size)
    return _part(call, value, axis, max(start, 0), step, call.shape)


def _part(call: Call, value: Value, axis: int, start: int, step: int, shape: Shape) -> Value:
    end = start + (shape[axis] - 1) * step + 1
    bounds = {"starts": start, "ends": end, "axes": axis, "steps": step}
    return call.emit("Slice", [value, *(call.integers([number], name) for name, number in bounds.items())], shape)


def _narrow(call: Call) -> Value:
    value = call["self"]
    axis = axis_of(call["dim"], len(value.shape))
    start = call["start"] + value.shape[axis] if call["start"] < 0 else call["start"]
    return _part(call, value, axis, start, 1, call.shape)


def _select(call: Call) -> Value:
    return _picked(call, call["index"], call.shape)


def _picked(call: Call, index: int, shape: Shape) -> Value:
    value = call["self"]
    axis = axis_of(call["dim"], len(value.shape))
    index = index + value.shape[axis] if index < 0 else index
    return call.emit("Gather", [value, call.integers(index, "index")], shape, {"axis": axis})


def _split(call: Call) -> tuple[Value, ...]:
    axis = axis_of(call["dim"], len(call.shape))
    starts = np.cumsum([0, *(shape[axis] for shape in call.shapes)]).tolist()
    return tuple(_part(call, call["self"], axis, starts[i], 1, shape) for i, shape in enumerate(call.shapes))


def _unbind(call: Call) -> tuple[Value, ...]:
    return tuple(_picked(call, index, shape) for index, shape in enumerate(call.shapes))


def _concat(call: Call) -> Value:
    # torch leaves out tensors of shape (0,), whatever the shape of the others.
    parts = [part for part in call["tensors"] if part.shape != (0,)]
    return concat(call, parts, axis_of(call["dim"], len(call.shape)), call.shape)


def concat(call: Call, parts: Sequence[Value], axis: int, shape: Shape) -> Value:
    return parts[0] if len(parts) == 1 else call.emit("Concat", parts, shape, {"axis": axis})


def _repeat(call: Call) -> Value:
    """Dimensions of one element are expanded, others are concatenated with themselves."""
    value, repeats = call["self"], call["repeats"]
    shape = (1,) * (len(repeats) - len(value.shape)) + value.shape
    value = call.reshape(value, shape)
    wide = tuple(times if size == 1 else size for size, times in zip(shape, repeats, strict=True))
    for axis, (size, times) in enumerate(zip(shape, repeats, strict=True)):
        if size != 1 and times != 1:
            shape = (*shape[:axis], size * times, *shape[axis + 1 :])
            value = concat(call, [value] * times, axis, shape)
            wide = (*wide[:axis], size * times, *wide[axis + 1 :])
    return expanded(call, value, wide)


def _pad(call: Call) -> Value:
    """Concatenate with constants, from the last dimension on; a negative number of them cuts off."""
    value: Value = call["self"]
    pads = call["pad"]
    for number in range(len(pads) // 2):
        axis = len(value.shape) - 1 - number
        value = _padded(call, value, axis, pads[2 * number], pads[2 * number + 1])
    return value


def _padded(call: Call, value: Value, axis: int, before: int, after: int) -> Value:
    cut = value.shape[axis] + min(before, 0) + min(after, 0)
    if cut != value.shape[axis]:
        value = _part(call, value, axis, max(-before, 0), 1, _with(value.shape, axis, cut))
    filling = call.number(call.scalar("value"), "value")
    sides = [expanded(call, filling, _with(value.shape, axis, size)) if size > 0 else None for size in (before, after)]
    parts = [part for part in (sides[0], value, sides[1]) if part is not None]
    return concat(call, parts, axis, _with(value.shape, axis, cut + max(before, 0) + max(after, 0)))


def _with(shape: Shape, axis: int, size: int) -> Shape:
    return (*shape[:axis], size, *shape[axis + 1 :])


def _filled(number: float | None, call: Call) -> Value:
    """A tensor of one number, which the call gives if `number` is None."""
    scalar = call.scalar("fill_value") if number is None else number
    if any(size and size % BATCH == 0 for size in call.shape):
        return expanded(call, call.number(scalar, "value"), call.shape)
    return call.array(np.full(call.shape, scalar, dtype=np.float32), "value")


SHAPES: dict[torch._ops.OpOverload, Operator] = {
    aten.alias.default: _same,
    aten.clone.default: _same,
    aten.contiguous.default: _same,
    aten.detach.default: _same,
    aten.lift_fresh_copy.default: _same,
    aten._to_copy.default: _same,
    aten.view.default: _reshape,
    aten.reshape.default: _reshape,
    aten._unsafe_view.default: _reshape,
    aten.flatten.using_ints: _reshape,
    aten.unflatten.int: _reshape,
    aten.squeeze.default: _squeeze,
    aten.squeeze.dim: _squeeze,
    aten.squeeze.dims: _squeeze,
    aten.unsqueeze.default: _unsqueeze,
    aten.permute.default: _permute,
    aten.transpose.int: _transpose,
    aten.t.default: _transpose,
    aten.expand.default: _expand,
    aten.slice.Tensor: _slice,
    aten.narrow.default: _narrow,
    aten.select.int: _select,
    aten.split.Tensor: _split,
    aten.split_with_sizes.default: _split,
    aten.chunk.default: _split,
    aten.unbind.int: _unbind,
    aten.cat.default: _concat,
    aten.repeat.default: _repeat,
    aten.constant_pad_nd.default: _pad,
    aten.zeros.default: partial(_filled, 0),
    aten.ones.default: partial(_filled, 1),
    aten.full.default: partial(_filled, None),
    aten.new_zeros.default: partial(_filled, 0),
    aten.new_ones.default: partial(_filled, 1),
    aten.new_full.default: partial(_filled, None),
    aten.zeros_like.default: partial(_filled, 0),
    aten.ones_like.default: partial(_filled, 1),
    aten.full_like.default: partial(_filled, None),
}
