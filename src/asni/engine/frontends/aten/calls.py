"""A call of an aten operator, with its arguments by name, and the ONNX nodes that it becomes."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain, count
from typing import Any

import numpy as np
import torch
from torch import Tensor

from asni.engine.graph import BATCH, Array, Attribute, Node

Shape = tuple[int, ...]


class UnsupportedError(Exception):
    """An operator is called in a way that has no counterpart among the ONNX operators; the message says which."""


class FixedBatchError(Exception):
    """The network does not treat every batch size alike."""


@dataclass(frozen=True)
class Value:
    """A tensor of the network.

    Args:
        constant: What it is, if it does not depend on the inputs.
        repeated: What it is for each item, if it is the same for all.
        unshaped: What it was before its last reshapes.
    """

    name: str
    shape: Shape
    constant: Tensor | None = None
    repeated: Tensor | None = None
    unshaped: "Value | None" = None


class Writer:
    """Collects nodes, and the constants that they use, under names that nothing else has."""

    def __init__(self) -> None:
        self.nodes: list[Node] = []
        self.constants: dict[str, Array] = {}
        self._values: set[str] = set()
        self._nodes: set[str] = set()

    def name_value(self, wanted: str) -> str:
        return _unused([wanted], self._values)

    def name_node(self, *wanted: str) -> str:
        return _unused(wanted, self._nodes)

    def read(self, value: Value) -> str:
        """The name of a value that is about to be used: a constant is written only now."""
        if value.constant is not None and value.name not in self.constants:
            self.constants[value.name] = _float32(value.name, value.constant)
        return value.name


@dataclass(frozen=True)
class Call:
    """One call; `shape` is that of its output, or `shapes` are those of its outputs."""

    writer: Writer
    name: str
    path: str
    arguments: Mapping[str, Any]
    shapes: Sequence[Shape] = field(default=())

    @property
    def shape(self) -> Shape:
        return self.shapes[0]

    def __getitem__(self, argument: str) -> Any:
        return self.arguments[argument]

    def emit(
        self,
        op: str,
        inputs: Sequence[Value | None],
        shape: Shape | None = None,
        attributes: Mapping[str, Attribute] | None = None,
        aside: bool = False,
    ) -> Value:
        """Add a node; without a shape, its output has that of the call. The first that is not aside gets its name."""
        output = Value(self.writer.name_value(self.name), self.shape if shape is None else shape)
        name = self.writer.name_node(*[self.path][aside:], f"{self.path}.{op.lower()}")
        names = tuple("" if each is None else self.writer.read(each) for each in inputs)
        self.writer.nodes.append(Node(op, name, names, (output.name,), dict(attributes or {})))
        return output

    def reshape(self, value: Value, shape: Shape) -> Value:
        """One node for several reshapes in a row, and none if they lead back."""
        source = value.unshaped or value
        if source.shape == shape:
            return source
        return replace(self.emit("Reshape", [source, self.integers(shape, "shape")], shape), unshaped=source)

    def operand(self, argument: str) -> Value:
        """A tensor, or a number as a tensor."""
        given = self[argument]
        return given if isinstance(given, Value) else self.number(self.scalar(argument), argument)

    def scalar(self, argument: str) -> float:
        """A number that does not depend on the batch size."""
        given = self[argument]
        if isinstance(given, int) and given and given % BATCH == 0:
            raise FixedBatchError
        return float(given)

    def number(self, number: float, what: str) -> Value:
        return self.array(np.float32(number), what)

    def integers(self, numbers: Sequence[int] | int, what: str) -> Value:
        return self.array(np.array(numbers, dtype=np.int64), what)

    def array(self, array: Array | np.float32, what: str) -> Value:
        name = self.writer.name_value(f"{self.name}.{what}")
        self.writer.constants[name] = np.asarray(array)
        return Value(name, np.shape(array))


Results = Value | tuple[Value | None, ...]
Operator = Callable[[Call], Results]


def axis_of(dimension: int, rank: int) -> int:
    """Count a dimension from the front."""
    return dimension % max(rank, 1)


def of_each(given: Sequence[int], dimensions: int) -> Shape:
    """One number may stand for all dimensions."""
    return tuple(given) * dimensions if len(given) == 1 else tuple(given)


def _unused(wanted: Sequence[str], taken: set[str]) -> str:
    numbered = (f"{wanted[-1]}.{number}" for number in count(2))
    found = next(name for name in chain(wanted, numbered) if name not in taken)
    taken.add(found)
    return found


def _float32(name: str, tensor: Tensor) -> Array:
    """A copy, so that the network can be trained on without changing what was compiled."""
    values = tensor.detach().cpu().to(torch.float32, copy=True).contiguous()
    if tensor.dtype == torch.float64 and bool((values.isinf() & ~tensor.cpu().isinf()).any()):
        raise UnsupportedError(f"a value of {name} is too large for float32")
    return values.resolve_conj().numpy()
