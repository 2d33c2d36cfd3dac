"""Weights whose elements are spread over processes: `DTensor`s, as FSDP2 and tensor parallelism make them.

A process works on its own elements, and counts are summed over the device mesh. Processes that hold the same elements
(replicas) count them once.
"""

import sys
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, TypeGuard

import torch
from torch import Tensor

from asni.errors import AsniError

if TYPE_CHECKING:
    from torch.distributed.device_mesh import DeviceMesh
    from torch.distributed.tensor import DTensor


def is_sharded(tensor: Tensor) -> "TypeGuard[DTensor]":
    """Whether the tensor is a `DTensor`."""
    # Importing the module takes long, and where there is a DTensor it has been imported.
    module = sys.modules.get("torch.distributed.tensor")
    return module is not None and isinstance(tensor, module.DTensor)


def any_sharded(tensors: Iterable[Tensor]) -> bool:
    return any(map(is_sharded, tensors))


def local(tensor: Tensor) -> Tensor:
    """The elements that this process holds, without their history; writing to them changes the tensor."""
    if not is_sharded(tensor):
        return tensor.detach()
    # Not through detach(): the write counter of a detached DTensor's elements is another one.
    with torch.no_grad():
        return tensor.to_local()


def from_local(elements: Tensor, like: Tensor) -> Tensor:
    """The tensor of which this process holds `elements`, spread like `like`."""
    if not is_sharded(like):
        return elements
    return type(like).from_local(
        elements, like.device_mesh, like.placements, run_check=False, shape=like.shape, stride=like.stride()
    )


def spread_like(tensor: Tensor, like: Tensor) -> Tensor:
    """A whole tensor, or one that is spread in another way, with every element where `like` has it."""
    if not is_sharded(like):
        return tensor.full_tensor() if is_sharded(tensor) else tensor
    if is_sharded(tensor):
        if (tensor.device_mesh, tensor.placements) == (like.device_mesh, like.placements):
            return tensor
        tensor = tensor.full_tensor()
    for dim, position in enumerate(positions(like)):
        if len(position) < tensor.shape[dim]:
            tensor = tensor.index_select(dim, position.to(tensor.device))
    return from_local(tensor.to(local(like).device), like)


def positions(tensor: Tensor) -> list[Tensor]:
    """For each dimension, the places in the whole tensor of the rows that this process holds."""
    return [
        torch.arange(rows.start, rows.stop) if isinstance(rows, range) else torch.tensor(rows, dtype=torch.int64)
        for rows in _rows(tensor)
    ]


def _rows(tensor: Tensor) -> list[Sequence[int]]:
    rows: list[Sequence[int]] = [range(size) for size in tensor.shape]
    if not is_sharded(tensor):
        return rows
    mesh = tensor.device_mesh
    for part, parts, placement in zip(_coordinate(mesh), mesh.shape, tensor.placements, strict=True):
        dim, splits = getattr(placement, "dim", None), getattr(placement, "split_factor", 1)
        if dim is None:
            continue
        if splits == 1:
            rows[dim] = _part(rows[dim], part, parts)
        else:
            # FSDP2 splits each of the parts that tensor parallelism will make.
            pieces = [_part(rows[dim], number, splits) for number in range(splits)]
            rows[dim] = [row for piece in pieces for row in _part(piece, part, parts)]
    return rows


def _part(rows: Sequence[int], number: int, parts: int) -> Sequence[int]:
    """One part of several, as `torch.chunk` splits; the last ones may be empty."""
    size = -(-len(rows) // parts)
    return rows[number * size : (number + 1) * size]


def require_known_rows(layers: Mapping[str, Tensor]) -> None:
    """Refuse, in all processes, a layer in which one holds other rows than its placements say."""
    unknown = sum_each(layers, lambda name: [*map(len, _rows(layers[name]))] != [*local(layers[name]).shape])
    for name, tensor in layers.items():
        if unknown[name] and is_sharded(tensor):
            raise AsniError(
                f"layer '{name}' is placed as {tensor.placements}, but {unknown[name]} processes hold local tensors of "
                "other shapes than this gives. Make it with distribute_tensor, fully_shard or parallelize_module."
            )


def refuse_partial(layers: Mapping[str, Tensor]) -> None:
    for name, tensor in layers.items():
        if is_sharded(tensor) and any(placement.is_partial() for placement in tensor.placements):
            raise AsniError(
                f"layer '{name}' is placed as {tensor.placements}: no process has its values, only summands of them. "
                "Redistribute it to Shard or Replicate placements first."
            )


def mesh_of_each(layers: Mapping[str, Tensor]) -> "dict[str, DeviceMesh]":
    """The mesh over which each layer is counted: its own, or for a tensor that every process has, the first one."""
    refuse_partial(layers)
    first = next(tensor.device_mesh for tensor in layers.values() if is_sharded(tensor))
    return {name: tensor.device_mesh if is_sharded(tensor) else first for name, tensor in layers.items()}


def counted_here(tensor: Tensor, mesh: "DeviceMesh") -> bool:
    """Whether this process is the one of its replicas that counts: the first along every mesh dimension."""
    if not is_sharded(tensor):
        return not any(_coordinate(mesh))
    return not any(
        part for part, placement in zip(_coordinate(mesh), tensor.placements, strict=True) if placement.is_replicate()
    )


def _coordinate(mesh: "DeviceMesh") -> list[int]:
    coordinate = mesh.get_coordinate()
    if coordinate is None:
        raise AsniError(f"a layer is spread over {mesh}, and process {torch.distributed.get_rank()} is not in it.")
    return list(coordinate)


def share_of(tensor: Tensor) -> Hashable:
    """Which share of a layer this process holds; equal in all processes that hold the same elements."""
    if not is_sharded(tensor):
        return None
    shared = zip(_coordinate(tensor.device_mesh), tensor.placements, strict=True)
    return str(tensor.placements), tuple(part for part, placement in shared if not placement.is_replicate())


def summed(parts: "Mapping[DeviceMesh, Tensor]") -> Tensor:
    """The sum of all processes' counts, each over its mesh; on the CPU."""
    for mesh, part in parts.items():
        for dim in range(mesh.ndim):
            torch.distributed.all_reduce(part, group=mesh.get_group(dim))
    return torch.stack([part.cpu() for part in parts.values()]).sum(0)


def zeros_on_each(meshes: "Iterable[DeviceMesh]", size: int) -> "dict[DeviceMesh, Tensor]":
    return {mesh: torch.zeros(size, dtype=torch.int64, device=mesh.device_type) for mesh in meshes}


def sum_each(layers: Mapping[str, Tensor], counted: Callable[[str], int]) -> dict[str, int]:
    """For each layer, the sum over all processes of what `counted(name)` finds in the elements of this one."""
    meshes = mesh_of_each(layers)
    parts = zeros_on_each(meshes.values(), len(layers))
    for number, (name, tensor) in enumerate(layers.items()):
        if counted_here(tensor, meshes[name]):
            parts[meshes[name]][number] = counted(name)
    return dict(zip(layers, summed(parts).tolist(), strict=True))
