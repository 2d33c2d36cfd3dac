"""The steps of a network as eager operators of torch: torch as a runtime to compare with.

Steps have the shapes of one item, in which the batch may stand anywhere: every value here has one more dimension, the
first, for the items.
"""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from asni.engine.frontends.from_onnx import read_onnx_graph
from asni.engine.fusing import fuse
from asni.engine.lowering import lower
from asni.engine.steps import Activation, Shape, Step, Steps


def steps_of(path: Path) -> Steps:
    """The steps of an .onnx file: batch norm is folded, as a user of torch would do for speed."""
    return fuse(lower(read_onnx_graph(path)))


class TorchSteps:
    """A network with one input and one output; a value is released after its last use, as in a module."""

    def __init__(self, steps: Steps, memory_format: torch.memory_format) -> None:
        self._steps, self._format = steps, memory_format
        self._constants = [
            {name: self._laid_out(torch.from_numpy(np.array(value))) for name, value in step.constants.items()}
            for step in steps.steps
        ]
        last = {name: place for place, step in enumerate(steps.steps) for name in step.inputs}
        self._released = [
            [name for name in set(step.inputs) if last[name] == place and name not in steps.outputs]
            for place, step in enumerate(steps.steps)
        ]

    def __call__(self, x: Tensor) -> Tensor:
        items = 1 if self._steps.fixed_batch else len(x)
        name = self._steps.inputs[0]
        values = {name: self._laid_out(x).reshape(items, *self._steps.shapes[name])}
        for step, constants, released in zip(self._steps.steps, self._constants, self._released, strict=True):
            shape = (items, *self._steps.shapes[step.output])
            values[step.output] = _KINDS[step.kind](step, [values[name] for name in step.inputs], constants, shape)
            for name in released:
                del values[name]
        return values[self._steps.outputs[0]].flatten(0, 1).contiguous()

    def _laid_out(self, value: Tensor) -> Tensor:
        return value.contiguous(memory_format=self._format) if value.ndim == 4 else value


Constants = Mapping[str, Tensor]


def _conv(step: Step, inputs: list[Tensor], constants: Constants, shape: Shape) -> Tensor:
    settings = step.settings
    x, padding = _padded(inputs[0].flatten(0, 1), settings["pads"], 0.0)
    y = functional.conv2d(
        x,
        constants["weight"],
        constants["bias"],
        settings["stride"],
        padding,
        settings["dilation"],
        settings["groups"],
    )
    return _finished(step, _by_item(y, shape), inputs[1:])


def _linear(step: Step, inputs: list[Tensor], constants: Constants, shape: Shape) -> Tensor:
    rows = inputs[0].reshape(-1, inputs[0].shape[-1])
    y = functional.linear(rows, constants["weight"], constants["bias"])
    return _finished(step, y.reshape(shape), inputs[1:])


def _by_item(images: Tensor, shape: Shape) -> Tensor:
    by_item: Tensor = images.unflatten(0, shape[:2])
    return by_item


def _finished(step: Step, y: Tensor, residuals: list[Tensor]) -> Tensor:
    for residual in residuals:
        y += residual
    activation = step.settings.get("activation")
    return y if activation is None else _activated(y, activation, inplace=True)


def _padded(x: Tensor, pads: tuple[int, ...], value: float) -> tuple[Tensor, tuple[int, int]]:
    """The operators of torch pad both sides alike; anything else is padded before."""
    top, left, bottom, right = pads
    if (top, left) == (bottom, right):
        return x, (top, left)
    return functional.pad(x, (left, right, top, bottom), value=value), (0, 0)


def _pool(step: Step, inputs: list[Tensor], constants: Constants, shape: Shape) -> Tensor:
    settings, x = step.settings, inputs[0].flatten(0, 1)
    if settings["mode"] == "max":
        x, padding = _padded(x, settings["pads"], float("-inf"))
        y = functional.max_pool2d(x, settings["kernel"], settings["stride"], padding, settings["dilation"])
        return _by_item(y, shape)
    include = bool(settings["count_include_pad"])
    padded, padding = _padded(x, settings["pads"], 0.0)
    y = functional.avg_pool2d(padded, settings["kernel"], settings["stride"], padding, count_include_pad=include)
    if padded is not x and not include:
        ones, _ = _padded(torch.ones_like(x[:1, :1]), settings["pads"], 0.0)
        y /= functional.avg_pool2d(ones, settings["kernel"], settings["stride"])
    return _by_item(y, shape)


