"""What the header says about the tensors: the part that writing and reading must agree on."""

import json
import zlib
from dataclasses import dataclass
from math import prod
from typing import Any

from asni.errors import PackError
from asni.packing.dtypes import DType, Tensor, of_name

MODES = ("exact", "half", "int8", "amenable")
STORED = ("float16", "bfloat16", "int8")
_MAX_DIMENSIONS = 32


@dataclass(frozen=True)
class Entry:
    """One tensor as the header describes it: `same` names an earlier tensor that is bit for bit equal."""

    name: str
    dtype: DType
    shape: tuple[int, ...]
    sparse: bool = False
    stored: DType | None = None
    error: dict[str, Any] | None = None
    same: int | None = None

    @property
    def dense_bytes(self) -> int:
        """Memory the tensor takes, counting an empty dimension as one, so that no shape is beyond reason."""
        return prod(max(length, 1) for length in self.shape) * self.dtype.numpy.itemsize

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


def parse_network(content: Any) -> dict[str, Any]:
    """How the network is built: a name or an import path, the shape of an image, the number of classes; or nothing."""
    kinds = {"name": str, "import": str, "classes": int, "shape": list}
    if not isinstance(content, dict) or not all(type(content[key]) is kinds.get(key) for key in content):
        raise PackError("the header does not say how the network is built")
    if not all(type(length) is int for length in content.get("shape", [])):
        raise PackError("the shape of the network's input is not a list of lengths")
    return content


def parse_entries(content: Any) -> list[Entry]:
    """The tensors of a header that may hold anything."""
    if not isinstance(content, list):
        raise PackError("the header does not list the tensors")
    entries: list[Entry] = []
    for item in content:
        entries.append(_parse_entry(item, entries))
    if len({entry.name for entry in entries}) != len(entries):
        raise PackError("two tensors have the same name")
    return entries


def _parse_entry(item: Any, earlier: list[Entry]) -> Entry:
    if not isinstance(item, dict) or not isinstance(item.get("name"), str):
        raise PackError("a tensor in the header has no name")
    name, same = item["name"], item.get("same")
    if same is not None:
        if type(same) is not int or not 0 <= same < len(earlier) or earlier[same].same is not None:
            raise PackError(f"{name} is said to equal tensor {same!r}, which is not a tensor before it")
        return Entry(name, earlier[same].dtype, earlier[same].shape, same=same)
    shape, sparse = item.get("shape"), item.get("sparse")
    if not isinstance(shape, list) or not all(type(length) is int and length >= 0 for length in shape):
        raise PackError(f"the shape of {name} is not a list of lengths")
    if len(shape) > _MAX_DIMENSIONS:
        raise PackError(f"{name} has {len(shape)} dimensions; the format allows {_MAX_DIMENSIONS}")
    if not isinstance(sparse, bool) or (sparse and (not shape or not all(shape))):
        raise PackError(f"{name} cannot be coded as sparse={sparse!r} with shape {shape}")
    stored = item.get("stored")
    if stored is not None and (stored not in STORED or not shape or not all(shape)):
        raise PackError(f"{name} cannot be stored as {stored!r} with shape {shape}")
    dtype = of_name(item.get("dtype"))
    if stored is not None and not dtype.is_float:
        raise PackError(f"{name} is {dtype.name}, which is never rounded")
    return Entry(name, dtype, tuple(shape), sparse, of_name(stored) if stored else None, item.get("error"))


class ContentChecksum:
    """CRC-32 over everything a reader gets: it ties header and sections together, and proves the decoding right."""

    def __init__(self, mode: str, network: dict[str, Any]) -> None:
        self.value = zlib.crc32(json.dumps([mode, network], sort_keys=True).encode())

    def add(self, entry: Entry, tensor: Tensor) -> None:
        label = [entry.name, entry.dtype.name, list(entry.shape), entry.same]
        self.value = zlib.crc32(json.dumps(label).encode(), self.value)
        if entry.same is None:
            self.value = zlib.crc32(tensor.bits.data, self.value)
