"""A graph in a packed file: its operators as JSON, its constants as tensors of the file. Nothing in it is trusted."""

import hashlib
import math
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from asni.engine.graph import Array, Attribute, Graph, Node
from asni.errors import PackError, shown
from asni.packing import GraphSection, Packed, Tensor, read
from asni.packing.layout import MAX_DIMENSIONS, are_lengths

MOST_NODES = 100_000
_KEYS = {"inputs", "outputs", "constants", "nodes"}
_NODE_KEYS = {"op", "name", "inputs", "outputs", "attributes"}
_INT64 = range(-(2**63), 2**63)
_SURROGATE = re.compile("[\ud800-\udfff]")


def read_graph(path: str | Path, *, max_memory: int | None = None) -> Graph:
    """The graph of a packed file, read with NumPy alone; see `asni.packing.read`."""
    packed = read(path, max_memory=max_memory)
    try:
        return graph_of_file(packed)
    except PackError as error:
        raise PackError(f"{path}: {error}") from error


def graph_of_file(packed: Packed) -> Graph:
    """The graph in a file that was read. Every field of it is checked; whatever is wrong is a `PackError`."""
    if packed.graph is None:
        raise PackError("it holds no graph. Pack the network again, with --graph.")
    return _parsed(packed.graph, packed.tensors)


def section_of(graph: Graph, tensors: Mapping[str, Tensor]) -> GraphSection:
    """The graph as a file of `tensors` carries it: a constant that equals one of them is not stored again."""
    known = {name: _identity(value) for name, tensor in tensors.items() if (value := _value(tensor)) is not None}
    stored = {identity: name for name, identity in known.items()}
    places: dict[str, str] = {}
    constants: dict[str, Tensor] = {}
    for name, array in graph.constants.items():
        value = array.astype(np.float32, copy=False) if array.dtype.kind == "f" else array
        identity = _identity(value)
        place = name if known.get(name) == identity else stored.get(identity)
        if place is None:
            place = stored[identity] = _unlike(name, tensors, constants)
            constants[place] = Tensor.of(value)
        places[name] = place
    section = GraphSection(_content(graph, places), constants)
    _parsed(section, tensors)
    return section


def _identity(array: Array) -> tuple[str, tuple[int, ...], bytes]:
    return array.dtype.name, array.shape, hashlib.sha256(np.ascontiguousarray(array).data).digest()


def _unlike(name: str, *taken: Iterable[str]) -> str:
    while any(name in names for names in taken):
        name += "'"
    return name


def _value(tensor: Tensor) -> Array | None:
    """What a graph sees of a tensor: numbers with a fraction as float32; None for what it cannot calculate with."""
    if tensor.dtype.name.startswith(("float8", "complex")):
        return None
    if tensor.dtype.name == "float32" or not tensor.dtype.is_float:
        return tensor.array
    return tensor.to_float32().reshape(tensor.array.shape)


def _content(graph: Graph, places: Mapping[str, str]) -> dict[str, Any]:
    return {
        "inputs": {name: list(shape) for name, shape in graph.inputs.items()},
        "outputs": list(graph.outputs),
        "constants": dict(places),
        "nodes": [_node_content(node) for node in graph.nodes],
    }


def _node_content(node: Node) -> dict[str, Any]:
    content = {"op": node.op, "name": node.name, "inputs": list(node.inputs), "outputs": list(node.outputs)}
    attributes = {name: list(value) if isinstance(value, tuple) else value for name, value in node.attributes.items()}
    return {**content, "attributes": attributes} if attributes else content


def _parsed(section: GraphSection, tensors: Mapping[str, Tensor]) -> Graph:
    content = section.content
    _require(content.keys() == _KEYS, f"the graph has other keys than {', '.join(sorted(_KEYS))}")
    constants = _constants(content["constants"], {**tensors, **section.constants})
    inputs = _inputs(content["inputs"])
    given = [*inputs, *constants]
    _require(len(set(given)) == len(given), "an input of the graph has the name of a constant")
    nodes = _nodes(content["nodes"], set(given))
    outputs = _names(content["outputs"], "the outputs of the graph")
    known = {*given, *(name for node in nodes for name in node.outputs if name)}
    _require(len(outputs) > 0, "the graph has no output")
    for name in outputs:
        _require(name in known, f"no node gives the output {shown(name)} of the graph")
    return Graph(inputs, outputs, nodes, constants)


