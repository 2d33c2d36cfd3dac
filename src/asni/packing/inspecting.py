"""The content of a packed file, and how close its size is to the entropy limit."""

from dataclasses import asdict, dataclass
from math import prod
from pathlib import Path
from typing import Any

import numpy as np

from asni.packing.amenable import centroids, is_layer
from asni.packing.byte_coding import information
from asni.packing.dtypes import Tensor
from asni.packing.layout import Entry
from asni.packing.reading import Packed, read
from asni.pruning.html import folded_if_long, paragraph, share, table


@dataclass(frozen=True)
class Layer:
    """One weight tensor: its sparsity, and the bytes of its parts in the file."""

    name: str
    shape: tuple[int, ...]
    dtype: str
    stored: str
    nonzeros: int
    minus_zeros: int
    sparsity: float
    centroids: dict[str, float | None]
    mask_bytes: int
    value_bytes: int
    entropy_bytes: float
    error: dict[str, float] | None


@dataclass(frozen=True, repr=False)
class Inspection:
    """What a packed file holds: its bytes beside those of dense tensors, its nonzeros, and each layer."""

    mode: str
    bytes: int
    dense_bytes: int
    entropy_bytes: float
    ratio: float | None
    parts: dict[str, int]
    nonzeros: int
    minus_zeros: int
    sparsity: float
    network: dict[str, Any]
    recipe: dict[str, Any]
    schedule: dict[str, Any]
    metrics: dict[str, Any]
    layers: tuple[Layer, ...]
    graph: dict[str, Any] | None
    """How many nodes the graph has, the shapes of its inputs, and its outputs."""

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    def __repr__(self) -> str:
        smaller = f"{self.dense_bytes / self.bytes:.1f} times smaller than the dense tensors"
        return f"Inspection({self.mode}, {self.bytes:,} bytes, {smaller}, {self.nonzeros:,} nonzero weights)"

    def _repr_html_(self) -> str:
        rows = [
            [
                layer.name,
                "x".join(map(str, layer.shape)),
                layer.stored,
                f"{layer.nonzeros:,}",
                share(layer.nonzeros, prod(layer.shape)),
                f"{layer.mask_bytes:,}",
                f"{layer.value_bytes:,}",
            ]
            for layer in self.layers
        ]
        shown = table(["layer", "shape", "stored", "nonzeros", "density", "mask bytes", "value bytes"], rows)
        return paragraph(repr(self)) + folded_if_long(f"{len(rows)} layers", rows, shown)


def inspect(path: str | Path, *, max_memory: int | None = None) -> Inspection:
    """Inspect a packed file: its layers, the bytes of each part, and `ratio`, its size relative to the entropy.

    The entropy is that of independent bits at each layer's density. In the amenable mode it covers masks and signs, and
    is compared with the whole file except the recipe and metrics; in the other modes it covers only the masks, and is
    compared with the bytes of the masks. Tied weights count once. `minus_zeros` counts the weights that are -0.0, which
    the exact mode stores like any other value. A file may ask for `max_memory` bytes, by default for 256 MiB and 128
    times its length.
    """
    packed = read(path, max_memory=max_memory)
    size = Path(path).stat().st_size
    entries = [entry for entry in packed.entries if entry.name in packed.tensors]
    layers = tuple(_layer(entry, packed) for entry in entries if is_layer(packed.tensors[entry.name]))
    parts = _parts(packed, size)
    entropy = sum(layer.entropy_bytes for layer in layers)
    written = size - parts["about"] if packed.mode == "amenable" else parts["mask"]
    once = {entry.name for entry in entries if entry.same is None}
    own = [layer for layer in layers if layer.name in once]
    weights = sum(prod(layer.shape) for layer in own)
    nonzeros = sum(layer.nonzeros for layer in own)
    recipe = packed.about.get("recipe", {})
    return Inspection(
        mode=packed.mode,
        bytes=size,
        dense_bytes=sum(packed.tensors[name].array.nbytes for name in once),
        entropy_bytes=entropy,
        ratio=written / entropy if entropy else None,
        parts=parts,
        nonzeros=nonzeros,
        minus_zeros=sum(layer.minus_zeros for layer in own),
        sparsity=1 - nonzeros / weights if weights else 0.0,
        network=packed.network,
        recipe=recipe,
        schedule=recipe.get("pruning", {}),
        metrics=packed.about.get("metrics", {}),
        layers=layers,
        graph=None if packed.graph is None else _summary(packed.graph.content),
    )


def _parts(packed: Packed, size: int) -> dict[str, int]:
    """Bytes by part; the header includes checksums, lengths and padding."""
    tensors = [taken for name, taken in packed.part_bytes.items() if name in packed.tensors]
    parts = {part: sum(taken.get(part, 0) for taken in tensors) for part in ("mask", "scales", "values")}
    parts["about"] = packed.about_bytes
    constants = [taken for name, taken in packed.part_bytes.items() if name not in packed.tensors]
    parts["graph"] = packed.graph_bytes + sum(sum(taken.values()) for taken in constants)
    return {"header": size - sum(parts.values()), **parts}


def _summary(graph: dict[str, Any]) -> dict[str, Any]:
    return {"nodes": len(graph["nodes"]), "inputs": graph["inputs"], "outputs": graph["outputs"]}


def _layer(entry: Entry, packed: Packed) -> Layer:
    tensor = packed.tensors[entry.name]
    size, stored = tensor.bits.size, int(np.count_nonzero(tensor.bits))
    nonzeros = tensor.nonzeros
    means, positive = _signs(tensor)
    entropy = information(np.array([stored, size - stored]))
    if packed.mode == "amenable":
        entropy += information(np.array([positive, stored - positive]))
    repeated = entry.same is not None
    taken = packed.part_bytes.get(entry.name, {})
    return Layer(
        name=entry.name,
        shape=entry.shape,
        dtype=entry.dtype.name,
        stored=f"as {packed.entries[entry.same].name}" if entry.same is not None else entry.coded.name,
        nonzeros=nonzeros,
        minus_zeros=stored - nonzeros,
        sparsity=1 - nonzeros / size,
        centroids=means,
        mask_bytes=taken.get("mask", 0),
        value_bytes=taken.get("values", 0),
        entropy_bytes=0.0 if repeated or (packed.mode != "amenable" and not entry.sparse) else entropy,
        error=entry.error,
    )


def _signs(tensor: Tensor) -> tuple[dict[str, float | None], int]:
    """The two centroids, and how many weights are positive."""
    if tensor.dtype.name.startswith("float8"):
        return {"positive": None, "negative": None}, 0
    values = tensor.to_float32()
    return centroids(values), int(np.count_nonzero(values > 0))
