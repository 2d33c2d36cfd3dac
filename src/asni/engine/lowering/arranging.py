"""Operators that move elements: on constants at once, on values by steps, after a proof that items stay apart."""

from collections.abc import Sequence
from itertools import pairwise
from math import prod

import numpy as np

from asni.engine.graph import Array
from asni.engine.lowering.call import Call
from asni.engine.lowering.values import (
    MOST_DIMENSIONS,
    Operand,
    Value,
    batch_axis,
    fault_of,
    is_batch,
    item_shape,
    shown_shape,
)
from asni.engine.steps import Shape


def reshape(call: Call, x: Operand, shape: Sequence[int]) -> Operand:
    """The same elements in another shape: items stay whole if as many elements as before are in front of the batch."""
    shape = tuple(shape)
    if prod(x.shape) != prod(shape):
        raise call.error(f"{shown_shape(x.shape)} cannot be reshaped to {shown_shape(shape)}")
    if not isinstance(x, Value):
        call.require(len(shape) <= 32 and all(each >= 0 for each in shape), "that is not a shape")
        return x.reshape(shape)
    before, after = batch_axis(x.shape), batch_axis(shape)
    if before is not None and (after is None or prod(x.shape[:before]) != prod(shape[:after])):
        raise call.error(f"from {shown_shape(x.shape)} to {shown_shape(shape)} items of a batch would mix")
    return x if x.shape == shape else call.emit("reshape", (x,), shape)


def reshape_value(call: Call, x: Value, shape: Sequence[int]) -> Value:
    """Reshape what is no constant."""
    return call.as_value(reshape(call, x, shape))


def transpose(call: Call, x: Operand, permutation: Sequence[int]) -> Operand:
    """The dimensions in another order."""
    if not isinstance(x, Value):
        return x.transpose(permutation)
    shape = tuple(x.shape[axis] for axis in permutation)
    return call.emit("transpose", (x,), shape, {"permutation": tuple(permutation)})


def cut(call: Call, x: Operand, axis: int, start: int, step: int, size: int) -> Operand:
    """`size` places along an axis from `start` on, which the caller has checked to exist."""
    step = step if size > 1 else 1
    if (start, step, size) == (0, 1, x.shape[axis]):
        return x
    if not isinstance(x, Value):
        end = start + step * size
        return x[(*(slice(None),) * axis, slice(start, end if end >= 0 else None, step))]
    call.apart(x, (axis,))
    shape = (*x.shape[:axis], size, *x.shape[axis + 1 :])
    return call.emit("slice", (x,), shape, {"axis": axis, "start": start, "step": step})


def expand(call: Call, x: Operand, shape: Shape) -> Operand:
    """Broadcast to a shape. A constant that is repeated for every item is made once, as that of one item."""
    if not isinstance(x, Value) and not any(map(is_batch, shape)):
        fault = fault_of(shape) if prod(shape) else None
        call.require(fault is None, fault or "")
        call.afford(prod(shape))
        return np.broadcast_to(x, shape)
    value = call.as_value(x)
    if value.shape == shape:
        return value
    call.afford(0 if isinstance(x, Value) else prod(item_shape(shape)))
    return call.emit("expand", (value,), shape)


def broadcast(call: Call, *shapes: Sequence[int]) -> Shape:
    """The common shape of what is calculated elementwise: a batch goes with the same batch, or with a one."""
    rank = max(map(len, shapes))
    call.require(rank <= 32, "too many dimensions")
    padded = [(1,) * (rank - len(shape)) + tuple(shape) for shape in shapes]
    for dimensions in zip(*padded, strict=True):
        if len(set(dimensions) - {1}) > 1:
            raise call.error("shapes do not fit: " + " and ".join(map(shown_shape, shapes[:4])))
    return tuple(next((each for each in dimensions if each != 1), 1) for dimensions in zip(*padded, strict=True))


