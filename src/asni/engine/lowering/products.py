"""Matrix products: with constant weights they are linear layers, else products of two values."""

import numpy as np

from asni.engine.graph import Array
from asni.engine.lowering.arithmetic import combine
from asni.engine.lowering.arranging import broadcast, reshape_value, transpose
from asni.engine.lowering.call import Call
from asni.engine.lowering.values import Operand, Value, shown_shape


def linear(call: Call, x: Value, weight: Array, bias: Array | None = None) -> Value:
    """x times the transpose of a weight (outputs, inputs), plus a bias for each output."""
    outputs, inputs = weight.shape
    # Weights have no batch, so neither has what they are summed over.
    call.require(x.shape[-1] == inputs, f"{shown_shape(x.shape)} does not fit to weights for {inputs} inputs")
    bias = np.zeros(outputs, np.float32) if bias is None else bias
    weight = np.ascontiguousarray(weight)
    return call.emit("linear", (x,), (*x.shape[:-1], outputs), {"activation": None}, {"weight": weight, "bias": bias})


def matmul(call: Call, a: Value, b: Value) -> Value:
    """The product of matrices in the last two dimensions."""
    fits = a.shape[-1] == b.shape[-2]
    call.require(fits, f"{shown_shape(a.shape)} and {shown_shape(b.shape)} cannot be multiplied")
    call.apart(a, (len(a.shape) - 1,))
    shape = (*broadcast(call, a.shape[:-2], b.shape[:-2]), a.shape[-2], b.shape[-1])
    return call.emit("matmul", (a, b), shape)


def _matmul(call: Call) -> Operand:
    a, b = call.operand(0), call.operand(1)
    ranks = len(a.shape), len(b.shape)
    call.require(min(ranks) > 0, "a number is no matrix")
    # A vector is a matrix of one row on the left and of one column on the right, and that dimension is dropped after.
    x = call.as_value(a)
    rows = x if ranks[0] > 1 else reshape_value(call, x, (1, *x.shape))
    if not isinstance(b, Value) and ranks[1] <= 2:
        product = linear(call, rows, call.weights(1).reshape(b.shape[0], -1).T)
    else:
        y = call.as_value(b)
        product = matmul(call, rows, y if ranks[1] > 1 else reshape_value(call, y, (*y.shape, 1)))
    shape = list(product.shape)
    if ranks[1] == 1:
        del shape[-1]
    if ranks[0] == 1:
        del shape[-1 if ranks[1] == 1 else -2]
    return reshape_value(call, product, shape)


def _gemm(call: Call) -> Operand:
    alpha, beta = call.number("alpha", 1.0), call.number("beta", 1.0)
    x, b = call.value(0), call.operand(1)
    call.require(len(x.shape) == 2 and len(b.shape) == 2, "it multiplies matrices of two dimensions")
    if call.integer("transA", 0):
        x = call.as_value(transpose(call, x, (1, 0)))
    c = call.operand(2) if call.has(2) and beta != 0 else None
    if isinstance(b, Value):
        y = transpose(call, b, (1, 0)) if call.integer("transB", 0) else b
        product = _scaled(call, matmul(call, x, call.as_value(y)), alpha)
    else:
        weight = call.weights(1) if call.integer("transB", 0) else call.weights(1).T
        weight = weight if alpha == 1 else (alpha * weight.astype(np.float64)).astype(np.float32)
        bias = None if c is None or isinstance(c, Value) else _bias(call, c, beta, weight.shape[0])
        product = linear(call, x, weight, bias)
        c = c if bias is None else None
    if c is None:
        return product
    fits = broadcast(call, product.shape, c.shape) == product.shape
    call.require(fits, f"{shown_shape(c.shape)} cannot be added to {shown_shape(product.shape)}")
    return combine(call, "add", product, _scaled(call, c, beta) if isinstance(c, Value) else beta * call.floats(c))


def _bias(call: Call, c: Array, beta: float, outputs: int) -> Array | None:
    """What is added, if it is the same for every row."""
    row = c.reshape(-1) if c.ndim < 2 or c.shape[0] == 1 else None
    if row is None or row.size not in (1, outputs) or c.ndim > 2:
        return None
    scaled = (beta * call.weights(2).reshape(-1).astype(np.float64)).astype(np.float32)
    return np.ascontiguousarray(np.broadcast_to(scaled, (outputs,)))


def _scaled(call: Call, x: Value, factor: float) -> Value:
    return x if factor == 1 else call.as_value(combine(call, "mul", x, np.array(factor, np.float32)))


PRODUCTS = {"MatMul": _matmul, "Gemm": _gemm}
