"""Sparse networks in small files: the .asni format of docs/format.md.

**A file gives back what was packed, bit for bit, or raises `PackError`.** Every size and checksum is verified before
memory is allocated, and a last checksum covers the decoded tensors. A file may ask for 256 MiB and 128 times its
length, or for `max_memory` bytes.

**Files are close to the entropy limit.** A mask takes its entropy at the layer's density, or less if rows, columns or
blocks differ.

**Nothing in a file is run.** Code that it names is imported only if the user allows it (`--trust-code`). Reading needs
NumPy alone. Training from an amenable file gives the same bits as the ASNI-II run.

>>> import tempfile
>>> import numpy as np
>>> weight = np.zeros((100, 100), np.float32)
>>> weight[::10] = 0.5
>>> with tempfile.TemporaryDirectory() as folder:
...     _ = pack({"weight": weight}, f"{folder}/net.asni")
...     unpacked = read(f"{folder}/net.asni")
>>> bool((unpacked.arrays["weight"] == weight).all())
True
"""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from asni.errors import PackError, UsageError, unknown
from asni.packing.contents import FOREIGN, Contents, Held, contents
from asni.packing.convert import from_torch, to_torch, write_csr, write_safetensors
from asni.packing.dtypes import Tensor
from asni.packing.inspecting import Inspection, Layer, inspect
from asni.packing.layout import MODES, GraphSection
from asni.packing.memory import UNLIMITED
from asni.packing.naming import naming
from asni.packing.reading import Packed, read
from asni.packing.rebuilding import rebuild, recipe_of, train_from
from asni.packing.sources import Source, from_model, read_source
from asni.packing.writing import write

if TYPE_CHECKING:
    import torch

    Packable = str | Path | torch.nn.Module | Mapping[str, torch.Tensor] | Mapping[str, np.ndarray[Any, Any]]

__all__ = [
    "FOREIGN", "MODES", "Contents", "GraphSection", "Held", "Inspection", "Layer", "PackError", "Packed", "Source",
    "Tensor", "contents", "inspect", "load", "pack", "read", "rebuild", "recipe_of", "source_of", "train_from",
    "unpack",
]  # fmt: skip


def pack(
    source: "Packable | Source",
    out: str | Path | None = None,
    mode: str = "exact",
    *,
    max_memory: int | None = None,
) -> Inspection:
    """Write a model, a state_dict, a safetensors, ONNX or `weights_only` state_dict file, or a finished run to `out`.

    exact: every weight bit for bit. half: layers in half precision. int8: layers in eight bits, one scale per output
    channel. amenable: only an initialisation to train from, which is the mask, the signs and two numbers per layer.
    A source file may ask for `max_memory` bytes, by default for 256 MiB and 128 times its length.

    >>> import tempfile, torch
    >>> model = torch.nn.Linear(100, 100)
    >>> _ = model.weight.data.fill_(0.0)[:10].fill_(0.5)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     packed = pack(model, f"{folder}/net.asni")
    >>> packed.mode, packed.nonzeros, packed.dense_bytes > 40 * packed.bytes
    ('exact', 1000, True)
    """
    if not isinstance(out, str | Path):
        raise UsageError(f'pack needs the file to write, as in asni.pack(model, "net.asni"), not {out!r}.')
    _write(source_of(source, mode, max_memory), out, mode)
    # Reads the file back and verifies it; the tensors of a source file are freed by now.
    return inspect(out, max_memory=UNLIMITED)


def load(path: str | Path, *, max_memory: int | None = None) -> "dict[str, torch.Tensor]":
    """Load the state_dict in a file; an amenable file holds only the weights of the layers (see `rebuild`).

    >>> import tempfile, torch
    >>> model, again = torch.nn.Linear(4, 2), torch.nn.Linear(4, 2)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     _ = pack(model, f"{folder}/net.asni")
    ...     again.load_state_dict(load(f"{folder}/net.asni"))
    <All keys matched successfully>
    >>> torch.equal(model.weight, again.weight)
    True
    """
    return to_torch(read(path, max_memory=max_memory).tensors)


def unpack(path: str | Path, out: str | Path, to: str = "safetensors", *, max_memory: int | None = None) -> None:
    """Write the tensors of a file as "safetensors", or as "csr": compressed sparse rows in a NumPy .npz."""
    if to not in ("safetensors", "csr"):
        raise unknown("format", to, ("safetensors", "csr"))
    tensors = read(path, max_memory=max_memory).tensors
    with naming(Path(path)):
        (write_csr if to == "csr" else write_safetensors)(Path(out), tensors)


def source_of(source: object, mode: str, max_memory: int | None = None) -> Source:
    """What can be packed, as tensors; see `pack`."""
    if isinstance(source, Source):
        return source
    if isinstance(source, str | Path):
        return read_source(Path(source), mode, max_memory)
    return Source(_tensors(source)) if isinstance(source, Mapping) else from_model(source, mode)


def _write(source: Source, out: str | Path, mode: str) -> None:
    write(Path(out), source.tensors, mode, source.network, source.about, source.graph)


def _tensors(state_dict: Mapping[str, Any]) -> dict[str, Tensor]:
    if all(isinstance(value, np.ndarray) for value in state_dict.values()):
        return {name: Tensor.of(array) for name, array in state_dict.items()}
    return from_torch(state_dict)
