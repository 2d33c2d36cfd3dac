"""Convert tensors from and to PyTorch, and write them as safetensors or as compressed sparse rows."""

import json
import struct
from collections.abc import Iterator, Mapping
from math import prod
from pathlib import Path
from typing import TYPE_CHECKING, Any
from zipfile import ZipFile

import numpy as np

from asni.errors import PackError
from asni.files import write_atomically
from asni.packing.amenable import is_layer
from asni.packing.container import write_blocks
from asni.packing.dtypes import Array, Tensor, of_name
from asni.packing.memory import Memory

if TYPE_CHECKING:
    import torch

METADATA = "__metadata__"
"""The key of a safetensors header that is no tensor."""
HEADER_LIMIT = 100_000_000
"""The longest header of a safetensors file."""
_CSR_PARTS = ("data", "indices", "indptr", "shape")
_LONGEST_IN_ZIP = 65_535


def from_torch(state_dict: Mapping[str, "torch.Tensor"], memory: Memory | None = None) -> dict[str, Tensor]:
    """The tensors of a state_dict, bit for bit; contiguous CPU tensors are not copied.

    Those of a file are counted in its `memory`: an expanded tensor may have more elements than the file has bytes.
    """
    for name, tensor in state_dict.items():
        _require_plain(name, tensor)
    if memory is not None:
        memory.take_tensors((prod(tensor.shape), tensor.itemsize) for tensor in state_dict.values())
    return {name: _of_torch(name, tensor) for name, tensor in state_dict.items()}


def _require_plain(name: object, tensor: object) -> None:
    if not isinstance(name, str):
        raise PackError(f"the name of a tensor must be a string, not {name!r}")
    if reason := _not_plain(tensor):
        raise PackError(f"{name} {reason}")


def _of_torch(name: str, tensor: "torch.Tensor") -> Tensor:
    import torch

    integers = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}
    try:
        dtype = of_name(str(tensor.dtype).removeprefix("torch."))
        flat = tensor.detach().cpu().resolve_conj().resolve_neg().contiguous().reshape(-1)
        bits = flat.view(integers[dtype.bits.itemsize]).numpy().view(dtype.bits)
    except PackError as error:
        raise PackError(f"{name}: {error}") from error
    except Exception as error:
        # What a subclass of another package cannot do, or more memory than there is.
        raise PackError(f"{name} is a {type(tensor).__name__} that cannot be packed: {error}") from error
    return Tensor.from_bits(dtype, bits, tuple(tensor.shape))


def _not_plain(tensor: object) -> str | None:
    """Why a value is no dense tensor with numbers in it, and what to do about it."""
    import torch
    from torch.nn.parameter import is_lazy

    from asni.pruning.sharded import is_sharded

    if not isinstance(tensor, torch.Tensor):
        return f"is a {type(tensor).__name__}, not a tensor"
    if is_sharded(tensor):
        return (
            "is spread over processes. Collect the weights first: get_model_state_dict of "
            "torch.distributed.checkpoint.state_dict with full_state_dict=True."
        )
    if is_lazy(tensor):
        return "has no shape yet. Run the model once before packing it."
    if tensor.is_meta:
        return "is on the meta device: it has a shape, but no values. Load the weights first."
    if tensor.is_nested:
        return "is a nested tensor; a packed file holds only dense ones. Convert it: torch.nested.to_padded_tensor."
    if tensor.is_quantized:
        return "is quantised by PyTorch; a packed file holds only plain tensors. Convert it: .dequantize()."
    if tensor.layout is not torch.strided:
        return f"has the layout {tensor.layout}; a packed file finds the zeros itself. Convert it: .to_dense()."
    if tensor.numel() and not tensor.untyped_storage().nbytes():
        return "has no memory of its own: FSDP frees it between steps, and wrappers keep their values elsewhere."
    return None


def to_torch(tensors: Mapping[str, Tensor]) -> "dict[str, torch.Tensor]":
    """A state_dict on the CPU that shares the memory of `tensors`."""
    import torch

    state_dict = {}
    for name, tensor in tensors.items():
        flat = torch.from_numpy(tensor.array.reshape(-1))
        state_dict[name] = flat.view(getattr(torch, tensor.dtype.name)).reshape(tensor.array.shape)
    return state_dict


