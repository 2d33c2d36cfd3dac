"""Ways to spoil the graph of a packed file: one that means something else, or nothing, in a file that is sealed."""

import random
from collections.abc import Callable
from copy import deepcopy
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from asni.engine.frontends.graph_file import section_of
from asni.engine.graph import BATCH, Array, Graph
from asni.engine.lowering import OPERATORS
from asni.packing import GraphSection, Tensor
from asni.packing.writing import write
from attack.spoiling import NASTY, edit_json

NUMBERS = [
    0, 1, -1, 2, 3, 5, 7, -2, 64, 1000, 2**16, 2**24 - 1, 2**31, 2**40, 2**63 - 1, -(2**63), 2**63, BATCH, 2 * BATCH,
    BATCH - 1, BATCH**2, -BATCH,
]  # fmt: skip
ATTRIBUTES = [
    "axis", "axes", "group", "kernel_shape", "strides", "dilations", "pads", "auto_pad", "ceil_mode", "perm", "to",
    "count_include_pad", "output_size", "transA", "transB", "alpha", "beta", "epsilon", "keepdims", "allowzero",
    "approximate", "start", "end", "value", "value_ints", "min", "max", "noop_with_empty_axes", "split", "starts",
]  # fmt: skip
TEXTS = ["", "SAME_UPPER", "SAME_LOWER", "VALID", "tanh", "none", "x" * 1000]


@dataclass
class Draft:
    """A graph as it goes into a file, with the tensors there."""

    content: dict[str, Any]
    tensors: dict[str, Tensor]
    constants: dict[str, Tensor]

    @classmethod
    def of(cls, graph: Graph) -> "Draft":
        weights = {
            name: Tensor.of(each) for name, each in graph.constants.items() if each.ndim and each.dtype.kind == "f"
        }
        section = section_of(graph, weights)
        return cls(section.content, weights, dict(section.constants))

    def copy(self) -> "Draft":
        return Draft(deepcopy(self.content), dict(self.tensors), dict(self.constants))

    def write(self, path: Path) -> None:
        """Write a file whose checksums are right."""
        write(path, self.tensors, "exact", {}, {}, GraphSection(self.content, self.constants))

    @property
    def nodes(self) -> list[dict[str, Any]]:
        found = self.content.get("nodes")
        return [node for node in found if isinstance(node, dict)] if isinstance(found, list) else []

    @property
    def values(self) -> list[str]:
        """The names that a node may read."""
        given = [*_keys(self.content.get("inputs")), *_keys(self.content.get("constants")), ""]
        return given + [name for node in self.nodes for name in _list(node.get("outputs"))]


def _keys(value: Any) -> list[str]:
    return list(value) if isinstance(value, dict) else []


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


Spoiler = Callable[[Draft, random.Random], None]


def edit_anything(draft: Draft, rng: random.Random) -> None:
    edit_json(draft.content, rng)


def drop_node(draft: Draft, rng: random.Random) -> None:
    """Who read it reads what it read."""
    node = rng.choice(draft.nodes)
    draft.content["nodes"].remove(node)
    before = rng.choice(_list(node.get("inputs")) or [""])
    for other in draft.nodes:
        other["inputs"] = [
            before if name in _list(node.get("outputs")) else name for name in _list(other.get("inputs"))
        ]


def insert_node(draft: Draft, rng: random.Random) -> None:
    """One more of any operator, whose output somebody reads."""
    at = rng.randrange(len(draft.nodes) + 1)
    earlier = draft.nodes[:at]
    known = [*_keys(draft.content.get("inputs")), *(name for node in earlier for name in _list(node.get("outputs")))]
    name = f"inserted{rng.random()}"
    pool = [*known, *known, *_keys(draft.content.get("constants"))]
    inputs = [rng.choice(pool) for _ in range(rng.choice([1, 1, 2, 2, 3, 5]))]
    attributes = {rng.choice(ATTRIBUTES): _attribute(rng) for _ in range(rng.randrange(3))}
    node = {"op": rng.choice(sorted(OPERATORS)), "name": name, "inputs": inputs, "outputs": [name]}
    draft.content["nodes"].insert(at, {**node, "attributes": attributes})
    if later := [each for each in draft.nodes[at + 1 :] if _list(each.get("inputs"))]:
        _replace_one(rng.choice(later)["inputs"], name, rng)


def move_node(draft: Draft, rng: random.Random) -> None:
    nodes = draft.content["nodes"]
    nodes.insert(rng.randrange(len(nodes)), nodes.pop(rng.randrange(len(nodes))))


