"""The tensors of any file of weights, their nonzeros, and what a sparsity would leave of them."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from math import prod
from pathlib import Path
from typing import Any

from asni.errors import PackError, UsageError, shown
from asni.packing.amenable import is_layer
from asni.packing.convert import from_torch
from asni.packing.dtypes import Tensor
from asni.packing.foreign import is_state_dict, load_torch, read_onnx, read_safetensors
from asni.packing.memory import Memory
from asni.packing.naming import naming
from asni.packing.ranking import largest_of_each
from asni.packing.reading import decoded
from asni.pruning.nearly_empty import is_nearly_empty

TORCH = (".pt", ".pth", ".bin", ".ckpt")
FOREIGN = (*TORCH, ".safetensors", ".onnx")
"""The endings of files that are not packed."""

USUAL_NAMES = ("state_dict", "model_state_dict", "model", "weights")
"""Where checkpoints hold the state_dict of their model."""


@dataclass(frozen=True)
class Held:
    """A tensor; names that share its memory are joined by " = "."""

    name: str
    shape: tuple[int, ...]
    dtype: str
    bytes: int
    nonzeros: int
    left: int | None = None
    """How many of the weights the sparsity would leave; None for what cannot be ranked: vectors, integers, float8."""

    @property
    def size(self) -> int:
        return prod(self.shape)

    @property
    def would_nearly_die(self) -> bool:
        """Whether almost no signal would pass."""
        return self.left is not None and is_nearly_empty(self.left, self.shape)


@dataclass(frozen=True)
class Contents:
    """What `asni inspect` shows of a file; see `contents`."""

    bytes: int
    size: int
    nonzeros: int
    sparsity: float | None
    tensors: tuple[Held, ...]

    @property
    def nearly_dead(self) -> list[str]:
        """The tensors that the sparsity would leave nearly empty."""
        return [each.name for each in self.tensors if each.would_nearly_die]

    def to_json(self) -> dict[str, Any]:
        return {**asdict(self), "nearly_dead": self.nearly_dead}


def contents(path: str | Path, sparsity: float | None = None, *, max_memory: int | None = None) -> Contents:
    """The tensors of a .safetensors, .onnx or packed file, or of a state_dict or checkpoint that `torch.save` wrote.

    With `sparsity`, also what pruning to it would leave: by one magnitude threshold over all floating-point tensors of
    two dimensions or more. A file does not say which of them are embeddings, so these take part. Files of PyTorch and
    safetensors are mapped into memory. A file may ask for `max_memory` bytes, by default for 256 MiB and 128 times its
    length.
    """
    path = Path(path)
    if sparsity is not None and not 0 < sparsity < 1:
        raise UsageError(f"sparsity must be a fraction above 0 and below 1, not {sparsity}.")
    with naming(path):
        tensors = _once(_tensors(path, max_memory))
        if not tensors:
            raise PackError("it holds no tensors")
        left = {} if sparsity is None else _left(tensors, sparsity)
        held = tuple(
            Held(name, tensor.array.shape, tensor.dtype.name, tensor.array.nbytes, tensor.nonzeros, left.get(name))
            for name, tensor in tensors.items()
        )
    size, nonzeros = sum(each.size for each in held), sum(each.nonzeros for each in held)
    return Contents(path.stat().st_size, size, nonzeros, sparsity, held)


def _left(tensors: Mapping[str, Tensor], sparsity: float) -> dict[str, int]:
    ranked = {
        name: tensor
        for name, tensor in tensors.items()
        if is_layer(tensor) and not tensor.dtype.name.startswith("float8")
    }
    return largest_of_each(ranked, round(sum(tensor.array.size for tensor in ranked.values()) * (1 - sparsity)))


def _tensors(path: Path, max_memory: int | None) -> Mapping[str, Tensor]:
    suffix = path.suffix.lower()
    memory = Memory(path, max_memory)
    if suffix in TORCH:
        return from_torch(_state_dict(load_torch(path)), memory)
    if suffix == ".safetensors":
        return read_safetensors(path, memory)
    return read_onnx(path, memory) if suffix == ".onnx" else decoded(path, memory).tensors


def _state_dict(content: object) -> Mapping[str, Any]:
    """The state_dict that a file holds: alone, or as one of the entries of a checkpoint."""
    if is_state_dict(content):
        return content
    entries = content.items() if isinstance(content, Mapping) else ()
    found = {str(name): entry for name, entry in entries if is_state_dict(entry) and entry}
    if len(found) == 1:
        return next(iter(found.values()))
    for name in USUAL_NAMES:
        if name in found:
            return found[name]
    if found:
        raise PackError(f"it holds several state_dicts: {shown(', '.join(found))}. Save the one of the model alone.")
    raise PackError("it holds no state_dict, which maps names to tensors. Save model.state_dict().")


def _once(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Each tensor once, under all names that share its memory."""
    names: dict[object, list[str]] = {}
    for name, tensor in tensors.items():
        memory = (tensor.array.ctypes.data, tensor.array.shape) if tensor.array.size else name
        names.setdefault(memory, []).append(name)
    return {" = ".join(same): tensors[same[0]] for same in names.values()}
