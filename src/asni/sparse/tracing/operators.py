"""The operators of torch.export (aten) that the kernels can train, each as a step or as a view of a value."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor

from asni.engine.graph import Array
from asni.engine.interpreter import bins, divisors
from asni.engine.program.drafting import windows
from asni.engine.steps import Step as EngineStep
from asni.sparse.steps import Kind, Shape, Step, UnsupportedError

aten = torch.ops.aten

Pair = tuple[int, int]
Mode = Literal["max", "average"]


@dataclass(frozen=True)
class Value:
    """What a step makes, and the shape in which the model sees an item of it: (C, H, W), (F,), or something between."""

    name: str
    made: Shape
    shape: tuple[int, ...]


@dataclass(frozen=True)
class Stored:
    """A parameter or a buffer of the model."""

    name: str
    tensor: Tensor
    trained: bool


@dataclass(frozen=True)
class Refused:
    """A tensor that no kernel makes; the reason is told to whom reads it."""

    reason: str


@dataclass(frozen=True)
class Call:
    """One call of an operator: its arguments by name, the module that makes it, and the shape of an item of the result.

    Args:
        output: The name of the value that it makes.
        counted: Buffers to which the model has added 1.
        cumulative: Buffers of batch norms that average the statistics of all batches.
    """

    title: str
    name: str
    arguments: Mapping[str, Any]
    shape: tuple[int, ...]
    output: str
    counted: frozenset[str]
    cumulative: frozenset[str]

    def __getitem__(self, argument: str) -> Any:
        return self.arguments[argument]

    def refused(self, reason: str) -> UnsupportedError:
        return UnsupportedError(f"{self.name}: {self.title} {reason}")

    def step(
        self,
        kind: Kind,
        inputs: Sequence[Value],
        settings: Mapping[str, Any],
        parameters: Mapping[str, str] | None = None,
    ) -> Step:
        """A step that is named after the module of its parameters, or else after the module that calls."""
        stored = next(iter((parameters or {}).values()), "")
        name = stored.rpartition(".")[0] or self.name
        return Step(kind, name, tuple(each.name for each in inputs), self.output, settings, parameters or {})

    def value(self, argument: str, *ranks: int) -> Value:
        """What a step made: a map has 3 dimensions an item, features have 1; without ranks, anything will do."""
        given = self[argument]
        if isinstance(given, Refused):
            raise UnsupportedError(given.reason)
        if not isinstance(given, Value):
            what = given.name if isinstance(given, Stored) else "a number"
            raise self.refused(f"takes {what} where the kernels take what a layer made")
        if ranks and len(given.shape) not in ranks:
            raise self.refused(f"takes items of shape {given.shape}, which the kernels do not")
        return given

    def parameters(self, *roles: str) -> dict[str, str]:
        """The names of the parameters in these roles, as far as there are any."""
        return {role: self._parameter(role) for role in roles if self[role] is not None}

    def _parameter(self, role: str) -> str:
        given = self[role]
        if not isinstance(given, Stored) or not given.trained:
            raise self.refused(f"has a {role} that is not a parameter as it is stored; the kernels train no other")
        tensor = given.tensor
        if tensor.dtype != torch.float32 or tensor.device.type != "cpu":
            raise self.refused(
                f"has {given.name} of {tensor.dtype} on {tensor.device}; the kernels train float32 on cpu"
            )
        if not tensor.requires_grad:
            raise self.refused(f"has {given.name} frozen (requires_grad=False); the kernels train all parameters")
        if tensor._backward_hooks:
            raise self.refused(f"has a hook on the gradient of {given.name}, which the kernels do not call")
        return given.name

    def buffers(self, *roles: str) -> dict[str, str]:
        """The names of the buffers in these roles, as far as there are any."""
        return {role: self._buffer(role) for role in roles if self[role] is not None}

    def _buffer(self, role: str) -> str:
        given = self[role]
        if not isinstance(given, Stored) or given.trained or given.tensor.dtype != torch.float32:
            raise self.refused(f"has a {role} that is not a buffer of float32")
        return given.name


Operator = Callable[[Call], Step | Value]


def mapped(shape: tuple[int, ...]) -> Shape:
    """A map or features as every value lies in memory.

    >>> mapped((3, 8, 8)), mapped((10,))
    ((1, 3, 8, 8), (1, 10, 1, 1))
    """
    channels, height, width = (*shape, 1, 1)[:3]
    return 1, channels, height, width


# Layers


def _conv(call: Call) -> Step:
    x, dilation = call.value("input", 3), _pair(call["dilation"])
    parameters = call.parameters("weight", "bias")
    kernel = tuple(call["weight"].tensor.shape[2:])
    settings = {
        "stride": _pair(call["stride"]),
        "dilation": dilation,
        "pads": _pads(call["padding"], kernel, dilation),
        "groups": call["groups"],
        "relu": False,
    }
    return call.step("conv", [x], settings, parameters)


def _pads(padding: str | Sequence[int], kernel: Sequence[int], dilation: Pair) -> tuple[int, int, int, int]:
    if padding == "same":
        totals = [step * (size - 1) for step, size in zip(dilation, kernel, strict=True)]
        # An odd one is at the end.
        return totals[0] // 2, totals[1] // 2, (totals[0] + 1) // 2, (totals[1] + 1) // 2
    top, left = (0, 0) if isinstance(padding, str) else _pair(padding)
    return top, left, top, left


def _linear(call: Call) -> Step:
    return call.step("linear", [call.value("input", 1)], {"relu": False}, call.parameters("weight", "bias"))


def _batch_norm(call: Call) -> Step:
    if not call["training"]:
        raise call.refused("is in evaluation mode (frozen statistics); the kernels train with those of the batch")
    parameters, buffers = call.parameters("weight", "bias"), call.buffers("running_mean", "running_var")
    momentum = call["momentum"]
    if "running_mean" in buffers:
        counter = buffers["running_mean"].removesuffix("running_mean") + "num_batches_tracked"
        if counter in call.counted:
            buffers["num_batches_tracked"] = counter
            momentum = None if counter in call.cumulative else momentum
    settings = {"epsilon": call["eps"], "momentum": momentum, "relu": False}
    return call.step("batch_norm", [call.value("input", 1, 3)], settings, parameters | buffers)


# Pools


def _max_pool(call: Call) -> Step:
    return _pool(call, "max", _pair(call["dilation"]))


def _average_pool(call: Call) -> Step:
    return _pool(call, "average", (1, 1))


def _pool(call: Call, mode: Mode, dilation: Pair) -> Step:
    x, kernel = call.value("self", 3), _pair(call["kernel_size"])
    stride, (top, left) = _pair(call["stride"] or kernel), _pair(call["padding"])
    settings = {"kernel": kernel, "stride": stride, "dilation": dilation, "pads": (top, left, top, left)}
    rows = windows(call.shape[1], x.shape[1], kernel[0], stride[0], dilation[0], top)
    columns = windows(call.shape[2], x.shape[2], kernel[1], stride[1], dilation[1], left)
    if mode == "max":
        return _pooled(call, x, mode, rows, columns, dilation, None)
    if call["divisor_override"]:
        scale = np.full(call.shape[1:], 1 / call["divisor_override"], np.float32)
    else:
        settings["count_include_pad"] = call["count_include_pad"]
        counting = EngineStep("pool", call.name, (x.name,), call.output, settings)
        scale = (1 / divisors(counting, mapped(x.shape), mapped(call.shape))[0, 0]).astype(np.float32)
    return _pooled(call, x, mode, rows, columns, dilation, scale)


def _adaptive_max_pool(call: Call) -> Step | Value:
    return _whole_bins(call, "max", call.shape[1:])


def _adaptive_average_pool(call: Call) -> Step | Value:
    return _whole_bins(call, "average", call.shape[1:])


def _mean(call: Call) -> Step | Value:
    """Over height and width: an adaptive pool with one bin."""
    if sorted(axis % 4 for axis in call["dim"] or ()) != [2, 3]:
        raise call.refused("is not over height and width, which is what the kernels average over")
    return _whole_bins(call, "average", (1, 1))


def _whole_bins(call: Call, mode: Mode, counts: tuple[int, ...]) -> Step | Value:
    x = call.value("self", 3)
    if x.shape[1:] == counts:
        return replace(x, shape=call.shape)
    rows, columns = (
        np.array([(each.start, each.stop) for each in bins(size, count)], np.int32)
        for size, count in zip(x.shape[1:], counts, strict=True)
    )
    scale = (1 / (np.diff(rows) * np.diff(columns).T)).astype(np.float32) if mode == "average" else None
    return _pooled(call, x, mode, rows, columns, (1, 1), scale)


def _pooled(call: Call, x: Value, mode: Mode, rows: Array, columns: Array, dilation: Pair, scale: Array | None) -> Step:
    for each in (rows, columns):
        if not (each[:, 0] < each[:, 1]).all():
            raise call.refused("has a window that lies in the padding alone")
    settings = {"mode": mode, "rows": rows, "columns": columns, "dilation": dilation}
    return call.step("pool", [x], settings if scale is None else {**settings, "scale": scale})


# Elements


def _relu(call: Call) -> Step:
    return call.step("add", [call.value("self", 1, 3)], {"relu": True})


def _add(call: Call) -> Step:
    a, b = call.value("self", 1, 3), call.value("other", 1, 3)
    if a.shape != b.shape or call["alpha"] != 1:
        raise call.refused(
            f"is of shapes {a.shape} and {b.shape} with alpha={call['alpha']}; the kernels add like to like"
        )
    return call.step("add", [a, b], {"relu": False})


def _drop_out(call: Call) -> Step | Value:
    x, probability = call.value("input" if "input" in call.arguments else "self", 1, 3), call["p"]
    if not call["train"] or not probability:
        return x
    if probability == 1:
        raise call.refused("has probability 1: nothing is left to train")
    return call.step("drop_out", [x], {"probability": probability})


# Views


def _view(call: Call) -> Step | Value:
    """Elements keep their order, so that of several views in a row only the last one counts."""
    x = call.value("self")
    if prod(x.shape) != prod(call.shape):
        raise call.refused("moves elements from one item to another")
    if len(call.shape) in (1, 3) and mapped(call.shape) != x.made:
        if len(call.shape) == 3:
            raise call.refused(f"makes items of shape {call.shape} from {x.made[1:]}; the kernels only flatten")
        return call.step("flatten", [x], {})
    return replace(x, shape=call.shape)


def _copy(call: Call) -> Value:
    return call.value("self")


def _pair(given: Sequence[int]) -> Pair:
    """One number may stand for both dimensions."""
    first, second = tuple(given) * 2 if len(given) == 1 else tuple(given)
    return first, second


OPERATORS: dict[object, Operator] = {
    aten.conv2d.default: _conv,
    aten.conv2d.padding: _conv,
    aten.linear.default: _linear,
    aten.batch_norm.default: _batch_norm,
    aten.max_pool2d.default: _max_pool,
    aten.max_pool2d_with_indices.default: _max_pool,
    aten.avg_pool2d.default: _average_pool,
    aten.adaptive_avg_pool2d.default: _adaptive_average_pool,
    aten.adaptive_max_pool2d.default: _adaptive_max_pool,
    aten.mean.dim: _mean,
    aten.relu.default: _relu,
    aten.relu_.default: _relu,
    aten.add.Tensor: _add,
    aten.add_.Tensor: _add,
    aten.dropout.default: _drop_out,
    aten.dropout_.default: _drop_out,
    aten.view.default: _view,
    aten.reshape.default: _view,
    aten.flatten.using_ints: _view,
    aten.squeeze.default: _view,
    aten.squeeze.dim: _view,
    aten.squeeze.dims: _view,
    aten.contiguous.default: _copy,
    aten.clone.default: _copy,
    aten.to.dtype_layout: _copy,
    aten.to.dtype: _copy,
    aten.to.device: _copy,
    aten.to.other: _copy,
}
