"""Convolutions and pools. In one dimension they are those of a map of height 1."""

from collections.abc import Callable, Sequence
from math import prod
from typing import Literal

import numpy as np

from asni.engine.lowering.arranging import reshape_value
from asni.engine.lowering.call import LARGE, Call
from asni.engine.lowering.values import Operand, Value, batch_axis, shown_shape
from asni.engine.steps import Shape

Mode = Literal["max", "average"]


class _Windows:
    """How windows are laid over a map, two dimensions for one or two: where they start, how far they reach."""

    def __init__(self, call: Call, x: Value, kernel: Sequence[int]) -> None:
        missing = 2 - len(kernel)
        lead = (1,) * missing
        count = len(kernel)
        self.kernel: tuple[int, ...] = (*lead, *kernel)
        self.stride: tuple[int, ...] = (*lead, *call.counts("strides", (1,) * count))
        self.dilation: tuple[int, ...] = (*lead, *call.counts("dilations", (1,) * count))
        self.size: tuple[int, ...] = (*lead, *x.shape[2:])
        self.reach = tuple((k - 1) * d + 1 for k, d in zip(self.kernel, self.dilation, strict=True))
        begins, ends = self._pads(call, count)
        self.begins: tuple[int, ...] = ((0,) * missing + begins)[-2:]
        self.ends: tuple[int, ...] = ((0,) * missing + ends)[-2:]

    def _pads(self, call: Call, count: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
        how = call.text("auto_pad", "NOTSET")
        call.require(how in ("NOTSET", "VALID", "SAME_UPPER", "SAME_LOWER"), "auto_pad has an unknown value")
        given = call.counts("pads", (0,) * 2 * count, least=0)
        if how == "NOTSET":
            return tuple(given[:count]), tuple(given[count:])
        totals = [0, 0]
        if how != "VALID":
            for axis in range(2):
                last = -(-self.size[axis] // self.stride[axis]) - 1
                totals[axis] = max(last * self.stride[axis] + self.reach[axis] - self.size[axis], 0)
        less, more = tuple(each // 2 for each in totals), tuple(each - each // 2 for each in totals)
        return (less, more) if how == "SAME_UPPER" else (more, less)

    @property
    def pads(self) -> tuple[int, int, int, int]:
        """Top, left, bottom, right."""
        return (*self.begins, *self.ends)  # type: ignore[return-value]

    def counts(self, call: Call, ceil: bool) -> tuple[int, ...]:
        """How many windows there are. PyTorch's rule for a ceil: none starts behind the map and its first padding."""
        found = []
        for axis in range(2):
            start, stride = self.begins[axis], self.stride[axis]
            room = self.size[axis] + start + self.ends[axis] - self.reach[axis]
            call.require(room >= 0, f"its window is larger than the map {shown_shape(self.size)} with its padding")
            count = (-(-room // stride) if ceil else room // stride) + 1
            found.append(count - 1 if ceil and (count - 1) * stride >= self.size[axis] + start else count)
        return tuple(found)

    def require_contents(self, call: Call) -> None:
        """Prove that every window of a pool has an element of the map in it."""
        for axis in range(2):
            padded = max(self.begins[axis], self.ends[axis])
            inside = padded < self.reach[axis] and (self.kernel[axis] == 1 or self.dilation[axis] <= self.size[axis])
            call.require(inside, "a window of it could lie in the padding alone")


def _map(call: Call, index: int = 0) -> Value:
    """An input with items, channels and a map."""
    x = call.value(index)
    call.require(len(x.shape) in (3, 4), f"{shown_shape(x.shape)}: only one and two dimensions of a map are supported")
    _require_items_first(call, x)
    return x


def _require_items_first(call: Call, x: Value) -> None:
    call.require(batch_axis(x.shape) in (0, None), f"the batch is not the first dimension of {shown_shape(x.shape)}")


def _as_map(call: Call, x: Value) -> Value:
    return x if len(x.shape) == 4 else reshape_value(call, x, (*x.shape[:2], 1, x.shape[2]))


def _like(call: Call, y: Value, rank: int) -> Value:
    """As many dimensions as the input had."""
    return y if rank == 4 else reshape_value(call, y, (*y.shape[:2], y.shape[3]))


def _conv(call: Call) -> Operand:
    x, weight = _map(call), call.weights(1)
    rank, groups = len(x.shape), call.integer("group", 1)
    call.require(weight.ndim == rank, f"weights of {weight.ndim} dimensions do not fit to {shown_shape(x.shape)}")
    call.require(weight.size > 0, "its weights are empty")
    outputs, channels = weight.shape[0], x.shape[1]
    call.require(0 < groups <= outputs and outputs % groups == 0, f"{groups} groups do not divide {outputs} outputs")
    fits = channels == groups * weight.shape[1]
    call.require(fits, f"weights of shape {weight.shape} in {groups} groups do not fit to {channels} channels")
    kernel = call.counts("kernel_shape", weight.shape[2:])
    call.require(tuple(kernel) == weight.shape[2:], "kernel_shape is not that of its weights")
    bias = call.weights(2) if call.has(2) else np.zeros(outputs, np.float32)
    call.require(bias.shape == (outputs,), f"its bias must have the shape ({outputs},)")
    windows = _Windows(call, x, kernel)
    settings = {
        "stride": windows.stride, "dilation": windows.dilation, "pads": windows.pads, "groups": groups,
        "activation": None,
    }  # fmt: skip
    constants = {"weight": np.ascontiguousarray(weight.reshape(*weight.shape[:2], *windows.kernel)), "bias": bias}
    shape = (x.shape[0], outputs, *windows.counts(call, ceil=False))
    return _like(call, call.emit("conv", (_as_map(call, x),), shape, settings, constants), rank)


def _pool(mode: Mode) -> Callable[[Call], Operand]:
    def lower(call: Call) -> Operand:
        x = _map(call)
        count = len(x.shape) - 2
        call.require(call.integers("kernel_shape") is not None, "it has no kernel_shape")
        call.require(not any(call.node.outputs[1:]), "its second output, the indices, is not supported")
        windows = _Windows(call, x, call.counts("kernel_shape", (1,) * count))
        windows.require_contents(call)
        ceil = bool(call.integer("ceil_mode", 0)) and call.text("auto_pad", "NOTSET") == "NOTSET"
        settings = {
            "mode": mode, "kernel": windows.kernel, "stride": windows.stride, "dilation": windows.dilation,
            "pads": windows.pads, "count_include_pad": bool(call.integer("count_include_pad", 0)),
        }  # fmt: skip
        shape = (*x.shape[:2], *windows.counts(call, ceil))
        return _like(call, call.emit("pool", (_as_map(call, x),), shape, settings), len(x.shape))

    return lower


def _global_pool(mode: Mode) -> Callable[[Call], Operand]:
    def lower(call: Call) -> Operand:
        x = call.value(0)
        rank = len(x.shape)
        call.require(rank >= 3, f"{shown_shape(x.shape)} has no map")
        _require_items_first(call, x)
        flat = x if rank == 4 else reshape_value(call, x, (*x.shape[:2], 1, prod(x.shape[2:])))
        pooled = _adaptive(call, mode, flat, (1, 1))
        return reshape_value(call, pooled, (*x.shape[:2], *(1,) * (rank - 2)))

    return lower


def _adaptive_pool(mode: Mode) -> Callable[[Call], Operand]:
    def lower(call: Call) -> Operand:
        x = _map(call)
        rank = len(x.shape)
        size = call.integers("output_size") or []
        call.require(len(size) == rank - 2, f"the attribute output_size must have {rank - 2} values")
        call.require(all(0 < each < LARGE for each in size), "a value of output_size is out of range")
        return _like(call, _adaptive(call, mode, _as_map(call, x), ((1, *size))[-2:]), rank)

    return lower


def _adaptive(call: Call, mode: Mode, x: Value, size: Shape) -> Value:
    return call.emit("adaptive_pool", (x,), (*x.shape[:2], *size), {"mode": mode})


WINDOWS: dict[str, Callable[[Call], Operand]] = {
    "Conv": _conv, "MaxPool": _pool("max"), "AveragePool": _pool("average"),
    "GlobalMaxPool": _global_pool("max"), "GlobalAveragePool": _global_pool("average"),
    "AdaptiveMaxPool": _adaptive_pool("max"), "AdaptiveAveragePool": _adaptive_pool("average"),
}  # fmt: skip
