"""A file to tensors. Nothing here needs PyTorch."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from asni.errors import PackError
from asni.packing import container, rounding
from asni.packing.dtypes import Array, Float32, Tensor
from asni.packing.layout import MODES, ContentChecksum, Entry, parse_entries, parse_network
from asni.packing.mask_coding import decode_mask
from asni.packing.value_coding import decode_values


@dataclass(frozen=True)
class Packed:
    """What a file holds: the tensors, how the network is built again, and what is known about it."""

    mode: str
    tensors: dict[str, Tensor]
    network: dict[str, Any]
    about: dict[str, Any]
    entries: tuple[Entry, ...]
    part_bytes: dict[str, dict[str, int]] = field(repr=False)

    @property
    def arrays(self) -> dict[str, Array]:
        """The tensors as NumPy arrays; bfloat16 and float8 as the unsigned integers of their bits."""
        return {name: tensor.array for name, tensor in self.tensors.items()}


def read(path: str | Path) -> Packed:
    """The network in a file, in NumPy alone."""
    path = Path(path)
    try:
        # A file of random bits may hold any scale and any NaN: what they overflow to is for the checksum to judge.
        with np.errstate(all="ignore"):
            return _decode(*container.read(path))
    except PackError as error:
        raise PackError(f"{path}: {error}") from error


def _decode(header: dict[str, Any], sections: list[bytes]) -> Packed:
    mode, network = header.get("mode"), parse_network(header.get("network"))
    if mode not in MODES:
        raise PackError(f"the header names mode {mode!r}; this version knows {', '.join(MODES)}")
    entries = parse_entries(header.get("tensors"))
    dense, length = sum(entry.dense_bytes for entry in entries), sum(map(len, sections))
    if container.least_length(dense) > length:
        raise PackError(f"{length} bytes of sections cannot hold the {dense} bytes of tensors that the header claims")
    queue = _Sections(sections)
    about = queue.take("about")
    tensors: list[Tensor] = []
    content = ContentChecksum(mode, network)
    for entry in entries:
        tensor = _decode_tensor(entry, queue) if entry.same is None else _copy(tensors[entry.same])
        tensors.append(tensor)
        content.add(entry, tensor)
    queue.end()
    if content.value != header.get("content"):
        raise PackError("the tensors are not the ones that were packed: the checksum of the content does not match")
    named = {entry.name: tensor for entry, tensor in zip(entries, tensors, strict=True)}
    return Packed(mode, named, network, container.decompress_json(about) if about else {}, tuple(entries), queue.taken)


class _Sections:
    """Hands out the sections in order, and remembers what they were for."""

    def __init__(self, sections: list[bytes]) -> None:
        self._left: Iterator[bytes] = iter(sections)
        self.taken: dict[str, dict[str, int]] = {}

    def take(self, part: str, tensor: str = "") -> bytes:
        section = next(self._left, None)
        if section is None:
            raise PackError(f"the section with the {part} of {tensor or 'the file'} is missing")
        self.taken.setdefault(part, {})[tensor] = len(section)
        return section

    def end(self) -> None:
        padding = next(self._left, b"")
        self.taken["padding"] = {"": len(padding)}
        if padding.strip(b"\0") or next(self._left, None) is not None:
            raise PackError("the file holds sections that belong to no tensor")


def _decode_tensor(entry: Entry, queue: _Sections) -> Tensor:
    if entry.stored is None:
        return _decode_exact(entry, queue)
    if entry.stored.name == "int8":
        scales: Float32 = decode_values(queue.take("scales", entry.name), entry.shape[0], np.dtype("<u4")).view("<f4")
        return rounding.dequantise(_decode_exact(entry, queue), scales, entry.dtype)
    return rounding.widen(_decode_exact(entry, queue), entry.dtype)


def _decode_exact(entry: Entry, queue: _Sections) -> Tensor:
    size = int(np.prod(entry.shape, dtype=np.int64))
    if not entry.sparse:
        bits = decode_values(queue.take("values", entry.name), size, entry.coded.bits)
        return Tensor.from_bits(entry.coded, bits, entry.shape)
    rows = entry.shape[0]
    mask = decode_mask(queue.take("mask", entry.name), rows, size // rows).reshape(-1)
    bits = np.zeros(size, entry.coded.bits)
    bits[mask] = decode_values(queue.take("values", entry.name), int(np.count_nonzero(mask)), entry.coded.bits)
    return Tensor.from_bits(entry.coded, bits, entry.shape)


def _copy(tensor: Tensor) -> Tensor:
    return Tensor(tensor.dtype, tensor.array.copy())
