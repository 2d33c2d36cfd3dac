"""A network as a list of ONNX operators: what every frontend produces and what a packed file can carry."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]
Attribute = int | float | str | tuple[int, ...] | tuple[float, ...]

BATCH = 2**31 - 1
"""Stands for the batch size in shapes: a prime larger than any real dimension, so a dimension depends on the batch size
if and only if it is a multiple of it, and plain integer arithmetic on shapes keeps track of it."""


@dataclass(frozen=True)
class Node:
    """An operator of ONNX with its inputs and outputs by name; an absent optional input is ''."""

    op: str
    name: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    attributes: Mapping[str, Attribute] = field(default_factory=dict)


@dataclass(frozen=True)
class Graph:
    """Nodes in the order in which they run. An input that takes any batch size has `BATCH` as its first dimension."""

    inputs: Mapping[str, tuple[int, ...]]
    outputs: tuple[str, ...]
    nodes: tuple[Node, ...]
    constants: Mapping[str, Array]
