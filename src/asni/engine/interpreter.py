"""Run steps in NumPy: the way where there is no native core, and what the native core is compared with."""

from collections.abc import Callable, Mapping, Sequence
from math import prod
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from asni.engine.activations import activate
from asni.engine.graph import Array
from asni.engine.steps import Shape, Step, Steps
from asni.errors import EngineError, shown

MOST_COLUMNS = 2**22
"""Elements of a map that are laid out for one matrix product at a time: 16 MB."""


def run(steps: Steps, inputs: Sequence[Array]) -> tuple[Array, ...]:
    """The outputs for a batch, calculated item by item.

    Args:
        steps: What `lower` or `fuse` gave.
        inputs: An array for each input, with the batch first.

    Raises:
        EngineError: If the inputs have other shapes than the network's.
    """
    arrays = [np.asarray(array, np.float32) for array in inputs]
    count = count_items(steps, arrays)
    results: list[list[Array]] = [[] for _ in steps.outputs]
    with np.errstate(all="ignore"):
        for index in range(count):
            items = [_item(steps, name, array, index) for name, array in zip(steps.inputs, arrays, strict=True)]
            for result, output in zip(results, run_item(steps, items), strict=True):
                result.append(output)
    return tuple(
        np.concatenate(result) if count > 1 else result[0] if result else _empty(steps.shapes[name])
        for name, result in zip(steps.outputs, results, strict=True)
    )


def run_item(steps: Steps, inputs: Sequence[Array]) -> list[Array]:
    """The outputs for one item; a value is dropped after its last use."""
    last = {name: index for index, step in enumerate(steps.steps) for name in step.inputs}
    values = dict(zip(steps.inputs, inputs, strict=True))
    for index, step in enumerate(steps.steps):
        values[step.output] = run_step(step, [values[name] for name in step.inputs], steps.shapes[step.output])
        for name in set(step.inputs):
            if last[name] == index and name not in steps.outputs:
                del values[name]
    return [values[name] for name in steps.outputs]


def run_step(step: Step, inputs: Sequence[Array], shape: Shape) -> Array:
    """What one step makes, in float32 and in the shape that it must have."""
    result = KINDS[step.kind](step, inputs, shape)
    return np.ascontiguousarray(result, np.float32).reshape(shape)


def count_items(steps: Steps, arrays: Sequence[Array]) -> int:
    """How many items a batch has, after all its shapes are checked."""
    if len(arrays) == len(steps.inputs) == 1 and _is_usual(steps, arrays[0]):
        return len(arrays[0])
    if len(arrays) != len(steps.inputs):
        raise EngineError(f"the network has {len(steps.inputs)} inputs, and {len(arrays)} are given")
    counts = set()
    for name, array in zip(steps.inputs, arrays, strict=True):
        shape = steps.shapes[name]
        if steps.fixed_batch is not None and array.shape != shape:
            raise EngineError(
                f"input {shown(name)} has the shape {array.shape}; expected {shape}, "
                "because the network was made for this batch size alone"
            )
        if array.ndim != len(shape) or array.shape[1:] != shape[1:]:
            raise EngineError(f"input {shown(name)} has the shape {array.shape}; expected {('N', *shape[1:])}")
        counts.add(1 if steps.fixed_batch is not None else len(array))
    if len(counts) != 1:
        raise EngineError("the inputs differ in their number of items")
    return counts.pop()


def _is_usual(steps: Steps, array: Array) -> bool:
    """Whether nothing else needs a look; a small network runs in microseconds."""
    shape = steps.shapes[steps.inputs[0]]
    return steps.fixed_batch is None and shape[:1] == (1,) and array.ndim == len(shape) and array.shape[1:] == shape[1:]


def _item(steps: Steps, name: str, array: Array, index: int) -> Array:
    size = steps.shapes[name][0] if array.ndim else 0
    return array[index * size : (index + 1) * size] if array.ndim else array


def _empty(shape: Shape) -> Array:
    return np.zeros((0, *shape[1:]), np.float32)