def write_safetensors(path: Path, tensors: Mapping[str, Tensor]) -> None:
    """Write a safetensors file with the tensors in the given order."""
    if METADATA in tensors:
        raise PackError(f"a safetensors file cannot hold a tensor called {METADATA}; unpack to csr instead")
    header: dict[str, Any] = {}
    start = 0
    for name, tensor in tensors.items():
        stop = start + tensor.array.nbytes
        header[name] = {
            "dtype": tensor.dtype.safetensors,
            "shape": list(tensor.array.shape),
            "data_offsets": [start, stop],
        }
        start = stop
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    if len(text) > HEADER_LIMIT:
        raise PackError(f"the header of a safetensors file would take {len(text)} bytes; it may take {HEADER_LIMIT}")

    def blocks() -> Iterator[bytes]:
        yield struct.pack("<Q", len(text)) + text
        for tensor in tensors.values():
            yield tensor.bits.tobytes()

    write_blocks(path, blocks())


def write_csr(path: Path, tensors: Mapping[str, Tensor]) -> None:
    """Write a NumPy .npz with NAME.data, NAME.indices, NAME.indptr and NAME.shape per layer, and all other tensors.

    Convolutions become matrices of (output channels) x (everything else); NAME.shape is the shape of the tensor.
    `scipy.sparse.csr_matrix((data, indices, indptr), shape=(shape[0], shape[1:].prod()))` reads them, and so does
    NumPy alone. Tensors that are not layers keep their names.
    """
    _require_names_in_npz(tensors)

    def write_all(temporary: Path) -> None:
        # np.savez takes the names as keyword arguments, which would clash with its own parameters.
        with ZipFile(temporary, "w") as bundle:
            for name, tensor in tensors.items():
                for key, array in _as_numpy(name, tensor).items():
                    with bundle.open(f"{key}.npy", "w", force_zip64=True) as file:
                        np.lib.format.write_array(file, array, allow_pickle=False)

    write_atomically(path, write_all)


def _require_names_in_npz(tensors: Mapping[str, Tensor]) -> None:
    taken: set[str] = set()
    for name, tensor in tensors.items():
        if tensor.dtype.name.startswith("float8"):
            raise PackError(f"NumPy has no {tensor.dtype.name}, the type of {name}; unpack to safetensors instead")
        # What a zip file would cut off, or what would leave the directory where it is unzipped.
        unsafe = "\0" in name or "\\" in name or name.startswith("/") or ".." in name.split("/")
        if unsafe or len(name.encode()) + len(".indptr.npy") > _LONGEST_IN_ZIP:
            raise PackError(f"an .npz file cannot hold the name {name[:200]!r}; unpack to safetensors instead")
        keys = {f"{name}.{part}" for part in _CSR_PARTS} if is_layer(tensor) else {name}
        # NumPy finds an array by its name, and by the name of its file.
        keys |= {f"{key}.npy" for key in keys}
        if again := keys & taken:
            raise PackError(f"two tensors would both be called {min(again)}; unpack to safetensors instead")
        taken |= keys


def _as_numpy(name: str, tensor: Tensor) -> dict[str, Array]:
    values = tensor.to_float32().reshape(tensor.array.shape) if tensor.dtype.name == "bfloat16" else tensor.array
    if not is_layer(tensor):
        return {name: values}
    rows = tensor.array.shape[0]
    mask = (tensor.bits != 0).reshape(rows, -1)
    index = np.int32 if mask.size <= np.iinfo(np.int32).max else np.int64
    indptr = np.zeros(rows + 1, index)
    np.cumsum(mask.sum(axis=1, dtype=index), out=indptr[1:])
    indices = np.flatnonzero(mask)
    indices %= mask.shape[1]
    indices = indices.astype(index)
    parts = (values.reshape(rows, -1)[mask], indices, indptr, np.array(values.shape))
    return {f"{name}.{part}": array for part, array in zip(_CSR_PARTS, parts, strict=True)}
