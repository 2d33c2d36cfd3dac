"""Write tensors to a packed file."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any
from zlib import crc32

import numpy as np

from asni.errors import PackError, unknown
from asni.packing import container, rounding
from asni.packing.amenable import amenable_layer, is_layer, layers_of
from asni.packing.dtypes import Tensor
from asni.packing.fields import varint
from asni.packing.layout import MAX_DIMENSIONS, MODES, ContentChecksum, Entry, GraphSection
from asni.packing.mask_coding import encode_mask
from asni.packing.value_coding import encode_values

# Below this share of zeros a mask may cost more than it saves, so both codings are tried.
_SURELY_SPARSE = 0.25


def write(
    path: Path,
    tensors: Mapping[str, Tensor],
    mode: str,
    network: dict[str, Any],
    about: dict[str, Any],
    graph: GraphSection | None = None,
) -> None:
    """Write `tensors` in one of MODES, with how to build the `network`, what is known `about` it, and its `graph`."""
    container.write_blocks(path, packed(tensors, mode, network, about, graph))


def packed(
    tensors: Mapping[str, Tensor],
    mode: str,
    network: dict[str, Any],
    about: dict[str, Any],
    graph: GraphSection | None = None,
) -> list[bytes]:
    """What `write` writes, piece by piece."""
    # Whoever only reads needs no display, and none of what it is made with.
    from asni.display import in_megabytes, on_stderr

    if mode not in MODES:
        raise unknown("mode", mode, MODES)
    _require_readable(tensors)
    if mode == "amenable":
        tensors = layers_of(tensors)
    sections = [container.compress_json(about)] if about else []
    own = len(tensors)
    if graph is not None:
        sections.append(container.compress_json(graph.content))
        tensors = _with_constants(tensors, graph.constants, mode)
    entries: list[Entry] = []
    content = ContentChecksum(mode, network, None if graph is None else graph.content, len(tensors) - own)
    twins = _Twins(tensors)
    size = sum(each.array.nbytes for each in tensors.values())
    with on_stderr().counting("Packing weights", size, in_megabytes) as counter:
        for index, (name, tensor) in enumerate(tensors.items()):
            entry = Entry(name, tensor.dtype, tensor.array.shape, same=twins.before(index, tensor))
            counter.done += tensor.array.nbytes
            if entry.same is None:
                entry, tensor, parts = _encode(entry, tensor, mode if index < own else "exact")
                sections.append(b"".join(varint(len(part)) + part for part in parts))
            entries.append(entry)
            content.add(entry, tensor)
    header: dict[str, Any] = {"mode": mode, "network": network, "tensors": [entry.to_json() for entry in entries]}
    header |= {"about": bool(about), "content": content.value}
    if graph is not None:
        header["graph"] = len(graph.constants)
    return container.blocks(header, sections)


def _with_constants(tensors: Mapping[str, Tensor], constants: Mapping[str, Tensor], mode: str) -> dict[str, Tensor]:
    if mode == "amenable":
        raise PackError(
            "an amenable file holds what a network is trained from, so it carries no graph to run; "
            "pack it with mode 'exact', 'half' or 'int8'"
        )
    _require_readable(constants)
    if again := tensors.keys() & constants.keys():
        raise PackError(f"{min(again)} is the name of a tensor and of a constant of the graph")
    return {**tensors, **constants}


def _require_readable(tensors: Mapping[str, Tensor]) -> None:
    for name, tensor in tensors.items():
        if not isinstance(name, str):
            raise PackError(f"the name of a tensor must be a string, not {name!r}")
        if tensor.array.ndim > MAX_DIMENSIONS:
            raise PackError(f"{name} has {tensor.array.ndim} dimensions; a packed file holds up to {MAX_DIMENSIONS}")


class _Twins:
    """Finds tensors that are bit for bit equal to an earlier one: tied weights are stored once."""

    def __init__(self, tensors: Mapping[str, Tensor]) -> None:
        self._tensors = list(tensors.values())
        self._first: dict[tuple[str, tuple[int, ...], int], int] = {}

    def before(self, index: int, tensor: Tensor) -> int | None:
        key = (tensor.dtype.name, tensor.array.shape, crc32(tensor.bits.data))
        first = self._first.setdefault(key, index)
        if first == index or not np.array_equal(self._tensors[first].bits, tensor.bits):
            return None
        return first


def _encode(entry: Entry, tensor: Tensor, mode: str) -> tuple[Entry, Tensor, list[bytes]]:
    """The completed entry, the tensor as a reader will see it, and the parts of its section."""
    rounded = is_layer(tensor) and not tensor.dtype.name.startswith("float8")
    if mode == "half" and rounded and tensor.dtype.numpy.itemsize > 2:
        stored, prefix = rounding.halve(entry.name, tensor), []
        restored = rounding.widen(stored, tensor.dtype)
    elif mode == "int8" and rounded:
        stored, scales = rounding.quantise(entry.name, tensor)
        prefix = [encode_values(scales.view("<u4"))]
        restored = rounding.dequantise(stored, scales, tensor.dtype)
    else:
        exact = amenable_layer(entry.name, tensor) if mode == "amenable" else tensor
        sparse, parts = _encode_exact(exact)
        return replace(entry, sparse=sparse), exact, parts
    if not np.isfinite(restored.to_float32()).all():
        raise PackError(f"{entry.name} overflows {tensor.dtype.name} when it is rounded; pack it with mode 'exact'")
    sparse, parts = _encode_exact(stored)
    error = rounding.rounding_error(tensor, restored)
    return replace(entry, sparse=sparse, stored=stored.dtype, error=error), restored, prefix + parts


def _encode_exact(tensor: Tensor) -> tuple[bool, list[bytes]]:
    """Mask and nonzero values, or all values, whichever is smaller. -0.0 does not count as zero."""
    bits = tensor.bits
    zeros = bits.size - int(np.count_nonzero(bits))
    if not zeros or not _may_be_sparse(tensor):
        return False, [encode_values(bits)]
    mask = (bits != 0).reshape(tensor.array.shape[0], -1)
    sparse = [encode_mask(mask), encode_values(bits[mask.reshape(-1)])]
    if zeros < _SURELY_SPARSE * bits.size:
        dense = [encode_values(bits)]
        if sum(map(len, dense)) <= sum(map(len, sparse)):
            return False, dense
    return True, sparse


def _may_be_sparse(tensor: Tensor) -> bool:
    return tensor.array.ndim >= 2 and (tensor.dtype.is_float or tensor.dtype.name == "int8")
