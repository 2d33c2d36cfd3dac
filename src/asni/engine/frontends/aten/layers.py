"""Layers with weights, normalisation, means, softmax and attention."""

import math

import numpy as np
import torch

from asni.engine.frontends.aten.calls import Call, Operator, Shape, UnsupportedError, Value, axis_of, of_each
from asni.engine.graph import BATCH

aten = torch.ops.aten


def _linear(call: Call) -> Value:
    value, weight, bias = _in_rows(call, call["input"]), call["weight"], call["bias"]
    if len(weight.shape) == 1:
        raise UnsupportedError("a weight of one dimension")
    shape = (*value.shape[:-1], weight.shape[0])
    if len(shape) == 2 and weight.constant is not None and (bias is None or bias.constant is not None):
        return call.emit("Gemm", [value, weight, bias][: 2 + (bias is not None)], attributes={"transB": 1})
    product = call.emit("MatMul", [value, _swapped(call, weight)], shape)
    result = product if bias is None else call.emit("Add", [product, bias], shape)
    return call.reshape(result, call.shape)


def _in_rows(call: Call, value: Value) -> Value:
    """Rows that were laid end to end as they were before: nn.MultiheadAttention mixes those of all items to no end."""
    if value.unshaped is None or value.shape[0] == BATCH:
        return value
    sizes = [part for size in value.unshaped.shape for part in _factors(size)]
    for first in reversed(range(len(sizes))):
        if math.prod(sizes[first:]) == value.shape[-1]:
            return call.reshape(value, (*sizes[:first], value.shape[-1]))
    return value


