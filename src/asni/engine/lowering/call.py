"""One node while it is lowered: its inputs and attributes, checked, and the steps that it becomes."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from asni.engine.graph import BATCH, Array, Node
from asni.engine.lowering.values import Operand, Value, batch_axis, fault_of, is_batch, item_shape, shown_shape
from asni.engine.steps import Kind, Shape, Step
from asni.errors import EngineError, shown

LARGE = 2**24
"""No attribute that counts something (a stride, a padding) is larger; products of a few of them fit in 64 bits."""


@dataclass
class Lowered:
    """What all nodes so far became.

    `given` are the constants of the graph, `owners` the identities of the arrays that hold them, and `elements` is how
    many elements of constants may still be made.
    """

    values: dict[str, Operand]
    given: frozenset[str]
    owners: frozenset[int]
    taken: set[str]
    elements: int
    fixed: bool
    steps: list[Step] = field(default_factory=list)
    shapes: dict[str, Shape] = field(default_factory=dict)


class Call:
    """A node, with what is needed to lower it. Every fault is an `EngineError` with the operator and the node."""

    def __init__(self, node: Node, lowered: Lowered) -> None:
        self.node = node
        self.fixed = lowered.fixed
        self._lowered = lowered
        self._emitted: dict[str, Step] = {}

    # Faults

    def error(self, fault: str) -> EngineError:
        """The fault, with where it is."""
        return error_in(self.node, fault)

    def require(self, condition: bool, fault: str) -> None:
        """Raise the fault unless the condition holds."""
        if not condition:
            raise self.error(fault)

    def apart(self, x: Value, axes: Sequence[int]) -> None:
        """Prove that items do not mix by work along these axes."""
        if batch_axis(x.shape) in axes:
            raise self.error(f"it works along the batch of {shown_shape(x.shape)}, so items of a batch would mix")

    def axis(self, axis: int, rank: int) -> int:
        """An axis counted from the front."""
        self.require(-rank <= axis < rank, f"there is no axis {axis} in {rank} dimensions")
        return axis % rank

    def axes(self, axes: Sequence[int], rank: int) -> list[int]:
        """Distinct axes, counted from the front."""
        found = [self.axis(axis, rank) for axis in axes]
        self.require(len(set(found)) == len(found), "an axis is given twice")
        return found

    # Inputs

    def has(self, index: int) -> bool:
        """Whether an optional input is given."""
        return index < len(self.node.inputs) and self.node.inputs[index] != ""

    def operand(self, index: int) -> Operand:
        """An input: a constant or a value."""
        if not self.has(index):
            raise self.error(f"input {index} is missing")
        name = self.node.inputs[index]
        if name not in self._lowered.values:
            raise self.error(f"no node before it makes its input {shown(name)}")
        return self._lowered.values[name]

    def operands(self) -> list[Operand]:
        """All inputs of an operator that takes any number of them."""
        self.require(len(self.node.inputs) > 0, "it has no inputs")
        return [self.operand(index) for index in range(len(self.node.inputs))]

    def value(self, index: int) -> Value:
        """An input as a value."""
        return self.as_value(self.operand(index))

    def as_value(self, operand: Operand) -> Value:
        """A constant becomes a step that makes it."""
        if isinstance(operand, Value):
            return operand
        return self.emit("constant", (), operand.shape, constants={"value": self.floats(operand)})

    def constant(self, index: int) -> Array:
        """An input that must be a constant."""
        operand = self.operand(index)
        if isinstance(operand, Value):
            raise self.error(f"input {index}, {shown(operand.name)}, must be a constant")
        return operand

    def weights(self, index: int) -> Array:
        """Constant weights in float32: finite, because zeros among them may be skipped and the rest reordered."""
        array = self.floats(self.constant(index))
        self.require(array.size > 0, f"{shown(self.node.inputs[index])} is empty")
        self.require(bool(np.isfinite(array).all()), f"{shown(self.node.inputs[index])} has NaN or infinite values")
        return array

    def floats(self, array: Array) -> Array:
        """A constant in float32."""
        self.require(array.dtype.kind in "fiu", f"constants of type {array.dtype} cannot be calculated with")
        self.require(not carries_batch(array), "its result would depend on the batch size")
        with np.errstate(over="ignore"):
            return array.astype(np.float32, copy=False)

    def is_given(self, index: int) -> bool:
        """Whether an input is a constant of the graph, not made by the arithmetic of shapes."""
        return self.node.inputs[index] in self._lowered.given

    # Attributes

    def integer(self, name: str, default: int) -> int:
        """An attribute that is an integer."""
        value = self.node.attributes.get(name, default)
        if not isinstance(value, int) or not _fits(value):
            raise self.error(f"the attribute {name} must be an integer")
        return int(value)

    def number(self, name: str, default: float) -> float:
        """An attribute that is a finite number."""
        value = self.node.attributes.get(name, default)
        if not isinstance(value, int | float) or not abs(value) < 1e300:
            raise self.error(f"the attribute {name} must be a finite number")
        return float(value)

    def text(self, name: str, default: str) -> str:
        """An attribute that is a word."""
        value = self.node.attributes.get(name, default)
        if not isinstance(value, str):
            raise self.error(f"the attribute {name} must be a string")
        return value

    def integers(self, name: str) -> list[int] | None:
        """An attribute that is a list of integers."""
        value = self.node.attributes.get(name)
        if value is None:
            return None
        if not isinstance(value, tuple | list) or not all(isinstance(each, int) and _fits(each) for each in value):
            raise self.error(f"the attribute {name} must be a list of integers")
        return [int(each) for each in value]

    def counts(self, name: str, default: Sequence[int], least: int = 1) -> list[int]:
        """An attribute with as many integers as the default, none of them small, none absurdly large."""
        found = self.integers(name)
        found = list(default) if found is None else found
        self.require(len(found) == len(default), f"the attribute {name} must have {len(default)} values")
        self.require(all(least <= each < LARGE for each in found), f"a value of {name} is out of range")
        return found

    def listed(self, name: str, index: int) -> list[int] | None:
        """Integers that are an attribute in older operator sets and a constant input in newer ones."""
        if not self.has(index):
            return self.integers(name)
        array = self.constant(index)
        if array.dtype.kind not in "iu" or array.ndim > 1 or array.size > 64:
            raise self.error(f"{name} must be a short list of integers")
        return [int(each) for each in array.reshape(-1)]

    # Results

    def afford(self, elements: int) -> None:
        """Refuse to make constants that are out of proportion to the network."""
        self._lowered.elements -= elements
        self.require(self._lowered.elements >= 0, "it makes constants that are too large")

    def emit(
        self,
        kind: Kind,
        inputs: Sequence[Value],
        shape: Shape,
        settings: Mapping[str, Any] | None = None,
        constants: Mapping[str, Array] | None = None,
    ) -> Value:
        """Add a step whose value has this shape in a whole batch."""
        fault = fault_of(shape)
        self.require(fault is None, fault or "")
        self.require(not (self.fixed and any(map(is_batch, shape))), "it asks for a batch that no input has")
        made = [array for array in (constants or {}).values() if owner(array) not in self._lowered.owners]
        self.afford(sum(array.size for array in made))
        name = self._fresh()
        label = self.node.name or self.node.outputs[0]
        names = tuple(value.name for value in inputs)
        self._emitted[name] = Step(kind, label, names, name, settings or {}, constants or {})
        self._lowered.shapes[name] = item_shape(shape)
        return Value(name, shape)

    def finish(self, results: Sequence[Operand]) -> None:
        """Give the results the names of the node's outputs, and hand over the steps."""
        names: dict[str, str] = {}
        for name, result in zip(self.node.outputs, results, strict=False):
            if not name:
                continue
            if isinstance(result, Value) and result.name in self._emitted and result.name not in names:
                names[result.name] = name
                self._lowered.shapes[name] = self._lowered.shapes.pop(result.name)
                result = Value(name, result.shape)
            self._lowered.values[name] = result
        for step in self._emitted.values():
            inputs = tuple(names.get(each, each) for each in step.inputs)
            self._lowered.steps.append(replace(step, inputs=inputs, output=names.get(step.output, step.output)))

    def _fresh(self) -> str:
        name = f"{self.node.outputs[0]}.{len(self._emitted)}"
        while name in self._lowered.taken:
            name += "'"
        self._lowered.taken.add(name)
        return name


def _fits(value: int) -> bool:
    return -(2**63) <= value < 2**63


def owner(array: Array) -> int:
    """The identity of the array that holds the memory of this one."""
    while isinstance(array.base, np.ndarray):
        array = array.base
    return id(array)


def error_in(node: Node, fault: str) -> EngineError:
    """A fault of a node."""
    return EngineError(f"{shown(node.op)} {shown(node.name or ', '.join(node.outputs))!r}: {fault}")


def carries_batch(array: Array) -> bool:
    """Whether a constant has numbers that depend on the batch size, as the shape of an input has."""
    if array.dtype.kind not in "iu":
        return False
    wide = array.astype(np.int64, copy=False)
    return bool(((wide != 0) & (wide % BATCH == 0)).any())
