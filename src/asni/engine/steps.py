"""A network as the steps that one item of a batch takes: few kinds, static shapes, constants in place.

| kind | inputs | settings | constants |
|---|---|---|---|
| conv | x (1, C, H, W), maybe residual | stride, dilation (h, w), pads (top, left, bottom, right), groups, activation | weight (O, C/groups, KH, KW), bias (O) |
| linear | x (..., I), maybe residual | activation | weight (O, I), bias (O) |
| matmul | a (..., M, K), b (..., K, N) | | |
| pool | x (1, C, H, W) | mode: max or average, kernel, stride, dilation, pads, count_include_pad | |
| adaptive_pool | x (1, C, H, W) | mode: max or average | |
| unary | x | activation | |
| binary | a and b; or one of them and a constant | function: add, sub, mul, div, pow, max, min | a or b, if it is not an input |
| reshape, expand | x | | |
| transpose | x | permutation | |
| concat | several | axis | |
| slice | x | axis, start, step (below 0: backwards) | |
| constant | | | value |
| softmax | x | axis | |
| layer_norm | x | dimensions (how many trailing ones are normalised), epsilon | weight and bias, in the shape of these dimensions |
| mean | x | axes | |

Elements are float32. `steps.shapes` has the shape of every value, for one item: where a dimension was the batch size
it is 1, and one-dimensional convolutions and pools have a height of 1. A residual is added before the activation.
"""  # noqa: E501

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from asni.engine.graph import Array

Shape = tuple[int, ...]
Kind = Literal[
    "conv", "linear", "matmul", "pool", "adaptive_pool", "unary", "binary", "reshape", "expand", "transpose", "concat",
    "slice", "constant", "softmax", "layer_norm", "mean",
]  # fmt: skip
Function = Literal[
    "relu", "clip", "leaky_relu", "gelu", "gelu_tanh", "silu", "sigmoid", "tanh", "hard_swish", "hard_sigmoid", "erf",
    "exp", "sqrt", "abs", "neg",
]  # fmt: skip


@dataclass(frozen=True)
class Activation:
    """A function of one number. clip: to [low, high]. leaky_relu: slope low. hard_sigmoid: clip(low x + high, 0, 1)."""

    function: Function
    low: float = 0.0
    high: float = 0.0


@dataclass(frozen=True)
class Step:
    """One operation on the values of one item; `name` is the node's, for messages and the plan."""

    kind: Kind
    name: str
    inputs: tuple[str, ...]
    output: str
    settings: Mapping[str, Any] = field(default_factory=dict)
    constants: Mapping[str, Array] = field(default_factory=dict)


@dataclass(frozen=True)
class Steps:
    """The steps in the order in which they run, and the shape of every value for one item."""

    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    steps: tuple[Step, ...]
    shapes: Mapping[str, Shape]
    fixed_batch: int | None = None
    """The batch size of a network that accepts no other; an item is then a whole batch, and shapes start with it."""