def _constants(content: Any, tensors: Mapping[str, Tensor]) -> dict[str, Array]:
    _require(isinstance(content, dict), "the constants of the graph are not names of tensors")
    constants = {}
    for name, place in content.items():
        _require(_is_name(name), f"{shown(repr(name))} is not a name of a constant")
        tensor = tensors.get(place) if isinstance(place, str) else None
        if tensor is None:
            raise PackError(f"the constant {shown(name)} is the tensor {shown(repr(place))}, which is not in the file")
        value = _value(tensor)
        if value is None:
            raise PackError(f"the constant {shown(name)} is {tensor.dtype.name}, which cannot be calculated with")
        constants[name] = value
    return constants


def _inputs(content: Any) -> dict[str, tuple[int, ...]]:
    _require(isinstance(content, dict) and len(content) > 0, "the graph has no input")
    for name, shape in content.items():
        _require(_is_name(name), f"{shown(repr(name))} is not a name of an input")
        sizes = are_lengths(shape) and len(shape) <= MAX_DIMENSIONS
        _require(sizes, f"the shape of the input {shown(name)} is not a list of up to {MAX_DIMENSIONS} sizes")
    return {name: tuple(shape) for name, shape in content.items()}


def _nodes(content: Any, known: set[str]) -> tuple[Node, ...]:
    """The nodes, each of which reads only what is known before it; what they give is added to `known`."""
    _require(isinstance(content, list), "the graph does not list its nodes")
    _require(len(content) <= MOST_NODES, f"the graph has {len(content):,} nodes; a file holds up to {MOST_NODES:,}")
    nodes = []
    for index, item in enumerate(content):
        node = _node(item, f"node {index} of the graph")
        for name in filter(None, node.inputs):
            if name not in known:
                raise PackError(f"{_title(node)} reads {shown(name)}, which nothing before it gives")
        for name in filter(None, node.outputs):
            if name in known:
                raise PackError(f"{_title(node)} gives {shown(name)}, which is there already")
            known.add(name)
        nodes.append(node)
    return tuple(nodes)


def _node(content: Any, title: str) -> Node:
    keys = content.keys() if isinstance(content, dict) else set()
    _require(_NODE_KEYS - {"attributes"} <= keys <= _NODE_KEYS, f"{title} does not have the keys of a node")
    op, name, attributes = content["op"], content["name"], content.get("attributes", {})
    _require(_is_name(op), f"{title} has no operator")
    _require(_is_text(name), f"{title} has no name")
    title = f"{shown(op)} {shown(name)}"
    _require(isinstance(attributes, dict), f"the attributes of {title} are not by name")
    inputs = _names(content["inputs"], f"the inputs of {title}")
    outputs = _names(content["outputs"], f"the outputs of {title}")
    _require(any(outputs), f"{title} has no output")
    return Node(op, name, inputs, outputs, {key: _attribute(value, key, title) for key, value in attributes.items()})


def _attribute(value: Any, name: str, title: str) -> Attribute:
    found = tuple(value) if isinstance(value, list) else value
    values = found if isinstance(found, tuple) else (found,)
    integers = all(type(each) is int and each in _INT64 for each in values)
    floats = all(type(each) is float and math.isfinite(each) for each in values)
    known = integers or floats or (isinstance(found, str) and _is_text(found))
    _require(known, f"the attribute {shown(name)} of {title} is no number, text or list of numbers of one kind")
    return found


def _names(content: Any, title: str) -> tuple[str, ...]:
    _require(isinstance(content, list) and all(map(_is_text, content)), f"{title} are not names")
    return tuple(content)


def _title(node: Node) -> str:
    return f"{shown(node.op)} {shown(node.name)}"


def _is_name(value: Any) -> bool:
    return _is_text(value) and value != ""


def _is_text(value: Any) -> bool:
    """Whether a value is text that other programs can read: no half of a surrogate pair, which is no character."""
    return isinstance(value, str) and _SURROGATE.search(value) is None


def _require(condition: bool, message: str) -> None:
    if not condition:
        raise PackError(message)
