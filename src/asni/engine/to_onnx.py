"""A `Graph` as an .onnx file of standard operators, for every runtime that reads ONNX."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from asni.engine.graph import BATCH, Array, Attribute, Graph, Node
from asni.engine.lowering import lower
from asni.engine.lowering.call import error_in
from asni.engine.lowering.values import is_batch
from asni.errors import EngineError, shown
from asni.files import write_bytes

if TYPE_CHECKING:
    from onnx import AttributeProto, ModelProto, NodeProto, ValueInfoProto

_OPSET = 20
_IR_VERSION = 9
"""Of the same year as the operator set, so that older runtimes read it too."""
_MOST_BYTES = 2**31 - 1
"""What a protobuf message can hold."""

_BECAME_INPUTS = {
    "Clip": ("min", "max"),
    "Squeeze": ("axes",),
    "Unsqueeze": ("axes",),
    "Slice": ("starts", "ends", "axes"),
    "Split": ("split",),
    "ReduceMean": ("axes",),
    "ReduceSum": ("axes",),
    "Pad": ("pads", "value"),
}
"""Attributes of older operator sets that are inputs now, in their order after the first input."""


def write_onnx(graph: Graph, path: Path) -> None:
    """Write the graph with its dense values; inputs of any batch size get a first dimension named `batch`.

    What standard ONNX has no operator for is refused by name, before anything is written.
    """
    if sum(array.nbytes for array in graph.constants.values()) > _MOST_BYTES:
        raise EngineError(f"{path}: its values have more than the 2 GB that an ONNX file can hold")
    try:
        import onnx
    except ImportError as error:
        raise EngineError(f"{path}: writing it needs ONNX: pip install 'asni[onnx]'") from error
    writer = _Writer(graph)
    for node in graph.nodes:
        writer.add(node)
    model = writer.model()
    try:
        onnx.checker.check_model(model, full_check=True)
        content = model.SerializeToString()
    except Exception as error:
        raise EngineError(f"{path}: ONNX refuses the graph: {shown(error)}") from error
    write_bytes(path, content)


class _Writer:
    """Collects standard nodes, and the constants that they read."""

    def __init__(self, graph: Graph) -> None:
        made = (name for node in graph.nodes for name in node.outputs)
        self._taken = {*graph.inputs, *graph.constants, *made}
        self._graph = graph
        self._given = graph.constants
        self._nodes: list[NodeProto] = []
        self._node_names: set[str] = set()
        self._constants: dict[str, Array] = {}
        self._batch = ""

    def add(self, node: Node) -> None:
        """Write a node as one or more standard ones."""
        if node.op == "Silu":
            gate = self._new(node, "sigmoid")
            self._emit(Node("Sigmoid", node.name, node.inputs, (gate,)))
            self._emit(Node("Mul", node.name, (*node.inputs, gate), node.outputs))
        elif node.op in ("AdaptiveAveragePool", "AdaptiveMaxPool"):
            self._add_adaptive(node)
        elif node.op in ("Reshape", "Expand") and self._carries_batch(node.inputs[1]):
            shape = (self._open_shape if node.op == "Reshape" else self._batch_shape)(node)
            self._emit(Node(node.op, node.name, (node.inputs[0], shape), node.outputs, node.attributes))
        else:
            self._emit(self._with_inputs(node))

    def model(self) -> "ModelProto":
        """All that was added, with the shapes of the outputs."""
        from onnx import helper, numpy_helper

        graph = helper.make_graph(
            self._nodes,
            "network",
            [_value_info(name, shape) for name, shape in self._graph.inputs.items()],
            [_value_info(name, self._shape(name)) for name in self._graph.outputs],
            [numpy_helper.from_array(np.asarray(array, order="C"), name) for name, array in self._constants.items()],
        )
        opsets = [helper.make_opsetid("", _OPSET)]
        return helper.make_model(graph, opset_imports=opsets, ir_version=_IR_VERSION, producer_name="asni")

    def _emit(self, node: Node) -> None:
        from onnx import defs, helper

        if not defs.has(node.op, _OPSET) or defs.get_schema(node.op, _OPSET).deprecated:
            raise error_in(node, f"the operator set {_OPSET} of standard ONNX does not have this operator")
        # Some runtimes refuse nodes of the same name.
        name = _unused(node.name, self._node_names) if node.name else ""
        written = helper.make_node(node.op, node.inputs, node.outputs, name)
        written.attribute.extend(_attribute(node, name, value) for name, value in node.attributes.items())
        self._nodes.append(written)
        self._constants |= {name: self._given[name] for name in node.inputs if name in self._given}

    def _new(self, node: Node, what: str) -> str:
        return _unused(f"{node.outputs[0]}/{what}", self._taken)

    def _constant(self, node: Node, what: str, array: Array) -> str:
        name = self._new(node, what)
        self._constants[name] = array
        return name

    def _with_inputs(self, node: Node) -> Node:
        names = _BECAME_INPUTS.get(node.op, ())
        attributes = {name: value for name, value in node.attributes.items() if name not in names}
        inputs = list(node.inputs)
        for index, name in enumerate(names, start=1):
            if name in node.attributes:
                value = node.attributes[name]
                array = np.array(value, np.float32 if isinstance(value, float) else np.int64)
                inputs += [""] * (index + 1 - len(inputs))
                inputs[index] = self._constant(node, name, array)
        if node.op == "Split" and len(inputs) < 2:
            attributes["num_outputs"] = len(node.outputs)
        return Node(node.op, node.name, tuple(inputs), node.outputs, attributes)

    def _add_adaptive(self, node: Node) -> None:
        kind = node.op.removeprefix("Adaptive")
        wanted = node.attributes.get("output_size")
        if not isinstance(wanted, tuple):
            raise error_in(node, "it has no output_size")
        if set(wanted) == {1}:
            self._emit(Node(f"Global{kind}", node.name, node.inputs, node.outputs))
            return
        given = self._shape(node.inputs[0])[2:]
        if len(given) != len(wanted) or any(size % part for size, part in zip(given, wanted, strict=True)):
            raise error_in(node, f"standard ONNX cannot divide {given} into {wanted} parts of different sizes")
        window = tuple(size // int(part) for size, part in zip(given, wanted, strict=True))
        self._emit(Node(kind, node.name, node.inputs, node.outputs, {"kernel_shape": window, "strides": window}))

    def _shape(self, name: str) -> tuple[int, ...]:
        steps = lower(replace(self._graph, outputs=(name,)))
        shape = steps.shapes[name]
        return shape if steps.fixed_batch else (BATCH, *shape[1:])

    def _carries_batch(self, name: str) -> bool:
        return name in self._given and any(map(is_batch, self._given[name].reshape(-1).tolist()))

    def _open_shape(self, node: Node) -> str:
        """The shape with -1 for the batch, which is the rest of the elements."""
        shape = self._given[node.inputs[1]].tolist()
        if -1 in shape:
            return self._batch_shape(node)
        return self._constant(node, "shape", np.array([-1 if is_batch(size) else size for size in shape], np.int64))

    def _batch_shape(self, node: Node) -> str:
        """The shape as an expression in the size of the batch."""
        shape = self._given[node.inputs[1]].tolist()
        factor = np.array([size // BATCH if is_batch(size) else 0 for size in shape], np.int64)
        rest = np.array([0 if is_batch(size) else size for size in shape], np.int64)
        scaled, summed = self._new(node, "scaled"), self._new(node, "shape")
        self._emit(Node("Mul", node.name, (self._batch_size(node), self._constant(node, "factor", factor)), (scaled,)))
        self._emit(Node("Add", node.name, (scaled, self._constant(node, "rest", rest)), (summed,)))
        return summed

    def _batch_size(self, node: Node) -> str:
        if not self._batch:
            source = next((name for name, shape in self._graph.inputs.items() if shape[:1] == (BATCH,)), None)
            if source is None:
                raise error_in(node, "its shape depends on the batch size, and no input does")
            self._batch = self._new(node, "batch")
            self._emit(Node("Shape", node.name, (source,), (self._batch,), {"start": 0, "end": 1}))
        return self._batch


def _unused(name: str, taken: set[str]) -> str:
    while name in taken:
        name += "'"
    taken.add(name)
    return name


def _value_info(name: str, shape: Sequence[int]) -> "ValueInfoProto":
    from onnx import TensorProto, helper

    sizes = ["batch" if size == BATCH else size for size in shape]
    return helper.make_tensor_value_info(name, TensorProto.FLOAT, sizes)


def _attribute(node: Node, name: str, value: Attribute) -> "AttributeProto":
    from onnx import AttributeProto, defs, helper

    known = defs.get_schema(node.op, _OPSET).attributes
    if name not in known:
        raise error_in(node, f"the operator set {_OPSET} of standard ONNX does not have its attribute {shown(name)}")
    kind = known[name].type.name  # type: ignore[attr-defined]  # onnx does not say that it is an enumeration
    number = float(value) if kind == "FLOAT" and isinstance(value, int) else value
    return helper.make_attribute(name, number, attr_type=AttributeProto.AttributeType.Value(kind))