def _conv(step: Step, inputs: Sequence[Array], shape: Shape) -> Array:
    """Each window becomes a column that all weights are multiplied by, zeros too: zero times infinity is NaN."""
    weight, groups = step.constants["weight"], step.settings["groups"]
    windows = _windows(inputs[0], weight.shape[2:], step.settings, shape, 0.0)
    out = np.empty(shape, np.float32)
    members, outputs = weight.shape[1], weight.shape[0] // groups
    rows = max(1, MOST_COLUMNS // (prod(weight.shape[1:]) * shape[3]))
    for item in range(shape[0]):
        for group in range(groups):
            here = slice(group * outputs, (group + 1) * outputs)
            matrix = weight[here].reshape(outputs, -1)
            for top in range(0, shape[2], rows):
                part = windows[item, group * members : (group + 1) * members, top : top + rows]
                columns = part.transpose(0, 3, 4, 1, 2).reshape(matrix.shape[1], -1)
                out[item, here, top : top + rows] = (matrix @ columns).reshape(outputs, -1, shape[3])
    return _finished(step, out + step.constants["bias"][:, None, None], inputs)


def _windows(x: Array, kernel: Shape, settings: Mapping[str, Any], shape: Shape, fill: float) -> Array:
    """A view (items, channels, windows down, windows right, kernel height, kernel width) of the padded map."""
    strides, dilations = settings["stride"], settings["dilation"]
    top, left = settings["pads"][:2]
    reaches = [(k - 1) * d + 1 for k, d in zip(kernel, dilations, strict=True)]
    sizes = [(n - 1) * s + reach for n, s, reach in zip(shape[2:], strides, reaches, strict=True)]
    # As far as the last window reaches, which is more than the padding if counts were rounded up, and maybe less.
    padded = np.full((*x.shape[:2], *sizes), fill, np.float32)
    height, width = max(0, min(x.shape[2], sizes[0] - top)), max(0, min(x.shape[3], sizes[1] - left))
    padded[:, :, top : top + height, left : left + width] = x[:, :, :height, :width]
    view = sliding_window_view(padded, reaches, axis=(2, 3))
    return view[:, :, :: strides[0], :: strides[1], :: dilations[0], :: dilations[1]]


def _finished(step: Step, out: Array, inputs: Sequence[Array]) -> Array:
    if len(inputs) > 1:
        out = out + inputs[1]
    activation = step.settings.get("activation")
    return out if activation is None else activate(activation, out)


def _linear(step: Step, inputs: Sequence[Array], shape: Shape) -> Array:
    return _finished(step, inputs[0] @ step.constants["weight"].T + step.constants["bias"], inputs)


def _matmul(step: Step, inputs: Sequence[Array], shape: Shape) -> Array:
    return np.asarray(np.matmul(inputs[0], inputs[1]))


def _pool(step: Step, inputs: Sequence[Array], shape: Shape) -> Array:
    kernel = step.settings["kernel"]
    if step.settings["mode"] == "max":
        return np.asarray(_windows(inputs[0], kernel, step.settings, shape, -np.inf).max((4, 5)))
    sums = _windows(inputs[0], kernel, step.settings, shape, 0.0).sum((4, 5), np.float64)
    return np.asarray(sums / divisors(step, inputs[0].shape, shape))


def divisors(step: Step, size: Shape, shape: Shape) -> Array:
    """How many places of a window count: those in the map and, if asked for, in the padding, but none behind it."""
    top, left, bottom, right = step.settings["pads"]
    counted = np.zeros((1, 1, size[2] + top + bottom, size[3] + left + right), np.float32)
    if step.settings["count_include_pad"]:
        counted[:] = 1
    counted[:, :, top : top + size[2], left : left + size[3]] = 1
    unpadded = {**step.settings, "pads": (0, 0, 0, 0)}
    return np.asarray(_windows(counted, step.settings["kernel"], unpadded, shape, 0.0).sum((4, 5)))


def _adaptive_pool(step: Step, inputs: Sequence[Array], shape: Shape) -> Array:
    x, out = inputs[0], np.empty(shape, np.float32)
    for row, down in enumerate(bins(x.shape[2], shape[2])):
        for column, right in enumerate(bins(x.shape[3], shape[3])):
            part = x[:, :, down, right]
            out[:, :, row, column] = part.max((2, 3)) if step.settings["mode"] == "max" else _mean_of(part, (2, 3))
    return out


def bins(size: int, count: int) -> list[slice]:
    """PyTorch's: from the floor of its share to the ceil of it, so that neighbours may overlap."""
    return [slice(index * size // count, -(-(index + 1) * size // count)) for index in range(count)]


def _mean_of(x: Array, axes: tuple[int, ...]) -> Array:
    return np.asarray(x.mean(axes, np.float64))


def _mean(step: Step, inputs: Sequence[Array], shape: Shape) -> Array:
    return _mean_of(inputs[0], step.settings["axes"])


def _unary(step: Step, inputs: Sequence[Array], shape: Shape) -> Array:
    return activate(step.settings["activation"], inputs[0])


def _binary(step: Step, inputs: Sequence[Array], shape: Shape) -> Array:
    remaining = iter(inputs)
    a, b = (step.constants[side] if side in step.constants else next(remaining) for side in ("a", "b"))
    return np.asarray(BINARY[step.settings["function"]](a, b))


def _reshape(step: Step, inputs: Sequence[Array], shape: Shape) -> Array:
    return inputs[0].reshape(shape)


def _expand(step: Step, inputs: Sequence[Array], shape: Shape) -> Array:
    return np.broadcast_to(inputs[0], shape)


def _transpose(step: Step, inputs: Sequence[Array], shape: Shape) -> Array:
    return inputs[0].transpose(step.settings["permutation"])


def _concat(step: Step, inputs: Sequence[Array], shape: Shape) -> Array:
    return np.concatenate(inputs, step.settings["axis"])


def _slice(step: Step, inputs: Sequence[Array], shape: Shape) -> Array:
    axis, start, stride = (step.settings[name] for name in ("axis", "start", "step"))
    return np.asarray(inputs[0].take(start + stride * np.arange(shape[axis]), axis))


def _constant(step: Step, inputs: Sequence[Array], shape: Shape) -> Array:
    return step.constants["value"]


def _softmax(step: Step, inputs: Sequence[Array], shape: Shape) -> Array:
    axis = step.settings["axis"]
    exponentials = np.exp(inputs[0] - inputs[0].max(axis, keepdims=True))
    return np.asarray(exponentials / exponentials.sum(axis, np.float64, keepdims=True))


def _layer_norm(step: Step, inputs: Sequence[Array], shape: Shape) -> Array:
    x, axes = inputs[0].astype(np.float64), tuple(range(-step.settings["dimensions"], 0))
    centred = x - x.mean(axes, keepdims=True)
    scale = np.sqrt((centred * centred).mean(axes, keepdims=True) + step.settings["epsilon"])
    return np.asarray(centred / scale * step.constants["weight"] + step.constants["bias"])


KINDS: Mapping[str, Callable[[Step, Sequence[Array], Shape], Array]] = {
    "conv": _conv, "linear": _linear, "matmul": _matmul, "pool": _pool, "adaptive_pool": _adaptive_pool,
    "unary": _unary, "binary": _binary, "reshape": _reshape, "expand": _expand, "transpose": _transpose,
    "concat": _concat, "slice": _slice, "constant": _constant, "softmax": _softmax, "layer_norm": _layer_norm,
    "mean": _mean,
}  # fmt: skip

BINARY: Mapping[str, Callable[[Array, Array], Array]] = {
    "add": np.add, "sub": np.subtract, "mul": np.multiply, "div": np.divide, "pow": np.power, "max": np.maximum,
    "min": np.minimum,
}  # fmt: skip
