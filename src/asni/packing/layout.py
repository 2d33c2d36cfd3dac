"""The description of tensors in the header, shared by writing and reading."""

import json
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from math import prod
from typing import Any

from asni.errors import PackError, shown
from asni.packing.dtypes import DType, Tensor, of_name

MODES = ("exact", "half", "int8", "amenable")
STORED = ("float16", "bfloat16", "int8")
MAX_DIMENSIONS = 32


@dataclass(frozen=True)
class Entry:
    """One tensor as the header describes it; `same` is the index of an earlier tensor that is equal bit for bit."""

    name: str
    dtype: DType
    shape: tuple[int, ...]
    sparse: bool = False
    stored: DType | None = None
    error: dict[str, Any] | None = None
    same: int | None = None

    @property
    def most_elements(self) -> int:
        """The elements of the tensor; an empty dimension counts as 1, to limit the other dimensions too."""
        return prod(max(length, 1) for length in self.shape)

    @property
    def coded(self) -> DType:
        """The element type whose bits are in the sections."""
        return self.stored or self.dtype

    def to_json(self) -> dict[str, Any]:
        if self.same is not None:
            return {"name": self.name, "same": self.same}
        content: dict[str, Any] = {"name": self.name, "dtype": self.dtype.name, "shape": list(self.shape)}
        content["sparse"] = self.sparse
        if self.stored:
            content |= {"stored": self.stored.name, "error": self.error}
        return content


@dataclass(frozen=True)
class GraphSection:
    """The operations of a network as JSON, and the tensors that only they use, which are not in its state_dict."""

    content: dict[str, Any]
    constants: Mapping[str, Tensor]


def parse_graph(content: dict[str, Any]) -> dict[str, Any]:
    """Validate as much of a graph as `inspect` shows; what is in its nodes is checked by the engine."""
    nodes, inputs, outputs = (content.get(key) for key in ("nodes", "inputs", "outputs"))
    _require(isinstance(nodes, list), "the graph does not list its nodes")
    sizes = isinstance(inputs, dict) and all(map(are_lengths, inputs.values()))
    _require(sizes, "the inputs of the graph do not have a shape each, which is a list of sizes")
    named = isinstance(outputs, list) and all(isinstance(output, str) for output in outputs)
    _require(named, "the outputs of the graph are not names")
    return content


def parse_network(content: Any) -> dict[str, Any]:
    """Validate the network's description: name or import path, shape of an image, classes, options; may be empty."""
    kinds = {"name": str, "shape": list, "classes": int, "options": dict}
    _require(isinstance(content, dict), "the header does not describe the network")
    for key, value in content.items():
        _require(
            type(value) is kinds.get(key),
            f"the header has an invalid {shown(repr(key))} of the network: {shown(repr(value))}",
        )
    sizes = [*content.get("shape", []), content.get("classes", 0)]
    _require(are_lengths(sizes), "the shape of the network's input or its number of classes is not a size")
    return dict(content)


def parse_about(content: dict[str, Any]) -> dict[str, Any]:
    """Validate what is known about the network: its recipe, with the schedule in it, and its metrics."""
    recipe = content.get("recipe", {})
    schedule = recipe.get("pruning", {}) if isinstance(recipe, dict) else None
    known = all(isinstance(value, dict) for value in (*content.values(), schedule))
    _require(known, "the recipe, its schedule or the metrics are not JSON objects")
    return content


def parse_entries(content: Any) -> list[Entry]:
    """Validate the tensors of an untrusted header."""
    _require(isinstance(content, list), "the header does not list the tensors")
    entries: list[Entry] = []
    for item in content:
        _require(isinstance(item, dict) and isinstance(item.get("name"), str), "a tensor in the header has no name")
        _require(_is_unicode(item["name"]), f"the name {shown(repr(item['name']))} of a tensor is not valid Unicode")
        entries.append(_parse_entry(item) if item.get("same") is None else _parse_twin(item, entries))
    _require(len({entry.name for entry in entries}) == len(entries), "two tensors have the same name")
    return entries


def parse_constants(count: Any, entries: list[Entry]) -> list[Entry]:
    """The last tensors, as many as a graph says that it alone uses."""
    known = type(count) is int and 0 <= count <= len(entries)
    _require(known, f"the header says that {shown(repr(count))} of {len(entries)} tensors belong to the graph alone")
    return entries[len(entries) - count :]


def _parse_twin(item: dict[str, Any], earlier: list[Entry]) -> Entry:
    name, same = item["name"], item["same"]
    known = type(same) is int and 0 <= same < len(earlier) and earlier[same].same is None
    _require(
        known, f"{shown(name)} refers to tensor {shown(repr(same))}, which is not an earlier tensor with its own data"
    )
    return Entry(name, earlier[same].dtype, earlier[same].shape, same=same)


def _parse_entry(item: dict[str, Any]) -> Entry:
    name, dtype = item["name"], of_name(item.get("dtype"))
    shape: Any = item.get("shape")
    sparse: Any = item.get("sparse")
    stored, error = item.get("stored"), item.get("error")
    _require(are_lengths(shape), f"the shape of {shown(name)} is not a list of sizes")
    _require(len(shape) <= MAX_DIMENSIONS, f"{shown(name)} has more than {MAX_DIMENSIONS} dimensions")
    _require(isinstance(sparse, bool), f"the header does not say whether {shown(name)} is sparse")
    if sparse or stored is not None:
        _require(len(shape) > 0 and all(shape), f"{shown(name)} cannot be sparse or rounded with shape {shown(shape)}")
    if stored is None:
        return Entry(name, dtype, tuple(shape), sparse)
    _require(
        stored in STORED and dtype.is_float,
        f"{shown(name)} is {dtype.name}, which cannot be stored as {shown(repr(stored))}",
    )
    stated = isinstance(error, dict) and [type(error.get(key)) for key in ("max", "rms")] == [float, float]
    _require(stated, f"the rounding error of {shown(name)} is missing")
    return Entry(name, dtype, tuple(shape), sparse, of_name(stored), error)


def are_lengths(value: Any) -> bool:
    """Whether a value from a file is a list of sizes."""
    return isinstance(value, list) and all(type(length) is int and 0 <= length < 2**63 for length in value)


def _is_unicode(text: str) -> bool:
    """Whether other programs can read the text: JSON can write half of a surrogate pair, which is no character."""
    return not any("\ud800" <= each <= "\udfff" for each in text)


def _require(condition: bool, message: str) -> None:
    if not condition:
        raise PackError(message)


class ContentChecksum:
    """CRC-32 of the decoded content: it verifies the decoding, and that header and sections belong together."""

    def __init__(self, mode: str, network: dict[str, Any], graph: dict[str, Any] | None, constants: int) -> None:
        what = [mode, network] if graph is None else [mode, network, graph, constants]
        self.value = zlib.crc32(json.dumps(what, sort_keys=True).encode())

    def add(self, entry: Entry, tensor: Tensor) -> None:
        label = [entry.name, entry.dtype.name, list(entry.shape), entry.same]
        self.value = zlib.crc32(json.dumps(label).encode(), self.value)
        if entry.same is None:
            self.value = zlib.crc32(tensor.bits.data, self.value)
