"""Read tensors from a packed file, without PyTorch."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from math import prod
from pathlib import Path
from typing import Any

import numpy as np

from asni.errors import PackError
from asni.packing import container, rounding
from asni.packing.dtypes import Array, Float32, Tensor
from asni.packing.fields import Reader
from asni.packing.layout import (
    MODES,
    ContentChecksum,
    Entry,
    GraphSection,
    parse_about,
    parse_constants,
    parse_entries,
    parse_graph,
    parse_network,
)
from asni.packing.mask_coding import decode_mask
from asni.packing.memory import Memory
from asni.packing.naming import naming
from asni.packing.value_coding import decode_values


@dataclass(frozen=True)
class Packed:
    """The content of a file: the tensors, how to build the network, what is known about it, and how to run it."""

    mode: str
    tensors: dict[str, Tensor]
    network: dict[str, Any]
    about: dict[str, Any]
    entries: tuple[Entry, ...]
    part_bytes: dict[str, dict[str, int]] = field(repr=False)
    about_bytes: int = 0
    content: int = 0
    graph: GraphSection | None = None
    graph_bytes: int = 0

    @property
    def arrays(self) -> dict[str, Array]:
        """The tensors as NumPy arrays; bfloat16 and float8 as unsigned integers of the same bits."""
        return {name: tensor.array for name, tensor in self.tensors.items()}


def read(path: str | Path, *, max_memory: int | None = None) -> Packed:
    """Read a packed file; needs NumPy only.

    A file may ask for `max_memory` bytes, by default for 256 MiB and 128 times its length.
    """
    path = Path(path)
    with naming(path):
        return decoded(path, Memory(path, max_memory))


def decoded(path: Path, memory: Memory) -> Packed:
    """The content of a packed file; errors do not name it."""
    # A damaged file may hold any scale or NaN: ignore overflows, the checksum detects the damage.
    with np.errstate(all="ignore"):
        return _decode(*container.read(path, memory), memory)


def _decode(header: dict[str, Any], sections: list[bytes], memory: Memory) -> Packed:
    mode, network = header.get("mode"), parse_network(header.get("network"))
    if mode not in MODES:
        raise PackError(f"the header has the unknown mode {mode!r} (known: {', '.join(MODES)})")
    entries = parse_entries(header.get("tensors"))
    memory.take_tensors((entry.most_elements, entry.dtype.numpy.itemsize) for entry in entries)
    left = iter(sections)
    about = _next(left, "the recipe and metrics") if header.get("about") else b""
    graph = _next(left, "the graph") if "graph" in header else b""
    operations = parse_graph(container.decompress_json(graph, memory)) if "graph" in header else None
    constants = parse_constants(header.get("graph", 0), entries)
    content = ContentChecksum(mode, network, operations, len(constants))
    tensors, part_bytes = _decode_tensors(entries, left, content)
    if content.value != header.get("content"):
        raise PackError("the tensors differ from those that were packed: the checksum of the content does not match")
    apart = {entry.name: tensors.pop(entry.name) for entry in constants}
    return Packed(
        mode=mode,
        tensors=tensors,
        network=network,
        about=parse_about(container.decompress_json(about, memory)) if about else {},
        entries=tuple(entries),
        part_bytes=part_bytes,
        about_bytes=len(about),
        content=content.value,
        graph=None if operations is None else GraphSection(operations, apart),
        graph_bytes=len(graph),
    )


def _decode_tensors(
    entries: list[Entry], left: Iterator[bytes], content: ContentChecksum
) -> tuple[dict[str, Tensor], dict[str, dict[str, int]]]:
    """The tensors by name, and the bytes of their parts, from all sections that are left."""
    part_bytes: dict[str, dict[str, int]] = {}
    tensors: list[Tensor] = []
    for entry in entries:
        if entry.same is None:
            section = _Section(_next(left, entry.name))
            tensors.append(_decode_tensor(entry, section))
            section.reader.end()
            part_bytes[entry.name] = section.part_bytes
        else:
            tensors.append(_copy(tensors[entry.same]))
        content.add(entry, tensors[-1])
    padding = next(left, b"")
    if any(padding) or next(left, None) is not None:
        raise PackError("the file holds sections that belong to no tensor")
    return {entry.name: tensor for entry, tensor in zip(entries, tensors, strict=True)}, part_bytes


def _next(left: Iterator[bytes], what: str) -> bytes:
    section = next(left, None)
    if section is None:
        raise PackError(f"the section of {what} is missing")
    return section


class _Section:
    """The parts of one tensor's section, in order, each preceded by its length."""

    def __init__(self, data: bytes) -> None:
        self.reader = Reader(data)
        self.part_bytes: dict[str, int] = {}

    def part(self, kind: str) -> bytes:
        part = self.reader.take(self.reader.varint())
        self.part_bytes[kind] = len(part)
        return part


def _decode_tensor(entry: Entry, section: _Section) -> Tensor:
    if entry.stored is None:
        return _decode_exact(entry, section)
    if entry.stored.name == "int8":
        scales: Float32 = decode_values(section.part("scales"), entry.shape[0], np.dtype("<u4")).view("<f4")
        return rounding.dequantise(_decode_exact(entry, section), scales, entry.dtype)
    return rounding.widen(_decode_exact(entry, section), entry.dtype)


def _decode_exact(entry: Entry, section: _Section) -> Tensor:
    size = prod(entry.shape)
    if not entry.sparse:
        bits = decode_values(section.part("values"), size, entry.coded.bits)
        return Tensor.from_bits(entry.coded, bits, entry.shape)
    rows = entry.shape[0]
    mask = decode_mask(section.part("mask"), rows, size // rows).reshape(-1)
    bits = np.zeros(size, entry.coded.bits)
    bits[mask] = decode_values(section.part("values"), int(np.count_nonzero(mask)), entry.coded.bits)
    return Tensor.from_bits(entry.coded, bits, entry.shape)


def _copy(tensor: Tensor) -> Tensor:
    return Tensor(tensor.dtype, tensor.array.copy())
