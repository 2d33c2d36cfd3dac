"""What steps will take, known before any of them runs: multiplications, and bytes of activations."""

from collections.abc import Mapping
from math import prod

from asni.engine.interpreter import MOST_COLUMNS
from asni.engine.steps import Shape, Step, Steps

_BYTES = 4
_TEMPORARIES = 48
"""Bytes that a formula takes for each element on its way, in double precision."""


def macs(steps: Steps) -> int:
    """How often one item multiplies and adds, or compares, as if all weights were dense."""
    return sum(macs_of(step, steps.shapes) for step in steps.steps)


def macs_of(step: Step, shapes: Mapping[str, Shape]) -> int:
    """The same for one step; one that only computes each element from another counts its elements once."""
    outputs = prod(shapes[step.output])
    if step.kind in ("conv", "linear"):
        # All but the first dimension, which is that of the outputs, go into each element.
        weight: Shape = step.constants["weight"].shape
        return outputs * prod(weight[1:])
    if step.kind == "matmul":
        return outputs * shapes[step.inputs[0]][-1]
    if step.kind == "pool":
        kernel: Shape = step.settings["kernel"]
        return outputs * prod(kernel)
    return max([outputs, *(prod(shapes[name]) for name in step.inputs)])


def activation_bytes(steps: Steps) -> int:
    """The most that inputs and results of one item take at a time, each kept until its last use."""
    sizes = {name: _BYTES * prod(shape) for name, shape in steps.shapes.items()}
    last = {name: index for index, step in enumerate(steps.steps) for name in step.inputs}
    last |= dict.fromkeys(steps.outputs, len(steps.steps))
    kept = sum(sizes[name] for name in steps.inputs)
    most = kept
    for index, step in enumerate(steps.steps):
        kept += sizes[step.output]
        most = max(most, kept)
        kept -= sum(sizes[name] for name in {*step.inputs, step.output} if last.get(name, index) == index)
    return most


def constant_bytes(steps: Steps) -> int:
    """What the constants of all steps take, each counted wherever it is used."""
    return sum(array.nbytes for step in steps.steps for array in step.constants.values())


def scratch_bytes(steps: Steps) -> int:
    """The most that one step takes besides, where NumPy runs it: elements in double precision, and padded maps."""
    return max((_scratch(step, steps.shapes) for step in steps.steps), default=0)


def _scratch(step: Step, shapes: Mapping[str, Shape]) -> int:
    largest = max(prod(shapes[name]) for name in (step.output, *step.inputs))
    maps = _padded(step, shapes) if step.kind in ("conv", "pool") else 0
    return _TEMPORARIES * largest + _BYTES * maps


def _padded(step: Step, shapes: Mapping[str, Shape]) -> int:
    """Elements of the map with its padding, as far as it or the last window reaches, and of windows side by side."""
    (items, channels, *size), (_, _, *counts) = shapes[step.inputs[0]], shapes[step.output]
    kernel: Shape = step.constants["weight"].shape[2:] if step.kind == "conv" else step.settings["kernel"]
    pads, stride, dilation = (step.settings[name] for name in ("pads", "stride", "dilation"))
    elements = items * channels
    for axis in range(2):
        last = (counts[axis] - 1) * stride[axis] + (kernel[axis] - 1) * dilation[axis] + 1
        elements *= max(last, size[axis] + pads[axis] + pads[axis + 2])
    row = channels * prod(kernel) * counts[1]
    return 2 * elements + min(row * counts[0], row + MOST_COLUMNS)