def _adaptive_pool(step: Step, inputs: list[Tensor], constants: Constants, shape: Shape) -> Tensor:
    pool = functional.adaptive_max_pool2d if step.settings["mode"] == "max" else functional.adaptive_avg_pool2d
    return _by_item(pool(inputs[0].flatten(0, 1), (shape[3], shape[4])), shape)


def _binary(step: Step, inputs: list[Tensor], constants: Constants, shape: Shape) -> Tensor:
    remaining = iter(inputs)
    a, b = (constants[name] if name in constants else _aligned(next(remaining), shape) for name in ("a", "b"))
    return _BINARY[step.settings["function"]](a, b)


def _matmul(step: Step, inputs: list[Tensor], constants: Constants, shape: Shape) -> Tensor:
    return _aligned(inputs[0], shape) @ _aligned(inputs[1], shape)


def _aligned(x: Tensor, shape: Shape) -> Tensor:
    """With as many dimensions as the result, so that the first is that of the items in both."""
    return x.reshape(len(x), *[1] * (len(shape) - x.ndim), *x.shape[1:])


def _unary(step: Step, inputs: list[Tensor], constants: Constants, shape: Shape) -> Tensor:
    return _activated(inputs[0], step.settings["activation"], inplace=False)


def _activated(x: Tensor, activation: Activation, *, inplace: bool) -> Tensor:
    low, high = activation.low, activation.high
    match activation.function:
        case "relu":
            return functional.relu(x, inplace=inplace)
        case "clip":
            return torch.clip(x, low, high)
        case "leaky_relu":
            return functional.leaky_relu(x, low, inplace=inplace)
        case "gelu_tanh":
            return functional.gelu(x, approximate="tanh")
        case "hard_sigmoid":
            return torch.clip(low * x + high, 0, 1)
        case function:
            return _UNARY[function](x)


def _slice(step: Step, inputs: list[Tensor], constants: Constants, shape: Shape) -> Tensor:
    axis = step.settings["axis"] + 1
    places = torch.arange(shape[axis]) * step.settings["step"] + step.settings["start"]
    return inputs[0].index_select(axis, places)


def _transpose(step: Step, inputs: list[Tensor], constants: Constants, shape: Shape) -> Tensor:
    return inputs[0].permute(0, *(axis + 1 for axis in step.settings["permutation"]))


def _mean(step: Step, inputs: list[Tensor], constants: Constants, shape: Shape) -> Tensor:
    return inputs[0].mean([axis + 1 for axis in step.settings["axes"]]).reshape(shape)


def _layer_norm(step: Step, inputs: list[Tensor], constants: Constants, shape: Shape) -> Tensor:
    normalised = shape[len(shape) - step.settings["dimensions"] :]
    epsilon = step.settings["epsilon"]
    return functional.layer_norm(inputs[0], normalised, constants["weight"], constants["bias"], epsilon)


_UNARY: Mapping[str, Callable[[Tensor], Tensor]] = {
    "gelu": functional.gelu,
    "silu": functional.silu,
    "sigmoid": torch.sigmoid,
    "tanh": torch.tanh,
    "hard_swish": functional.hardswish,
    "erf": torch.erf,
    "exp": torch.exp,
    "sqrt": torch.sqrt,
    "abs": torch.abs,
    "neg": torch.neg,
}
_BINARY: Mapping[str, Callable[[Tensor, Tensor], Tensor]] = {
    "add": torch.add,
    "sub": torch.sub,
    "mul": torch.mul,
    "div": torch.div,
    "pow": torch.pow,
    "max": torch.maximum,
    "min": torch.minimum,
}
_KINDS: Mapping[str, Callable[[Step, list[Tensor], Constants, Any], Tensor]] = {
    "conv": _conv,
    "linear": _linear,
    "matmul": _matmul,
    "pool": _pool,
    "adaptive_pool": _adaptive_pool,
    "unary": _unary,
    "binary": _binary,
    "reshape": lambda step, inputs, constants, shape: inputs[0].reshape(shape),
    "expand": lambda step, inputs, constants, shape: _aligned(inputs[0], shape).expand(shape),
    "transpose": _transpose,
    "concat": lambda step, inputs, constants, shape: torch.cat(inputs, step.settings["axis"] + 1),
    "slice": _slice,
    "constant": lambda step, inputs, constants, shape: constants["value"].expand(shape),
    "softmax": lambda step, inputs, constants, shape: inputs[0].softmax(step.settings["axis"] + 1),
    "layer_norm": _layer_norm,
    "mean": _mean,
}
