"""Read the tensors of files that are not packed: safetensors, ONNX, and what `torch.save` wrote. None is trusted."""

import json
import math
import struct
from collections import Counter
from collections.abc import Iterable, Mapping
from mmap import ACCESS_READ, mmap
from pathlib import Path
from pickle import UnpicklingError
from typing import TYPE_CHECKING, Any, TypeGuard
from zipfile import ZIP_STORED, ZipFile

import numpy as np

from asni.errors import PackError, shown
from asni.files.pickles import scan_pickle
from asni.packing.convert import HEADER_LIMIT, METADATA, from_torch
from asni.packing.dtypes import BY_SAFETENSORS, Array, Tensor, of_name
from asni.packing.layout import MAX_DIMENSIONS, are_lengths
from asni.packing.memory import Memory
from asni.packing.naming import naming

if TYPE_CHECKING:
    import torch
    from onnx import TensorProto

_LEGACY_PICKLES = 5
"""Torch's magic number, its version, the machine, the content, and the names of the storages that follow."""


def load_torch(path: Path) -> object:
    """What `torch.save` wrote, without running code in the file; the tensors are mapped into memory."""
    import torch

    try:
        # Before version 1.6 torch wrote files that cannot be mapped into memory.
        mapped = _is_zip(path)
        if not mapped or _is_stored(path):
            _require_plain_pickles(path, mapped)
            return torch.load(path, map_location="cpu", weights_only=True, mmap=mapped)
    except PackError:
        raise
    except OSError as error:
        raise PackError(f"cannot be read: {error.strerror}") from error
    except Exception as error:
        # torch's own words advise to load the file with weights_only=False, which could run code in it.
        reason = f"it is damaged or of another format ({type(error).__name__})"
        if isinstance(error, UnpicklingError):
            reason = "it holds Python objects, such as a whole model; save model.state_dict() instead"
        raise PackError(
            f"neither a .safetensors file nor a state_dict that torch.load reads with weights_only=True: {reason}"
        ) from error
    raise PackError("its content is compressed, which torch.save never does; a small file could take all memory")


def _is_zip(path: Path) -> bool:
    # As torch decides it: a file may be a zip file at its end alone.
    with path.open("rb") as file:
        return file.read(4) == b"PK\x03\x04"


def _require_plain_pickles(path: Path, mapped: bool) -> None:
    try:
        names = _globals_of_zip(path) if mapped else _globals_of_legacy(path)
    except ValueError as error:
        raise PackError(
            f"its pickle is not one of a state_dict ({shown(error)}); save model.state_dict() instead"
        ) from error
    for name in names:
        # torch allows it, and bytearray(n) takes n bytes of memory.
        if name.endswith(".bytearray"):
            raise PackError(f"it calls {shown(name)}, which no state_dict needs; a small file could take all memory")


def _globals_of_zip(path: Path) -> set[str]:
    import torch

    # By torch's own reader: another could take another record of a forged file for the pickle.
    return scan_pickle(torch._C.PyTorchFileReader(str(path)).get_record("data.pkl"))


def _globals_of_legacy(path: Path) -> set[str]:
    with path.open("rb") as file, mmap(file.fileno(), 0, access=ACCESS_READ) as data:
        return set[str]().union(*(scan_pickle(data) for _ in range(_LEGACY_PICKLES)))


def _is_stored(path: Path) -> bool:
    with ZipFile(path) as records:
        return all(record.compress_type == ZIP_STORED for record in records.infolist())


def read_state_dict(path: Path, memory: Memory) -> dict[str, Tensor]:
    """Read a state_dict that `torch.save` wrote."""
    content = load_torch(path)
    if not is_state_dict(content):
        raise PackError("not a state_dict: it must map names to tensors; save model.state_dict() alone")
    return from_torch(content, memory)


def is_state_dict(content: object) -> "TypeGuard[Mapping[str, torch.Tensor]]":
    import torch

    return isinstance(content, Mapping) and all(isinstance(value, torch.Tensor) for value in content.values())


