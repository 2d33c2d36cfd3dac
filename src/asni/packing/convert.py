"""Convert tensors from and to other formats: PyTorch, safetensors, compressed sparse rows."""

import json
import math
import struct
from collections.abc import Iterator, Mapping
from pathlib import Path
from pickle import UnpicklingError
from typing import TYPE_CHECKING, Any, TypeGuard
from zipfile import ZipFile, is_zipfile

import numpy as np

from asni.errors import PackError
from asni.files import write_atomically
from asni.packing.amenable import is_layer
from asni.packing.container import write_blocks
from asni.packing.dtypes import BY_SAFETENSORS, Array, Tensor, of_name

if TYPE_CHECKING:
    import torch

_HEADER_LIMIT = 100_000_000


def from_torch(state_dict: Mapping[str, "torch.Tensor"]) -> dict[str, Tensor]:
    """The tensors of a state_dict, bit for bit; contiguous CPU tensors are not copied."""
    import torch

    from asni.pruning.sharded import is_sharded

    integers = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}
    tensors = {}
    for name, tensor in state_dict.items():
        if isinstance(tensor, torch.Tensor) and is_sharded(tensor):
            raise PackError(
                f"{name} is spread over processes. Collect the weights first: get_model_state_dict of "
                "torch.distributed.checkpoint.state_dict with full_state_dict=True."
            )
        if not isinstance(tensor, torch.Tensor) or tensor.layout is not torch.strided or tensor.is_quantized:
            raise PackError(f"{name} is not a plain dense tensor; a packed file holds nothing else")
        try:
            dtype = of_name(str(tensor.dtype).removeprefix("torch."))
        except PackError as error:
            raise PackError(f"{name}: {error}") from error
        flat = tensor.detach().cpu().resolve_conj().resolve_neg().contiguous().reshape(-1)
        bits = flat.view(integers[dtype.bits.itemsize]).numpy().view(dtype.bits)
        tensors[name] = Tensor.from_bits(dtype, bits, tuple(tensor.shape))
    return tensors


def to_torch(tensors: Mapping[str, Tensor]) -> "dict[str, torch.Tensor]":
    """A state_dict on the CPU that shares the memory of `tensors`."""
    import torch

    state_dict = {}
    for name, tensor in tensors.items():
        flat = torch.from_numpy(tensor.array.reshape(-1))
        state_dict[name] = flat.view(getattr(torch, tensor.dtype.name)).reshape(tensor.array.shape)
    return state_dict


def load_torch(path: Path) -> object:
    """What `torch.save` wrote, without running code in the file."""
    import torch

    try:
        # Before version 1.6 torch wrote files that cannot be mapped into memory.
        return torch.load(path, map_location="cpu", weights_only=True, mmap=is_zipfile(path))
    except OSError as error:
        raise PackError(f"cannot read {path}: {error.strerror}") from error
    except Exception as error:
        # torch's own words advise to load the file with weights_only=False, which could run code in it.
        reason = f"it is damaged or of another format ({type(error).__name__})"
        if isinstance(error, UnpicklingError):
            reason = "it holds Python objects, such as a whole model; save model.state_dict() instead"
        raise PackError(
            f"{path} is neither a .safetensors file nor a state_dict that torch.load reads with weights_only=True: "
            f"{reason}"
        ) from error


def read_state_dict(path: Path) -> dict[str, Tensor]:
    """Read a state_dict that `torch.save` wrote."""
    content = load_torch(path)
    if not is_state_dict(content):
        raise PackError(f"{path} is not a state_dict: it must map names to tensors; save model.state_dict() alone")
    return from_torch(content)


def is_state_dict(content: object) -> "TypeGuard[Mapping[str, torch.Tensor]]":
    import torch

    return isinstance(content, Mapping) and all(isinstance(value, torch.Tensor) for value in content.values())


