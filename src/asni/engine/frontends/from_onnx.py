"""An ONNX model of any tool as a `Graph`; nothing that its file says is trusted."""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from asni.engine.frontends.opsets import NEWEST, OLDEST, Names, modern
from asni.engine.graph import BATCH, Array, Attribute, Graph, Node
from asni.errors import EngineError, PackError, shown
from asni.packing.foreign import load_external_data
from asni.packing.memory import Memory
from asni.packing.naming import naming

if TYPE_CHECKING:
    from onnx import AttributeProto, ModelProto, NodeProto, SparseTensorProto, TensorProto, ValueInfoProto

_STANDARD = ("", "ai.onnx")
_ALSO_TAKEN = {("com.microsoft", "Gelu")}
"""Operators of other domains that mean what the standard one of this name means."""
_MOST_NODES = 10**6
"""More than any network has; functions that call each other could ask for any number."""
_WIDEST = 8


def read_onnx_graph(
    path: Path, example_shapes: Sequence[Sequence[int]] | None = None, max_memory: int | None = None
) -> Graph:
    """Read an .onnx file, with the values that it stores in other files of its folder.

    A first dimension without a size is the batch. Other dimensions without a size take that of `example_shapes`, the
    shapes of the inputs in the order of the model. Reading takes at most `max_memory` bytes.
    """
    try:
        with naming(path), _blaming_the_file():
            return graph_of_model(_read_model(path, Memory(path, max_memory)), example_shapes)
    except PackError as error:
        raise EngineError(str(error)) from error


@contextmanager
def _blaming_the_file() -> Iterator[None]:
    try:
        yield
    except (EngineError, PackError, MemoryError):
        raise
    except ImportError as error:
        raise EngineError("reading it needs ONNX: pip install 'asni[onnx]'") from error
    except OSError as error:
        raise EngineError(f"cannot be read: {error.strerror}") from error
    except Exception as error:
        # What is not a model can raise almost anything.
        raise EngineError(f"not an ONNX model, or damaged: {shown(error)}") from error


def _read_model(path: Path, memory: Memory) -> "ModelProto":
    import onnx

    model = onnx.load(path, load_external_data=False)
    _opset(model)
    load_external_data(_tensors(model), path.parent, memory)
    onnx.checker.check_model(path)
    shapes = chain((each.dims for each in _tensors(model)), (each.dims for each in _sparse_tensors(model)))
    memory.take_tensors((math.prod(shape), _WIDEST) for shape in shapes)
    return model


def _tensors(model: "ModelProto") -> "Iterator[TensorProto]":
    yield from model.graph.initializer
    yield from (each.t for node in _all_nodes(model) for each in node.attribute if each.HasField("t"))
    for sparse in _sparse_tensors(model):
        yield from (sparse.values, sparse.indices)


def _sparse_tensors(model: "ModelProto") -> "Iterator[SparseTensorProto]":
    yield from model.graph.sparse_initializer
    attributes = (each for node in _all_nodes(model) for each in node.attribute)
    yield from (each.sparse_tensor for each in attributes if each.HasField("sparse_tensor"))


def _all_nodes(model: "ModelProto") -> "Iterator[NodeProto]":
    return chain(model.graph.node, *(function.node for function in model.functions))


def graph_of_model(model: "ModelProto", example_shapes: Sequence[Sequence[int]] | None = None) -> Graph:
    """The graph of a model that is in memory, and that `onnx.checker` accepts; see `read_onnx_graph`."""
    opset = _opset(model)
    graph = _without_functions(model).graph
    constants = {each.name: _array(each) for each in graph.initializer}
    constants |= {each.values.name: _dense(each) for each in graph.sparse_initializer}
    inputs = [each for each in graph.input if each.name not in constants]
    names = Names(graph)
    nodes: list[Node] = []
    for each in graph.node:
        if each.op_type == "Constant":
            constants[each.output[0]] = _constant(each)
        else:
            node, arrays = _node(each, names)
            constants |= arrays
            nodes += modern(node, opset, names, constants)
    outputs = tuple(each.name for each in graph.output)
    _require_known(outputs, inputs, constants, nodes)
    return Graph(_shapes(inputs, example_shapes), outputs, tuple(nodes), constants)


def _opset(model: "ModelProto") -> int:
    opset = next((each.version for each in model.opset_import if each.domain in _STANDARD), 0)
    if not OLDEST <= opset <= NEWEST:
        raise EngineError(
            f"it is of the ONNX operator set {opset}; the sets {OLDEST} to {NEWEST} are supported: export it again"
        )
    return opset


def _without_functions(model: "ModelProto") -> "ModelProto":
    for node in _all_nodes(model):
        for attribute in node.attribute:
            if attribute.type in (attribute.GRAPH, attribute.GRAPHS):
                raise EngineError(f"{_title(node)}: graphs within a graph are not supported")
    if not model.functions:
        return model
    import onnx.inliner

    if _count_nodes(model) > _MOST_NODES:
        raise EngineError(f"its functions call each other so often that it has more than {_MOST_NODES:,} operators")
    return onnx.inliner.inline_local_functions(model)


def _count_nodes(model: "ModelProto") -> int:
    """How many nodes the graph has once every call of a function is replaced by its nodes."""
    bodies = {(each.domain, each.name): each.node for each in model.functions}
    counts: dict[tuple[str, str], int] = {}

    def count(nodes: "Iterable[NodeProto]") -> int:
        return sum(count_one((node.domain, node.op_type)) for node in nodes)

    def count_one(called: tuple[str, str]) -> int:
        if called not in bodies:
            return 1
        if called not in counts:
            # While it is counted: a function that calls itself has no end.
            counts[called] = _MOST_NODES + 1
            counts[called] = count(bodies[called])
        return counts[called]

    return count(model.graph.node)