def _reshape(call: Call) -> Operand:
    x, asked = call.operand(0), call.listed("shape", 1)
    if asked is None:
        raise call.error("it has no shape")
    call.require(asked.count(-1) <= 1 and all(each >= -1 for each in asked), "that is not a shape")
    shape = list(asked)
    if not call.integer("allowzero", 0):
        for index, dimension in enumerate(shape):
            if dimension == 0:
                call.require(index < len(x.shape), "it keeps a dimension that its input does not have")
                shape[index] = x.shape[index]
    if -1 in shape:
        known = prod(each for each in shape if each != -1)
        call.require(known > 0 and prod(x.shape) % known == 0, f"{shown_shape(x.shape)} does not fit into {shape}")
        shape[shape.index(-1)] = prod(x.shape) // known
    return reshape(call, x, shape)


def _flatten(call: Call) -> Operand:
    x = call.operand(0)
    rank, axis = len(x.shape), call.integer("axis", 1)
    call.require(-rank <= axis <= rank, f"there is no axis {axis} in {rank} dimensions")
    axis = axis + rank if axis < 0 else axis
    return reshape(call, x, (prod(x.shape[:axis]), prod(x.shape[axis:])))


def _squeeze(call: Call) -> Operand:
    x, asked = call.operand(0), call.listed("axes", 1)
    if asked is None:
        asked = [axis for axis, dimension in enumerate(x.shape) if dimension == 1]
    axes = call.axes(asked, len(x.shape))
    call.require(all(x.shape[axis] == 1 for axis in axes), f"a dimension of {shown_shape(x.shape)} is not 1")
    return reshape(call, x, [each for axis, each in enumerate(x.shape) if axis not in axes])


def _unsqueeze(call: Call) -> Operand:
    x, asked = call.operand(0), call.listed("axes", 1)
    if asked is None:
        raise call.error("it has no axes")
    rank = len(x.shape) + len(asked)
    axes, kept = call.axes(asked, rank), iter(x.shape)
    return reshape(call, x, [1 if axis in axes else next(kept) for axis in range(rank)])


def _transpose(call: Call) -> Operand:
    x = call.operand(0)
    rank, permutation = len(x.shape), call.integers("perm")
    permutation = list(range(rank))[::-1] if permutation is None else permutation
    call.require(sorted(permutation) == list(range(rank)), f"perm is no order of {rank} dimensions")
    return transpose(call, x, permutation)


def _concat(call: Call) -> Operand:
    parts = call.operands()
    rank = len(parts[0].shape)
    axis = call.axis(call.integer("axis", 0), rank)
    others = {(*part.shape[:axis], *part.shape[axis + 1 :]) for part in parts}
    call.require(len(others) == 1 and all(len(part.shape) == rank for part in parts), "shapes do not fit")
    size = sum(part.shape[axis] for part in parts)
    constants = [part for part in parts if not isinstance(part, Value)]
    if len(constants) == len(parts):
        call.require(len({part.dtype.kind for part in constants}) == 1, "its constants have different types")
        call.afford(sum(part.size for part in constants))
        return np.concatenate(constants, axis)
    values = [call.as_value(part) for part in parts if prod(part.shape)]
    for value in values:
        call.apart(value, (axis,))
    shape = (*parts[0].shape[:axis], size, *parts[0].shape[axis + 1 :])
    return values[0] if len(values) == 1 else call.emit("concat", values, shape, {"axis": axis})


def _slice(call: Call) -> Operand:
    x, starts, ends = call.operand(0), call.listed("starts", 1), call.listed("ends", 2)
    if starts is None or ends is None:
        raise call.error("it has no starts or no ends")
    asked, steps = call.listed("axes", 3), call.listed("steps", 4)
    for index, numbers in ((1, starts), (2, ends), (4, steps or [])):
        if call.has(index) and any(map(is_batch, numbers)) and not call.is_given(index):
            raise call.error("where it cuts depends on the batch size")
    axes = call.axes(list(range(len(starts))) if asked is None else asked, len(x.shape))
    steps = [1] * len(starts) if steps is None else steps
    call.require(len(starts) == len(ends) == len(axes) == len(steps), "starts, ends, axes and steps differ in length")
    call.require(all(steps), "a step is 0")
    for start, end, axis, step in zip(starts, ends, axes, steps, strict=True):
        places = range(x.shape[axis])[start:end:step]
        call.require(len(places) > 0 or not isinstance(x, Value), "nothing is left of it")
        x = cut(call, x, axis, places.start, places.step, len(places))
    return x