def read_safetensors(path: Path) -> dict[str, Tensor]:
    """The tensors of a safetensors file, memory-mapped, in the order of their data in the file."""
    try:
        data = np.memmap(path, np.uint8, "r")
    except (OSError, ValueError) as error:
        raise PackError(f"cannot read {path}: {error}") from error
    try:
        return _parse_safetensors(data)
    except (KeyError, TypeError, ValueError, AttributeError, RecursionError, struct.error) as error:
        raise PackError(f"{path} is not a safetensors file: {error!r}") from error


def read_onnx(path: Path) -> dict[str, Tensor]:
    """The initialisers of an ONNX model, with those that it stores in other files."""
    try:
        import onnx
    except ImportError as error:
        raise PackError(f"reading {path} needs ONNX: pip install 'asni[onnx]'") from error
    try:
        initialisers = onnx.load(path).graph.initializer
        return {each.name: _of_onnx(onnx.numpy_helper.to_array(each)) for each in initialisers}
    except OSError as error:
        raise PackError(f"cannot read {path}: {error.strerror}") from error
    except Exception as error:
        raise PackError(f"{path} is not an ONNX model, or is damaged: {error}") from error


def _of_onnx(array: Array) -> Tensor:
    dtype = of_name(array.dtype.name)
    # bfloat16 and float8 come in NumPy types of another package, with the same bits.
    return Tensor(dtype, array.view(dtype.numpy) if dtype.numpy.name != array.dtype.name else array)


def _parse_safetensors(data: Array) -> dict[str, Tensor]:
    (length,) = struct.unpack("<Q", data[:8].tobytes())
    if length > min(len(data) - 8, _HEADER_LIMIT):
        raise ValueError(f"the header claims {length} bytes")
    header = json.loads(data[8 : 8 + length].tobytes())
    header.pop("__metadata__", None)
    body = data[8 + length :]
    tensors = {}
    for name, item in sorted(header.items(), key=lambda item: item[1]["data_offsets"]):
        dtype, shape, (start, stop) = BY_SAFETENSORS.get(item["dtype"]), item["shape"], item["data_offsets"]
        if dtype is None:
            raise ValueError(f"{name} has the unknown element type {item['dtype']}")
        if not 0 <= start <= stop <= len(body) or stop - start != math.prod(shape) * dtype.numpy.itemsize:
            raise ValueError(f"the offsets of {name} do not match its shape or the file")
        tensors[name] = Tensor.from_bits(dtype, body[start:stop].view(np.ndarray), tuple(shape))
    return tensors


def write_safetensors(path: Path, tensors: Mapping[str, Tensor]) -> None:
    """Write a safetensors file with the tensors in the given order."""
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
    arrays: dict[str, Array] = {}
    for name, tensor in tensors.items():
        if tensor.dtype.name.startswith("float8"):
            raise PackError(f"NumPy has no {tensor.dtype.name}, the type of {name}; unpack to safetensors instead")
        values = tensor.to_float32().reshape(tensor.array.shape) if tensor.dtype.name == "bfloat16" else tensor.array
        own = {name: values}
        if is_layer(tensor):
            own = {f"{name}.{part}": array for part, array in _csr(values, tensor).items()}
        if taken := own.keys() & arrays.keys():
            raise PackError(f"two tensors would both be called {taken.pop()}; unpack to safetensors instead")
        arrays |= own

    def write_all(temporary: Path) -> None:
        # np.savez takes the names as keyword arguments, which would clash with its own parameters.
        with ZipFile(temporary, "w") as bundle:
            for name, array in arrays.items():
                with bundle.open(f"{name}.npy", "w", force_zip64=True) as file:
                    np.lib.format.write_array(file, array, allow_pickle=False)

    write_atomically(path, write_all)


def _csr(values: Array, tensor: Tensor) -> dict[str, Array]:
    rows = tensor.array.shape[0]
    mask = (tensor.bits != 0).reshape(rows, -1)
    index = np.int32 if mask.size <= np.iinfo(np.int32).max else np.int64
    indptr = np.concatenate([[0], np.cumsum(mask.sum(axis=1))])
    return {
        "data": values.reshape(rows, -1)[mask],
        "indices": np.nonzero(mask)[1].astype(index),
        "indptr": indptr.astype(index),
        "shape": np.array(values.shape, np.int64),
    }
