"""What steps will take, known before any of them runs: multiplications, and bytes of activations."""

from collections.abc import Mapping
from math import prod

from asni.engine.steps import Shape, Step, Steps

_BYTES = 4


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
