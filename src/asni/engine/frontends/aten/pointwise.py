"""Functions of each number by itself, and of pairs of numbers."""

from functools import partial

import torch

from asni.engine.frontends.aten.calls import Call, Operator, UnsupportedError, Value
from asni.engine.graph import Attribute

aten = torch.ops.aten


def _function(op: str, call: Call, **attributes: Attribute) -> Value:
    return call.emit(op, [call["self"]], attributes=attributes)


def _gelu(call: Call) -> Value:
    return _function("Gelu", call, approximate=call["approximate"])


def _leaky_relu(call: Call) -> Value:
    return _function("LeakyRelu", call, alpha=call.scalar("negative_slope"))


def _clip(low: str, high: str, call: Call) -> Value:
    """Bounds that are tensors are taken one after the other, as in torch: the upper one wins."""
    value: Value = call["self"]
    bounds = {name: call.arguments.get(name) for name in (low, high)}
    if any(isinstance(bound, Value) for bound in bounds.values()):
        for name, op in ((low, "Max"), (high, "Min")):
            value = value if bounds[name] is None else call.emit(op, [value, call.operand(name)])
        return value
    numbers = [None if bound is None else call.number(call.scalar(name), name) for name, bound in bounds.items()]
    return call.emit("Clip", [value, *numbers])


def _binary(op: str, call: Call) -> Value:
    return call.emit(op, [call.operand("self"), call.operand("other")])


def _scaled(op: str, call: Call) -> Value:
    """Addition and subtraction multiply the second operand by alpha."""
    return call.emit(op, [call.operand("self"), _times_alpha(call, "other")])


def _reversed_sub(call: Call) -> Value:
    return call.emit("Sub", [call.operand("other"), _times_alpha(call, "self")])


def _times_alpha(call: Call, argument: str) -> Value:
    operand, alpha = call.operand(argument), call.scalar("alpha")
    return operand if alpha == 1 else call.emit("Mul", [operand, call.number(alpha, "alpha")], operand.shape)


def _divided(call: Call) -> Value:
    if call.arguments.get("rounding_mode") is not None:
        raise UnsupportedError(f"rounding_mode={call['rounding_mode']!r}")
    return _binary("Div", call)


def _power(call: Call) -> Value:
    exponent = call["exponent"]
    base = call.operand("self")
    if exponent == 2:
        return call.emit("Mul", [base, base])
    if exponent == 0.5:
        return call.emit("Sqrt", [base])
    return call.emit("Pow", [base, call.operand("exponent")])


def _square_root_below_one(call: Call) -> Value:
    root = call.emit("Sqrt", [call["self"]])
    return call.emit("Div", [call.number(1, "one"), root])


def _reciprocal(call: Call) -> Value:
    return call.emit("Div", [call.number(1, "one"), call["self"]])


def _parametric_relu(call: Call) -> Value:
    """The slope of the negative side is one number, or one for each channel."""
    value, slope = call["self"], call["weight"]
    shape = (slope.shape[0],) + (1,) * (len(value.shape) - 2) if value.shape[1:2] else slope.shape
    slopes = call.reshape(slope, shape)
    below = call.emit("Clip", [value, None, call.number(0, "high")])
    above = call.emit("Relu", [value])
    return call.emit("Add", [above, call.emit("Mul", [below, slopes])])


POINTWISE: dict[torch._ops.OpOverload, Operator] = {
    aten.relu.default: partial(_function, "Relu"),
    aten.sigmoid.default: partial(_function, "Sigmoid"),
    aten.tanh.default: partial(_function, "Tanh"),
    aten.silu.default: partial(_function, "Silu"),
    aten.hardswish.default: partial(_function, "HardSwish"),
    aten.hardsigmoid.default: partial(_function, "HardSigmoid", alpha=1 / 6, beta=0.5),
    aten.exp.default: partial(_function, "Exp"),
    aten.erf.default: partial(_function, "Erf"),
    aten.sqrt.default: partial(_function, "Sqrt"),
    aten.abs.default: partial(_function, "Abs"),
    aten.neg.default: partial(_function, "Neg"),
    aten.gelu.default: _gelu,
    aten.leaky_relu.default: _leaky_relu,
    aten.prelu.default: _parametric_relu,
    aten.hardtanh.default: partial(_clip, "min_val", "max_val"),
    aten.clamp.default: partial(_clip, "min", "max"),
    aten.clamp.Tensor: partial(_clip, "min", "max"),
    aten.clamp_min.default: partial(_clip, "min", "max"),
    aten.clamp_max.default: partial(_clip, "min", "max"),
    aten.add.Tensor: partial(_scaled, "Add"),
    aten.add.Scalar: partial(_scaled, "Add"),
    aten.sub.Tensor: partial(_scaled, "Sub"),
    aten.sub.Scalar: partial(_scaled, "Sub"),
    aten.rsub.Tensor: _reversed_sub,
    aten.rsub.Scalar: _reversed_sub,
    aten.mul.Tensor: partial(_binary, "Mul"),
    aten.mul.Scalar: partial(_binary, "Mul"),
    aten.div.Tensor: _divided,
    aten.div.Scalar: _divided,
    aten.div.Tensor_mode: _divided,
    aten.maximum.default: partial(_binary, "Max"),
    aten.minimum.default: partial(_binary, "Min"),
    aten.pow.Tensor_Scalar: _power,
    aten.pow.Tensor_Tensor: _power,
    aten.pow.Scalar: _power,
    aten.rsqrt.default: _square_root_below_one,
    aten.reciprocal.default: _reciprocal,
}