def _factors(size: int) -> Shape:
    """A dimension of several numbers for each item as two."""
    return (BATCH, size // BATCH) if size > BATCH and size % BATCH == 0 else (size,)


def _swapped(call: Call, value: Value) -> Value:
    """The last two dimensions swapped."""
    rank = len(value.shape)
    shape = (*value.shape[:-2], value.shape[-1], value.shape[-2])
    return call.emit("Transpose", [value], shape, {"perm": (*range(rank - 2), rank - 1, rank - 2)}, aside=True)


def _matmul(call: Call) -> Value:
    return call.emit("MatMul", [call["self"], call["other"] if "other" in call.arguments else call["mat2"]])


def _matmul_and_add(call: Call) -> Value:
    names = ("batch1", "batch2") if "batch1" in call.arguments else ("mat1", "mat2")
    product, added = call.emit("MatMul", [call[name] for name in names]), call["self"]
    for argument, value in (("alpha", product), ("beta", added)):
        factor = call.scalar(argument)
        scaled = value if factor == 1 else call.emit("Mul", [value, call.number(factor, argument)], value.shape)
        product, added = (scaled, added) if argument == "alpha" else (product, scaled)
    return call.emit("Add", [product, added])


def _convolution(call: Call) -> Value:
    value, weight, bias = call["input"], call["weight"], call["bias"]
    size = weight.shape[2:]
    if call.arguments.get("transposed"):
        raise UnsupportedError("a transposed convolution")
    if len(size) > 2:
        raise UnsupportedError(f"a convolution of {len(size)} dimensions")
    if len(value.shape) != len(weight.shape):
        raise UnsupportedError(f"an input of shape {value.shape}, which has no batch dimension")
    dilation = of_each(call["dilation"], len(size))
    attributes = {
        "kernel_shape": size,
        "strides": of_each(call["stride"], len(size)),
        "dilations": dilation,
        "pads": _pads(call["padding"], size, dilation),
        "group": call["groups"],
    }
    return call.emit("Conv", [value, weight, bias][: 2 + (bias is not None)], attributes=attributes)


def _pads(padding: list[int] | str, size: Shape, dilation: Shape) -> Shape:
    """All that come before, then all that come after."""
    if padding == "valid":
        padding = [0]
    if padding == "same":
        total = [reach * (kernel - 1) for kernel, reach in zip(size, dilation, strict=True)]
        return (*(each // 2 for each in total), *(each - each // 2 for each in total))
    assert not isinstance(padding, str)
    return of_each(padding, len(size)) * 2


def _batch_norm(call: Call) -> tuple[Value, ...]:
    value, mean, variance = call["input"], call["running_mean"], call["running_var"]
    if mean is None or variance is None or call.arguments.get("training"):
        raise UnsupportedError("the statistics of the batch, not those of the training; use track_running_stats=True")
    weight = call["weight"] or call.array(np.ones(mean.shape, np.float32), "weight")
    bias = call["bias"] or call.array(np.zeros(mean.shape, np.float32), "bias")
    inputs = [value, weight, bias, mean, variance]
    return (call.emit("BatchNormalization", inputs, attributes={"epsilon": call.scalar("eps")}),)


def _one_batch_norm(call: Call) -> Value:
    return _batch_norm(call)[0]


def _layer_norm(call: Call) -> Value:
    shape = tuple(call["normalized_shape"])
    weight = call["weight"] or call.array(np.ones(shape, np.float32), "weight")
    inputs = [call["input"], weight, *([] if call["bias"] is None else [call["bias"]])]
    return call.emit("LayerNormalization", inputs, attributes={"axis": -len(shape), "epsilon": call.scalar("eps")})


def _native_layer_norm(call: Call) -> tuple[Value | None, ...]:
    return _layer_norm(call), None, None


def _mean(call: Call) -> Value:
    return call.emit("ReduceMean", [call["self"], _axes(call)], attributes={"keepdims": int(_keeps(call))})


def _sum(call: Call) -> Value:
    value, axes = call["self"], _axes(call)
    count = math.prod(value.shape[axis] for axis in call.writer.constants[axes.name].tolist())
    mean = call.emit("ReduceMean", [value, axes], attributes={"keepdims": int(_keeps(call))})
    return call.emit("Mul", [mean, call.number(count, "count")])


def _axes(call: Call) -> Value:
    rank = len(call["self"].shape)
    return call.integers([axis_of(each, rank) for each in call.arguments.get("dim") or range(rank)], "axes")


def _keeps(call: Call) -> bool:
    return bool(call.arguments.get("keepdim", False))


def _softmax(call: Call) -> Value:
    return call.emit("Softmax", [call["self"]], attributes={"axis": axis_of(call["dim"], len(call.shape))})


def _attention(call: Call) -> Value:
    """softmax(scale q k' + mask) v."""
    query, key, value = call["query"], call["key"], call["value"]
    if call["enable_gqa"]:
        raise UnsupportedError("enable_gqa=True")
    if call["dropout_p"]:
        raise UnsupportedError("a dropout that is also active in evaluation mode")
    scale = 1 / math.sqrt(query.shape[-1]) if call["scale"] is None else call.scalar("scale")
    shape = (*call.shape[:-1], key.shape[-2])
    scaled = call.emit("Mul", [query, call.number(scale, "scale")], query.shape)
    scores = call.emit("MatMul", [scaled, _swapped(call, key)], shape)
    mask = _mask(call, shape[-2:])
    scores = scores if mask is None else call.emit("Add", [scores, mask], shape)
    weights = call.emit("Softmax", [scores], shape, {"axis": len(shape) - 1})
    return call.emit("MatMul", [weights, value])


def _mask(call: Call, shape: Shape) -> Value | None:
    """What is added to the scores: minus infinity where nothing is attended to."""
    given = call["attn_mask"]
    if given is None and not call["is_causal"]:
        return None
    mask = torch.ones(shape, dtype=torch.bool).tril() if given is None else given.constant
    mask = given.repeated if mask is None else mask
    if mask is None:
        raise UnsupportedError("a mask that is not constant")
    if mask.dtype == torch.bool:
        mask = torch.zeros(mask.shape).masked_fill(~mask.cpu(), -math.inf)
    if bool((mask == -math.inf).all(-1).any()):
        raise UnsupportedError("a mask that hides every key from a query")
    return call.array(mask.to("cpu", torch.float32).numpy(), "mask") if mask.any() else None


LAYERS: dict[torch._ops.OpOverload, Operator] = {
    aten.linear.default: _linear,
    aten.mm.default: _matmul,
    aten.bmm.default: _matmul,
    aten.matmul.default: _matmul,
    aten.addmm.default: _matmul_and_add,
    aten.baddbmm.default: _matmul_and_add,
    aten.conv1d.default: _convolution,
    aten.conv1d.padding: _convolution,
    aten.conv2d.default: _convolution,
    aten.conv2d.padding: _convolution,
    aten.convolution.default: _convolution,
    aten.batch_norm.default: _one_batch_norm,
    aten._native_batch_norm_legit_no_training.default: _batch_norm,
    aten.layer_norm.default: _layer_norm,
    aten.native_layer_norm.default: _native_layer_norm,
    aten.mean.dim: _mean,
    aten.mean.default: _mean,
    aten.sum.dim_IntList: _sum,
    aten.sum.default: _sum,
    aten.softmax.int: _softmax,
    aten._softmax.default: _softmax,
    aten.scaled_dot_product_attention.default: _attention,
}