def change_operator(draft: Draft, rng: random.Random) -> None:
    rng.choice(draft.nodes)["op"] = rng.choice([*sorted(OPERATORS), "Loop", ""])


def change_attribute(draft: Draft, rng: random.Random) -> None:
    """Mostly of those that are there: another value, or one number of a list."""
    nodes = [node for node in draft.nodes if isinstance(node.get("attributes"), dict) and node["attributes"]]
    attributes = rng.choice(nodes)["attributes"]
    name = rng.choice([*attributes, rng.choice(ATTRIBUTES)])
    if isinstance(attributes.get(name), list) and attributes[name] and rng.random() < 0.6:
        _replace_one(attributes[name], rng.choice(NUMBERS), rng)
    else:
        attributes[name] = _attribute(rng)


def change_input(draft: Draft, rng: random.Random) -> None:
    """A node reads another value."""
    _replace_one(rng.choice(draft.nodes).setdefault("inputs", []), rng.choice(draft.values), rng)


def swap_inputs(draft: Draft, rng: random.Random) -> None:
    inputs = rng.choice(draft.nodes).get("inputs")
    rng.shuffle(_list(inputs))


def rename_value(draft: Draft, rng: random.Random) -> None:
    """A node gives what another gives, or the graph gives something else."""
    names = rng.choice([rng.choice(draft.nodes).get("outputs"), draft.content.get("outputs")])
    _replace_one(_list(names), rng.choice(draft.values), rng)


def change_shape(draft: Draft, rng: random.Random) -> None:
    for shape in draft.content["inputs"].values():
        if rng.random() < 0.2:
            shape.append(rng.choice(NUMBERS))
        else:
            _replace_one(shape, rng.choice(NUMBERS), rng)


def swap_constants(draft: Draft, rng: random.Random) -> None:
    places = draft.content["constants"]
    first, second = rng.choice(list(places)), rng.choice(list(places))
    places[first], places[second] = places[second], places[first]


def change_tensor(draft: Draft, rng: random.Random) -> None:
    """Other numbers, another type or another shape."""
    holder = rng.choice([each for each in (draft.tensors, draft.constants) if each])
    name = rng.choice(list(holder))
    holder[name] = Tensor.of(_changed(holder[name].array, rng))


def _changed(array: Array, rng: random.Random) -> Array:
    way = rng.randrange(6)
    if way == 0:
        return np.array([rng.choice(NUMBERS[:-1]) % 2**63 for _ in range(rng.randrange(5))], np.int64)
    if way == 1:
        return np.nan_to_num(array).astype(rng.choice(["float64", "float16", "int64", "int32", "bool", "uint8"]))
    if way == 2:
        return array.reshape(rng.choice([(-1,), (1, *array.shape), (*array.shape, 1), array.shape[::-1]]))
    if way == 3:
        return np.repeat(array.reshape(-1), rng.choice([0, 2, 100])).reshape(-1)
    changed = array.copy()
    if changed.size:
        nasty = NUMBERS[:16] if changed.dtype.kind == "i" else [np.nan, np.inf, -np.inf, 3e38, 1e-45, -0.0]
        changed.reshape(-1)[rng.randrange(changed.size)] = rng.choice(nasty) % 2**63 if way == 4 else 0
    return changed


def _attribute(rng: random.Random) -> Any:
    numbers = [rng.choice(NUMBERS) for _ in range(rng.randrange(6))]
    small = [rng.randrange(4) for _ in range(rng.choice([1, 2, 2, 4, 4]))]
    return rng.choice(
        [rng.choice(NUMBERS), rng.randrange(4), numbers, small, rng.choice(TEXTS), rng.choice(NASTY), 0.5]
    )


def _replace_one(values: list[Any], value: Any, rng: random.Random) -> None:
    if values:
        values[rng.randrange(len(values))] = value
    else:
        values.append(value)


SPOILERS: list[Spoiler] = [
    edit_anything, drop_node, insert_node, insert_node, move_node, change_operator, change_attribute, change_attribute,
    change_attribute, change_input, swap_inputs, rename_value, change_shape, swap_constants, change_tensor,
]  # fmt: skip


def spoil(draft: Draft, rng: random.Random) -> None:
    """Spoil a graph in a few ways, as far as each way finds something to spoil."""
    for _ in range(rng.choice([1, 1, 1, 2, 3])):
        try:
            rng.choice(SPOILERS)(draft, rng)
        except (AttributeError, IndexError, KeyError, TypeError, ValueError, OverflowError):
            # What was spoilt before leaves nothing to do here.
            continue
