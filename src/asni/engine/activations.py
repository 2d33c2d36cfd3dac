"""Functions of one number, in NumPy. NaN stays NaN."""

from collections.abc import Callable, Mapping
from math import erf, sqrt

import numpy as np

from asni.engine.graph import Array
from asni.engine.steps import Activation


def activate(activation: Activation, x: Array) -> Array:
    """The function of each number."""
    return ACTIVATIONS[activation.function](x, np.float32(activation.low), np.float32(activation.high))


def _erf(x: Array) -> Array:
    return np.asarray(np.frompyfunc(erf, 1, 1)(x)).astype(np.float64)


def _sigmoid(x: Array) -> Array:
    return np.asarray(1 / (1 + np.exp(-x)))


def _clip(x: Array, low: np.float32, high: np.float32) -> Array:
    return np.asarray(np.minimum(np.maximum(x, low), high))


def _gelu_tanh(x: Array) -> Array:
    return np.asarray(0.5 * x * (1 + np.tanh(sqrt(2 / np.pi) * (x + 0.044715 * x**3))))


ACTIVATIONS: Mapping[str, Callable[[Array, np.float32, np.float32], Array]] = {
    "relu": lambda x, low, high: np.maximum(x, np.float32(0)),
    "clip": _clip,
    "leaky_relu": lambda x, low, high: np.where(x > 0, x, x * low),
    "gelu": lambda x, low, high: np.asarray(0.5 * x * (1 + _erf(x / sqrt(2)))),
    "gelu_tanh": lambda x, low, high: _gelu_tanh(x),
    "silu": lambda x, low, high: np.asarray(x * _sigmoid(x)),
    "sigmoid": lambda x, low, high: _sigmoid(x),
    "tanh": lambda x, low, high: np.tanh(x),
    "hard_swish": lambda x, low, high: np.asarray(x * _clip(x + 3, np.float32(0), np.float32(6)) / 6),
    "hard_sigmoid": lambda x, low, high: _clip(low * x + high, np.float32(0), np.float32(1)),
    "erf": lambda x, low, high: _erf(x),
    "exp": lambda x, low, high: np.exp(x),
    "sqrt": lambda x, low, high: np.sqrt(x),
    "abs": lambda x, low, high: np.abs(x),
    "neg": lambda x, low, high: np.negative(x),
}
