"""Operators on one number at a time."""

from collections.abc import Callable

import numpy as np

from asni.engine.graph import Array
from asni.engine.lowering.call import Call
from asni.engine.lowering.values import Operand, Value
from asni.engine.steps import Activation, Function

# What the attribute `to` of Cast says, by the enumeration of ONNX.
FLOATS = {1: np.float32, 10: np.float16, 11: np.float64}
INTEGERS = {2: np.uint8, 3: np.int8, 4: np.uint16, 5: np.int16, 6: np.int32, 7: np.int64, 9: np.bool_}


def _plain(function: Function) -> Callable[[Call], Operand]:
    def lower(call: Call) -> Operand:
        return _unary(call, Activation(function))

    return lower


def _unary(call: Call, activation: Activation) -> Operand:
    x = call.value(0)
    return call.emit("unary", (x,), x.shape, {"activation": activation})


def _clip(call: Call) -> Operand:
    low, high = (_bound(call, name, index) for name, index in (("min", 1), ("max", 2)))
    if (low, high) == (0.0, np.inf):
        return _unary(call, Activation("relu"))
    return _unary(call, Activation("clip", low, high))


def _bound(call: Call, name: str, index: int) -> float:
    if not call.has(index):
        given = call.node.attributes.get(name, -np.inf if name == "min" else np.inf)
        if not isinstance(given, int | float) or given != given:
            raise call.error(f"the attribute {name} must be a number")
        return float(np.clip(given, -np.inf, np.inf))
    bound = call.floats(call.constant(index))
    call.require(bound.size == 1 and not np.isnan(bound).any(), f"{name} must be one number")
    return float(bound.reshape(()))


def _leaky_relu(call: Call) -> Operand:
    return _unary(call, Activation("leaky_relu", call.number("alpha", 0.01)))


def _gelu(call: Call) -> Operand:
    form = call.text("approximate", "none")
    call.require(form in ("none", "tanh"), "the attribute approximate must be none or tanh")
    return _unary(call, Activation("gelu" if form == "none" else "gelu_tanh"))


def _hard_sigmoid(call: Call) -> Operand:
    return _unary(call, Activation("hard_sigmoid", call.number("alpha", 0.2), call.number("beta", 0.5)))


def _silu(call: Call) -> Operand:
    call.require(call.number("alpha", 1.0) == 1.0, "the attribute alpha must be 1")
    return _unary(call, Activation("silu"))


def _dropout(call: Call) -> Operand:
    training = call.constant(2) if call.has(2) else np.zeros(1)
    call.require(not training.any(), "it is in training mode; export the network in evaluation mode")
    return call.operand(0)


def _cast(call: Call) -> Operand:
    x, to = call.operand(0), call.integer("to", 1)
    if isinstance(x, Value):
        call.require(to in (1, 11), "values are calculated in float32 alone")
        return x
    if to in FLOATS:
        call.afford(x.size)
        with np.errstate(over="ignore"):
            return (x if x.dtype.kind == "b" else call.floats(x)).astype(FLOATS[to])
    call.require(to in INTEGERS and x.dtype.kind in "iub", "constants of these types cannot be cast")
    wide = x.astype(np.int64)
    cast: Array = wide.astype(INTEGERS[to])
    call.afford(x.size)
    call.require(to == 9 or bool((cast == wide).all()), "a number does not fit into the type")
    return cast


FUNCTIONS: dict[str, Callable[[Call], Operand]] = {
    "Relu": _plain("relu"), "Sigmoid": _plain("sigmoid"), "Tanh": _plain("tanh"), "HardSwish": _plain("hard_swish"),
    "Erf": _plain("erf"), "Exp": _plain("exp"), "Sqrt": _plain("sqrt"), "Abs": _plain("abs"), "Neg": _plain("neg"),
    "Clip": _clip, "LeakyRelu": _leaky_relu, "Gelu": _gelu, "HardSigmoid": _hard_sigmoid, "Silu": _silu,
    "Swish": _silu, "Dropout": _dropout, "Cast": _cast,
}  # fmt: skip