def _title(node: "NodeProto") -> str:
    domain = "" if node.domain in _STANDARD else f"{node.domain}."
    return f"{shown(domain + node.op_type)} {shown(_name(node))!r}"


def _name(node: "NodeProto") -> str:
    return node.name or next(iter(node.output), "")


def _node(node: "NodeProto", names: Names) -> tuple[Node, dict[str, Array]]:
    """The node, and as constants the tensors among its attributes."""
    if node.domain not in _STANDARD and (node.domain, node.op_type) not in _ALSO_TAKEN:
        raise EngineError(f"{_title(node)}: this operator is not one of standard ONNX, and not supported")
    inputs, attributes = tuple(node.input), node.attribute
    if node.op_type == "ConstantOfShape":
        value = _array(attributes[0].t) if attributes else np.zeros(1, np.float32)
        constant = names.new(node.output[0], "value")
        return Node("Expand", _name(node), (constant, *inputs), tuple(node.output)), {constant: value.reshape(())}
    values = {each.name: _attribute(node, each) for each in attributes}
    return Node(node.op_type, _name(node), inputs, tuple(node.output), values), {}


def _attribute(node: "NodeProto", attribute: "AttributeProto") -> Attribute:
    kinds: Mapping[int, Attribute] = {
        attribute.INT: attribute.i,
        attribute.FLOAT: attribute.f,
        attribute.STRING: attribute.s.decode(),
        attribute.INTS: tuple(attribute.ints),
        attribute.FLOATS: tuple(attribute.floats),
    }
    if attribute.type not in kinds:
        raise EngineError(f"{_title(node)}: its attribute {shown(attribute.name)} is of a type that is not supported")
    return kinds[attribute.type]


def _constant(node: "NodeProto") -> Array:
    (attribute,) = node.attribute
    if attribute.type == attribute.TENSOR:
        return _array(attribute.t)
    if attribute.type == attribute.SPARSE_TENSOR:
        return _dense(attribute.sparse_tensor)
    value = _attribute(node, attribute)
    if isinstance(value, str):
        raise EngineError(f"{_title(node)}: texts are not supported")
    return np.array(value, np.int64 if attribute.type in (attribute.INT, attribute.INTS) else np.float32)


def _array(tensor: "TensorProto") -> Array:
    from onnx import external_data_helper, numpy_helper

    if external_data_helper.uses_external_data(tensor):
        raise EngineError(f"the constant {shown(tensor.name)} is in another file, where it is not supported")
    array: Array = numpy_helper.to_array(tensor)
    if array.dtype.kind not in "fiub":
        raise EngineError(f"the constant {shown(tensor.name)} has elements of {array.dtype}, which is not supported")
    return array


def _dense(sparse: "SparseTensorProto") -> Array:
    values, indices = _array(sparse.values), _array(sparse.indices)
    dense = np.zeros(tuple(sparse.dims), values.dtype)
    flat = indices if indices.ndim == 1 else np.ravel_multi_index(tuple(indices.T), dense.shape)
    dense.reshape(-1)[flat] = values
    return dense


def _require_known(
    outputs: Iterable[str], inputs: "Iterable[ValueInfoProto]", constants: Iterable[str], nodes: Iterable[Node]
) -> None:
    known = {*constants, *(each.name for each in inputs), *chain.from_iterable(node.outputs for node in nodes)}
    for name in outputs:
        if name not in known:
            raise EngineError(f"no operator gives its output {shown(name)}")


def _shapes(inputs: "Sequence[ValueInfoProto]", examples: Sequence[Sequence[int]] | None) -> dict[str, tuple[int, ...]]:
    if examples is not None and len(examples) != len(inputs):
        names = ", ".join(shown(each.name) for each in inputs)
        raise EngineError(f"it has {len(inputs)} inputs ({names}), and the example {len(examples)}")
    return {
        each.name: _shape(each, None if examples is None else tuple(examples[index]))
        for index, each in enumerate(inputs)
    }


def _shape(value: "ValueInfoProto", example: tuple[int, ...] | None) -> tuple[int, ...]:
    from onnx import TensorProto

    title, kind = f"its input {shown(value.name)}", value.type.tensor_type
    if kind.elem_type != TensorProto.FLOAT:
        found = TensorProto.DataType.Name(kind.elem_type) if kind.elem_type else "no tensor"
        raise EngineError(f"{title} is {found}; inputs must be float32 tensors")
    sizes = [each.dim_value if each.HasField("dim_value") else -1 for each in kind.shape.dim]
    if not kind.HasField("shape"):
        if example is None:
            raise EngineError(f"{title} has no shape; give an example of the input")
        sizes = [-1] * len(example)
    if example is not None and len(example) != len(sizes):
        raise EngineError(f"{title} has {len(sizes)} dimensions, and the example {len(example)}")
    return tuple(_size(f"dimension {axis} of {title}", axis, size, example) for axis, size in enumerate(sizes))


def _size(title: str, axis: int, size: int, example: tuple[int, ...] | None) -> int:
    if size >= BATCH:
        raise EngineError(f"{title} is {size:,}, which is not supported")
    if size >= 0:
        if example is not None and example[axis] != size:
            raise EngineError(f"{title} is {size}, and that of the example {example[axis]}")
        return size
    if axis == 0:
        return BATCH
    if example is None:
        raise EngineError(f"{title} has no fixed size; give an example of the input")
    return example[axis]
