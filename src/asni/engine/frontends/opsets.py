"""Nodes of older ONNX operator sets, as nodes of the same meaning in the newest one."""

from collections.abc import Mapping
from dataclasses import replace
from itertools import chain
from typing import TYPE_CHECKING

from asni.engine.graph import Array, Node
from asni.engine.lowering.call import error_in
from asni.errors import shown

if TYPE_CHECKING:
    from onnx import GraphProto

OLDEST = 7
"""Before it, operands of different shapes met in other ways."""
NEWEST = 28
"""The newest operator set whose changes were read."""

_FLATTENING = ("Softmax", "LogSoftmax")
_ONE_OUTPUT = ("Dropout", "BatchNormalization", "MaxPool", "LayerNormalization")


class Names:
    """The names of a graph: which values something reads, and names that nothing has yet."""

    def __init__(self, graph: "GraphProto") -> None:
        self.read = {*chain.from_iterable(node.input for node in graph.node), *(each.name for each in graph.output)}
        written = chain.from_iterable(node.output for node in graph.node)
        given = (each.name for each in chain(graph.input, graph.initializer))
        self._taken = {*self.read, *written, *given}

    def new(self, name: str, suffix: str) -> str:
        found = f"{name}/{suffix}"
        while found in self._taken:
            found += "'"
        self._taken.add(found)
        return found


def modern(node: Node, opset: int, names: Names, constants: Mapping[str, Array]) -> tuple[Node, ...]:
    """The nodes of the newest operator set that do what the node does in `opset`.

    Numbers that were attributes and became inputs stay attributes, such as the axes of Squeeze.
    """
    if node.op in _ONE_OUTPUT:
        node = _with_one_output(node, names)
    if node.op in _FLATTENING and opset < 13:
        return _flattening(node, names)
    if node.op == "Dropout":
        return (_dropout(node, constants),)
    if node.op == "BatchNormalization":
        return (_batch_norm(node),)
    return (node,)


def _with_one_output(node: Node, names: Names) -> Node:
    for output in node.outputs[1:]:
        if output in names.read:
            raise error_in(node, f"its output {shown(output)} is used, which is not supported; only the first one is")
    return replace(node, outputs=node.outputs[:1])


def _flattening(node: Node, names: Names) -> tuple[Node, ...]:
    """Before version 13, all dimensions from the axis on counted as one."""
    axis = node.attributes.get("axis", 1)
    if axis == -1:
        return (node,)
    (before,), (after,) = node.inputs, node.outputs
    flat, done, shape = (names.new(after, suffix) for suffix in ("flat", "done", "shape"))
    return (
        Node("Flatten", node.name, (before,), (flat,), {"axis": axis}),
        Node(node.op, node.name, (flat,), (done,), {"axis": -1}),
        Node("Shape", node.name, (before,), (shape,)),
        Node("Reshape", node.name, (done, shape), (after,)),
    )


def _dropout(node: Node, constants: Mapping[str, Array]) -> Node:
    training = node.inputs[2] if len(node.inputs) > 2 else ""
    if training and (training not in constants or constants[training].any()):
        raise error_in(node, "it drops values at random, as in training; export the model in evaluation mode")
    return Node("Dropout", node.name, node.inputs[:1], node.outputs)


def _batch_norm(node: Node) -> Node:
    if node.attributes.get("training_mode", 0):
        raise error_in(node, "it takes the statistics of the batch, as in training; export it in evaluation mode")
    if not node.attributes.get("spatial", 1):
        raise error_in(node, "spatial=0 is not supported")
    return replace(node, attributes={name: value for name, value in node.attributes.items() if name != "spatial"})