def read_safetensors(path: Path, memory: Memory) -> dict[str, Tensor]:
    """The tensors of a safetensors file, memory-mapped, in the order of their data in the file."""
    try:
        return _parse_safetensors(np.memmap(path, np.uint8, "r"), memory)
    except (KeyError, TypeError, ValueError, AttributeError, RecursionError, struct.error) as error:
        raise PackError(f"not a safetensors file: {type(error).__name__}: {error}") from error
    except OSError as error:
        raise PackError(f"cannot be read: {error.strerror}") from error


def _parse_safetensors(data: Array, memory: Memory) -> dict[str, Tensor]:
    (length,) = struct.unpack("<Q", data[:8].tobytes())
    if length > min(len(data) - 8, HEADER_LIMIT):
        raise ValueError(f"the header claims {length} bytes")
    memory.take_json(length)
    header = json.loads(data[8 : 8 + length].tobytes(), object_pairs_hook=_each_once)
    header.pop(METADATA, None)
    body = data[8 + length :]
    tensors = {}
    for name, item in sorted(header.items(), key=lambda item: item[1]["data_offsets"]):
        dtype, shape, (start, stop) = BY_SAFETENSORS.get(item["dtype"]), item["shape"], item["data_offsets"]
        if dtype is None:
            raise ValueError(f"{shown(name)} has the unknown element type {shown(item['dtype'])}")
        if not are_lengths([*shape, start, stop]) or len(shape) > MAX_DIMENSIONS:
            raise ValueError(f"the shape or the offsets of {shown(name)} are not sizes")
        if not start <= stop <= len(body) or stop - start != math.prod(shape) * dtype.numpy.itemsize:
            raise ValueError(f"the offsets of {shown(name)} do not match its shape or the file")
        tensors[name] = Tensor.from_bits(dtype, body[start:stop].view(np.ndarray), tuple(shape))
    _take(tensors, memory)
    return tensors


def _take(tensors: Mapping[str, Tensor], memory: Memory) -> None:
    memory.take_tensors((tensor.array.size, tensor.array.itemsize) for tensor in tensors.values())


def _each_once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    content = dict(pairs)
    if len(content) < len(pairs):
        (name, _), *_ = Counter(name for name, _ in pairs).most_common(1)
        raise ValueError(f"{shown(name)} occurs twice")
    return content


def read_onnx(path: Path, memory: Memory) -> dict[str, Tensor]:
    """The initialisers of an ONNX model, with those that it stores in other files."""
    try:
        import onnx
    except ImportError as error:
        raise PackError("reading it needs ONNX: pip install 'asni[onnx]'") from error
    try:
        model = onnx.load(path, load_external_data=False)
        load_external_data(model.graph.initializer, path.parent, memory)
        pairs = [(each.name, _of_onnx(onnx.numpy_helper.to_array(each))) for each in model.graph.initializer]
        tensors = _each_once(pairs)
        _take(tensors, memory)
        return tensors
    except PackError:
        raise
    except OSError as error:
        raise PackError(f"cannot be read: {error.strerror}") from error
    except Exception as error:
        raise PackError(f"not an ONNX model, or damaged: {shown(error)}") from error


def load_external_data(tensors: "Iterable[TensorProto]", folder: Path, memory: Memory) -> None:
    """Load what the tensors of a model in this folder store in other files of the folder."""
    from onnx.external_data_helper import ExternalDataInfo, load_external_data_for_tensor, uses_external_data

    external = [each for each in tensors if uses_external_data(each)]
    descriptions = [ExternalDataInfo(each) for each in external]
    files = {each.location: _inside(folder, each.location) for each in descriptions}
    for file in files.values():
        with naming(file):
            memory.add_file(file)
    for description in descriptions:
        memory.take(description.length or files[description.location].stat().st_size)
    for each in external:
        load_external_data_for_tensor(each, str(folder))


def _inside(folder: Path, location: str) -> Path:
    file = folder / location
    if not file.resolve().is_relative_to(folder.resolve()):
        raise PackError(f"it names the file {shown(location)}, which is outside of its folder; copy it into the folder")
    return file


def _of_onnx(array: Array) -> Tensor:
    dtype = of_name(array.dtype.name)
    # bfloat16 and float8 come in NumPy types of another package, with the same bits.
    return Tensor(dtype, array.view(dtype.numpy) if dtype.numpy.name != array.dtype.name else array)
