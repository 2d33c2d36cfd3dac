"""Operators on two numbers at a time, and the arithmetic of shapes, in which a batch size must stay a batch size."""

from collections.abc import Callable
from functools import reduce
from math import prod
from typing import Any, Literal

import numpy as np

from asni.engine.graph import BATCH, Array
from asni.engine.lowering.arranging import broadcast
from asni.engine.lowering.call import Call, carries_batch
from asni.engine.lowering.values import Operand, Value, is_batch, shown_shape

Name = Literal["add", "sub", "mul", "div", "pow", "max", "min", "equal"]
MOST_SHAPES = 4096
"""No arithmetic with batch sizes is on more numbers than this."""


def combine(call: Call, function: Name, a: Operand, b: Operand) -> Operand:
    """Calculate with two operands elementwise: on constants at once, else by a step."""
    shape = broadcast(call, a.shape, b.shape)
    if isinstance(a, Value) and isinstance(b, Value):
        return call.emit("binary", (a, b), shape, {"function": function})
    if isinstance(a, Value):
        return call.emit("binary", (a,), shape, {"function": function}, {"b": call.floats(_array(b))})
    if isinstance(b, Value):
        return call.emit("binary", (b,), shape, {"function": function}, {"a": call.floats(_array(a))})
    call.require(len(shape) <= 32, "too many dimensions")
    call.afford(prod(shape))
    if carries_batch(a) or carries_batch(b):
        return _with_batch_sizes(call, function, a, b)
    call.require(a.dtype.kind in "fiu" and b.dtype.kind in "fiu", "it calculates with constants of another type")
    with np.errstate(all="ignore"):
        return _NUMPY[function](call, a, b)


def _array(operand: Operand) -> Array:
    assert not isinstance(operand, Value)
    return operand


def _divide(call: Call, a: Array, b: Array) -> Array:
    if a.dtype.kind == "f" or b.dtype.kind == "f":
        return np.asarray(np.divide(a, b))
    call.require(bool(b.all()), "it divides by zero")
    quotient = np.abs(a) // np.abs(b)
    return np.asarray(np.where((a < 0) == (b < 0), quotient, -quotient))


def _power(call: Call, a: Array, b: Array) -> Array:
    if a.dtype.kind != "f" and b.dtype.kind != "f":
        call.require(bool((b >= 0).all()), "an integer has a negative exponent")
    return np.asarray(np.power(a, b))


_NUMPY: dict[Name, Callable[[Call, Array, Array], Array]] = {
    "add": lambda _, a, b: np.asarray(a + b),
    "sub": lambda _, a, b: np.asarray(a - b),
    "mul": lambda _, a, b: np.asarray(a * b),
    "max": lambda _, a, b: np.asarray(np.maximum(a, b)),
    "min": lambda _, a, b: np.asarray(np.minimum(a, b)),
    "equal": lambda _, a, b: np.asarray(a == b),
    "div": _divide,
    "pow": _power,
}


def _with_batch_sizes(call: Call, function: Name, a: Array, b: Array) -> Array:
    """Python's integers do not overflow, so that a multiple of the batch size stays recognisable as one."""
    call.require(a.dtype.kind in "iu" and b.dtype.kind in "iu", "its result would depend on the batch size")
    pairs = np.broadcast(a, b)
    call.require(pairs.size <= MOST_SHAPES, "its result would depend on the batch size")
    results = [_exact(function, int(one), int(other)) for one, other in pairs]
    if any(result is None or not -(2**63) <= result < 2**63 for result in results):
        raise call.error("its result would depend on the batch size in a way that is not supported")
    return np.array(results, bool if function == "equal" else np.int64).reshape(pairs.shape)


def _exact(function: Name, a: int, b: int) -> int | None:
    """The result, if for every batch size it is given by that for `BATCH`."""
    both = a % BATCH == 0 and b % BATCH == 0
    if not is_batch(a) and not is_batch(b):
        return _plain(function, a, b)
    if function == "mul":
        return a * b
    if function == "equal" and not both:
        return 0 if min(a, b) <= 0 else None
    if function == "div" and b and (both or a % (BATCH * b) == 0):
        return _plain("div", a, b)
    return _plain(function, a, b) if both and function in ("add", "sub", "max", "min", "equal") else None


def _plain(function: Name, a: int, b: int) -> int | None:
    if function == "div":
        return None if b == 0 else abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)
    plain: dict[str, Any] = {
        "add": a + b, "sub": a - b, "mul": a * b, "max": max(a, b), "min": min(a, b), "equal": int(a == b),
    }  # fmt: skip
    return plain.get(function)


def _binary(function: Name) -> Callable[[Call], Operand]:
    def lower(call: Call) -> Operand:
        call.require(len(call.node.inputs) == 2, "it must have two inputs")
        return combine(call, function, call.operand(0), call.operand(1))

    return lower


def _many(function: Name) -> Callable[[Call], Operand]:
    def lower(call: Call) -> Operand:
        return reduce(lambda a, b: combine(call, function, a, b), call.operands())

    return lower


def _equal(call: Call) -> Operand:
    return combine(call, "equal", call.constant(0), call.constant(1))


def _where(call: Call) -> Operand:
    condition, a, b = (call.constant(index) for index in range(3))
    call.require(condition.dtype.kind == "b" and a.dtype.kind == b.dtype.kind, "its inputs have wrong types")
    call.afford(prod(broadcast(call, condition.shape, a.shape, b.shape)))
    return np.asarray(np.where(condition, a, b))


def _range(call: Call) -> Operand:
    start, limit, step = (call.constant(index) for index in range(3))
    for each in (start, limit, step):
        call.require(each.size == 1 and each.dtype.kind in "iu", "it must have three integers")
        call.require(not carries_batch(each), "its length depends on the batch size")
    call.require(bool(step.all()), "its step is 0")
    places = range(int(start.reshape(())), int(limit.reshape(())), int(step.reshape(())))
    call.require(len(places) < 2**31, "it is too long")
    call.afford(len(places))
    return np.arange(places.start, places.stop, places.step, dtype=np.int64)


def _shape(call: Call) -> Operand:
    shape = call.operand(0).shape
    start, end = call.integer("start", 0), call.node.attributes.get("end")
    return np.array(shape[start : None if end is None else call.integer("end", 0)], np.int64)


def _size(call: Call) -> Operand:
    shape = call.operand(0).shape
    call.require(prod(shape) < 2**63, f"the size of {shown_shape(shape)} is too large")
    return np.array(prod(shape), np.int64)


def _constant(call: Call) -> Operand:
    given = [call.node.attributes[name] for name in ("value_int", "value_ints", "value_float", "value_floats")
             if name in call.node.attributes]  # fmt: skip
    call.require(len(given) == 1 and not isinstance(given[0], str), "its value must be one number or a list of them")
    value = np.array(given[0])
    call.require(value.dtype.kind in "fi", "its value must be one number or a list of them")
    return value.astype(np.float32 if value.dtype.kind == "f" else np.int64)


ARITHMETIC: dict[str, Callable[[Call], Operand]] = {
    "Add": _binary("add"), "Sub": _binary("sub"), "Mul": _binary("mul"), "Div": _binary("div"), "Pow": _binary("pow"),
    "Max": _many("max"), "Min": _many("min"), "Sum": _many("add"), "Equal": _equal, "Where": _where, "Range": _range,
    "Shape": _shape, "Size": _size, "Constant": _constant,
}  # fmt: skip
