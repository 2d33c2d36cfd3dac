"""A network as the steps of its training: few kinds, static shapes, parameters by name.

| kind | inputs | settings | parameters |
|---|---|---|---|
| conv | x | stride, dilation (h, w), pads (top, left, bottom, right), groups, relu | weight, maybe bias |
| linear | x (1, F, 1, 1) | relu | weight, maybe bias |
| batch_norm | x, maybe residual | epsilon, momentum (None: cumulative average), relu | maybe weight, bias, buffers |
| add | a and b; or a alone, for its ReLU | relu | |
| pool | x | mode: max or average, rows, columns (windows in the map), dilation (h, w), scale (of an average) | |
| drop_out | x | probability | |
| flatten | x | | |

Values are maps (1, C, H, W) of one item; a vector of features is (1, F, 1, 1). A residual is added before the ReLU.
The buffers of batch norm are running_mean, running_var and num_batches_tracked.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from asni.errors import AsniError

Shape = tuple[int, int, int, int]
Kind = Literal["conv", "linear", "batch_norm", "add", "pool", "drop_out", "flatten"]


class UnsupportedError(AsniError):
    """The kernels cannot train this network; the message says why in one line."""


@dataclass(frozen=True)
class Step:
    """One operation; `name` is the module's, for messages; `parameters` maps a role to a name in the model."""

    kind: Kind
    name: str
    inputs: tuple[str, ...]
    output: str
    settings: Mapping[str, Any] = field(default_factory=dict)
    parameters: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Steps:
    """The steps in forward order, and the shape of every value for one item."""

    input: str
    output: str
    steps: tuple[Step, ...]
    shapes: Mapping[str, Shape]
