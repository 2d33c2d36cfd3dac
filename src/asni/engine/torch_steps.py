"""The steps of a network as eager operators of torch: torch as a runtime to compare with."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from asni.engine.from_onnx import read_onnx_graph
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
        batch = 1 if self._steps.fixed_batch else len(x)
        values = {self._steps.inputs[0]: self._laid_out(x)}
        for step, constants, released in zip(self._steps.steps, self._constants, self._released, strict=True):
            shape = self._steps.shapes[step.output]
            whole = (batch * shape[0], *shape[1:]) if shape else shape
            values[step.output] = _KINDS[step.kind](step, [values[name] for name in step.inputs], constants, whole)
            for name in released:
                del values[name]
        return values[self._steps.outputs[0]].contiguous()

    def _laid_out(self, value: Tensor) -> Tensor:
        return value.contiguous(memory_format=self._format) if value.ndim == 4 else value


Constants = Mapping[str, Tensor]


def _conv(step: Step, inputs: list[Tensor], constants: Constants, shape: Shape) -> Tensor:
    settings = step.settings
    x, padding = _padded(inputs[0], settings["pads"], 0.0)
    y = functional.conv2d(
        x,
        constants["weight"],
        constants["bias"],
        settings["stride"],
        padding,
        settings["dilation"],
        settings["groups"],
    )
    return _finished(step, y, inputs[1:])


def _linear(step: Step, inputs: list[Tensor], constants: Constants, shape: Shape) -> Tensor:
    return _finished(step, functional.linear(inputs[0], constants["weight"], constants["bias"]), inputs[1:])


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
    settings, x = step.settings, inputs[0]
    if settings["mode"] == "max":
        x, padding = _padded(x, settings["pads"], float("-inf"))
        return functional.max_pool2d(x, settings["kernel"], settings["stride"], padding, settings["dilation"])
    include = bool(settings["count_include_pad"])
    padded, padding = _padded(x, settings["pads"], 0.0)
    y = functional.avg_pool2d(padded, settings["kernel"], settings["stride"], padding, count_include_pad=include)
    if padded is not x and not include:
        ones, _ = _padded(torch.ones_like(x[:1, :1]), settings["pads"], 0.0)
        y /= functional.avg_pool2d(ones, settings["kernel"], settings["stride"])
    return y


def _adaptive_pool(step: Step, inputs: list[Tensor], constants: Constants, shape: Shape) -> Tensor:
    size = (shape[2], shape[3])
    if step.settings["mode"] == "max":
        return functional.adaptive_max_pool2d(inputs[0], size)
    return functional.adaptive_avg_pool2d(inputs[0], size)


def _binary(step: Step, inputs: list[Tensor], constants: Constants, shape: Shape) -> Tensor:
    remaining = iter(inputs)
    a, b = (constants[name] if name in constants else next(remaining) for name in ("a", "b"))
    return _BINARY[step.settings["function"]](a, b)


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
    axis, start, stride = (step.settings[name] for name in ("axis", "start", "step"))
    places = torch.arange(shape[axis]) * stride + start
    return inputs[0].index_select(axis, places)


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
    "matmul": lambda step, inputs, constants, shape: inputs[0] @ inputs[1],
    "pool": _pool,
    "adaptive_pool": _adaptive_pool,
    "unary": _unary,
    "binary": _binary,
    "reshape": lambda step, inputs, constants, shape: inputs[0].reshape(shape),
    "expand": lambda step, inputs, constants, shape: inputs[0].expand(shape),
    "transpose": lambda step, inputs, constants, shape: inputs[0].permute(step.settings["permutation"]),
    "concat": lambda step, inputs, constants, shape: torch.cat(inputs, step.settings["axis"]),
    "slice": _slice,
    "constant": lambda step, inputs, constants, shape: constants["value"].expand(shape),
    "softmax": lambda step, inputs, constants, shape: inputs[0].softmax(step.settings["axis"]),
    "layer_norm": _layer_norm,
    "mean": lambda step, inputs, constants, shape: inputs[0].mean(step.settings["axes"]).reshape(shape),
}