def _split(call: Call) -> list[Operand]:
    x, asked = call.operand(0), call.listed("split", 1)
    axis = call.axis(call.integer("axis", 0), len(x.shape))
    size, count = x.shape[axis], len(call.node.outputs)
    call.require(count <= size, f"{shown_shape(x.shape)} cannot be split into {count}")
    chunk = -(-size // count)
    sizes = [min(chunk, size - chunk * index) for index in range(count)] if asked is None else asked
    fits = len(sizes) == count and sum(sizes) == size and all(each > 0 for each in sizes)
    call.require(fits, f"{shown_shape(x.shape)} cannot be split like that")
    return [cut(call, x, axis, sum(sizes[:index]), 1, each) for index, each in enumerate(sizes)]


def _gather(call: Call) -> Operand:
    x, indices = call.operand(0), call.constant(1)
    axis = call.axis(call.integer("axis", 0), len(x.shape))
    size = x.shape[axis]
    in_range = indices.dtype.kind in "iu" and bool(((indices >= -size) & (indices < size)).all())
    call.require(in_range, f"an index is no place among {_place_count(size)}")
    if not isinstance(x, Value):
        call.require(x.ndim + indices.ndim <= 32, "too many dimensions")
        call.afford(indices.size * (x.size // max(size, 1)))
        return x.take(indices, axis)
    call.apart(x, (axis,))
    call.require(indices.ndim < 2 and indices.size > 0, "its indices must be one number or a list")
    places = [int(place) % size for place in indices.reshape(-1)]
    step = places[1] - places[0] if len(places) > 1 else 1
    even = step != 0 and all(b - a == step for a, b in pairwise(places))
    call.require(even, "its indices must have equal distances")
    part = cut(call, x, axis, places[0], step, len(places))
    return part if indices.ndim else reshape(call, part, (*x.shape[:axis], *x.shape[axis + 1 :]))


def _place_count(size: int) -> str:
    return "the items of a batch" if is_batch(size) else str(size)


def _expand(call: Call) -> Operand:
    x, asked = call.operand(0), call.listed("shape", 1)
    if asked is None:
        raise call.error("it has no shape")
    call.require(all(each >= 0 for each in asked), "that is not a shape")
    return expand(call, x, broadcast(call, x.shape, asked))


def _constant_of_shape(call: Call) -> Operand:
    shape, value = call.listed("shape", 0) or [], call.node.attributes.get("value", 0.0)
    if isinstance(value, tuple | list) and len(value) == 1:
        value = value[0]
    if isinstance(value, str | tuple | list) or (isinstance(value, int) and not -(2**63) <= value < 2**63):
        raise call.error("the attribute value must be one number")
    call.require(all(each >= 0 for each in shape) and len(shape) <= MOST_DIMENSIONS, "that is not a shape")
    filled: Array = np.full((1,) * len(shape), value, np.float32 if isinstance(value, float) else np.int64)
    return expand(call, filled, tuple(shape))


def _same(call: Call) -> Operand:
    return call.operand(0)


ARRANGING = {
    "Reshape": _reshape, "Flatten": _flatten, "Squeeze": _squeeze, "Unsqueeze": _unsqueeze, "Transpose": _transpose,
    "Concat": _concat, "Slice": _slice, "Split": _split, "Gather": _gather, "Expand": _expand, "Identity": _same,
    "ConstantOfShape": _constant_of_shape,
}  # fmt: skip
