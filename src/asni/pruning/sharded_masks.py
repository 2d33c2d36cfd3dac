"""The masks of layers that are spread over processes: those of one process, found without collecting the weights."""

from collections.abc import Callable, Iterator, Mapping
from functools import cached_property, partial
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from asni.pruning.selection import kth_largest, not_finite, ordered_bits
from asni.pruning.sharded import (
    counted_here,
    from_local,
    local,
    mesh_of_each,
    positions,
    require_known_rows,
    spread_like,
    sum_each,
)

if TYPE_CHECKING:
    from torch.distributed.device_mesh import DeviceMesh

PIECE = 2**17
"""How many elements are worked on at a time: few enough for a CPU's cache."""


def keep_largest_of_shards(
    scores: Mapping[str, Tensor],
    keep: int,
    within: Mapping[str, Tensor] | None,
    by: Callable[[Tensor], Tensor],
    dtype: torch.dtype,
) -> dict[str, Tensor]:
    """Masks of the `keep` largest `by(score)`, compared as `dtype`; ties go to the lower index in the whole tensor.

    Every process of the meshes has to call this. Each mask is spread like its score.
    """
    require_known_rows(scores)
    if keep == 0:
        return {name: torch.zeros_like(score, dtype=torch.bool) for name, score in scores.items()}
    shards = {
        name: _Shard(score, None if within is None else within[name], by, dtype) for name, score in scores.items()
    }
    _require_finite(scores, shards)
    keys = _by_mesh(scores, lambda name: shards[name].keys())
    lowest, ties_to_keep = kth_largest(keys, keep, torch.int64 if dtype == torch.float64 else torch.int32)
    ties = sum_each(scores, lambda name: shards[name].tied(lowest))
    masks = {}
    for name, shard in shards.items():
        kept = min(ties_to_keep, ties[name])
        ties_to_keep -= kept
        if 0 < kept < ties[name]:
            masks[name] = shard.mask(lowest, _index_of_tie(kept, scores, name, shard, lowest))
        else:
            masks[name] = shard.mask(lowest if kept else lowest + 1)
    return masks


class _Shard:
    """What this process holds of a layer's scores."""

    def __init__(self, score: Tensor, living: Tensor | None, by: Callable[[Tensor], Tensor], dtype: torch.dtype):
        self.score = score.detach()
        self.living = None if living is None else local(living).flatten().to(score.device)
        self.by = by
        self.dtype = dtype

    def values(self) -> Iterator[Tensor]:
        # `by` sees the whole layer: it need not work element by element.
        values = local(spread_like(self.by(self.score), self.score)).flatten()
        return (piece.to(self.dtype) for piece in values.split(PIECE))

    def keys(self) -> Iterator[Tensor]:
        """Integers in the order of the values; weights that do not live are below all others."""
        if self.living is None:
            yield from map(ordered_bits, self.values())
        else:
            for values, living in zip(self.values(), self.living.split(PIECE), strict=True):
                keys = ordered_bits(values)
                yield keys.masked_fill_(~living, torch.iinfo(keys.dtype).min)

    def tied(self, key: int) -> int:
        """How many of the keys are this one."""
        return int(sum((keys == key).sum() for keys in self.keys()))

    def indices_of_ties(self, key: int) -> Iterator[Tensor]:
        """Where in the whole layer the keys are this one."""
        for start, keys in zip(self._starts, self.keys(), strict=True):
            yield self._indices(torch.nonzero(keys == key).flatten() + start)

    def mask(self, lowest: int, last_tie: int | None = None) -> Tensor:
        """The weights from the key `lowest`; of those at it, only up to the index `last_tie`."""
        shard = local(self.score)
        mask = torch.empty(shard.numel(), dtype=torch.bool, device=shard.device)
        for start, keys in zip(self._starts, self.keys(), strict=True):
            mask[start : start + len(keys)] = keys >= lowest
            if last_tie is not None:
                ties = torch.nonzero(keys == lowest).flatten() + start
                mask[ties] = self._indices(ties) <= last_tie
        return from_local(torch.empty_like(shard, dtype=torch.bool).copy_(mask.view(shard.shape)), self.score)

    @property
    def _starts(self) -> range:
        return range(0, max(local(self.score).numel(), 1), PIECE)

    def _indices(self, places: Tensor) -> Tensor:
        """The indices in the flattened whole layer of places in the flattened shard."""
        indices = torch.zeros_like(places)
        along = torch.unravel_index(places, local(self.score).shape)
        for size, position, place in zip(self.score.shape, self._positions, along, strict=True):
            indices = indices * size + position[place]
        return indices

    @cached_property
    def _positions(self) -> list[Tensor]:
        return [position.to(local(self.score).device) for position in positions(self.score)]


def _by_mesh(
    layers: Mapping[str, Tensor], keys: Callable[[str], Iterator[Tensor]]
) -> "dict[DeviceMesh, Callable[[], Iterator[Tensor]]]":
    """The keys that this process counts, by the mesh over which the counts are summed."""
    meshes = mesh_of_each(layers)

    def counted(mesh: "DeviceMesh") -> Iterator[Tensor]:
        for name, tensor in layers.items():
            if meshes[name] == mesh and counted_here(tensor, mesh):
                yield from keys(name)

    return {mesh: partial(counted, mesh) for mesh in meshes.values()}


def _index_of_tie(number: int, layers: Mapping[str, Tensor], split: str, shard: _Shard, key: int) -> int:
    """The index in the layer `split` of the tie of this number, from the lowest index on."""

    def negated(name: str) -> Iterator[Tensor]:
        return (~indices for indices in shard.indices_of_ties(key)) if name == split else iter(())

    return ~kth_largest(_by_mesh(layers, negated), number, torch.int64)[0]


def _require_finite(scores: Mapping[str, Tensor], shards: Mapping[str, _Shard]) -> None:
    """All processes raise the same error, so that none waits for the others."""

    def bad(name: str) -> int:
        return int(sum((~torch.isfinite(values)).sum() for values in shards[name].values()))

    for name, found in sum_each(scores, bad).items():
        if found:
            raise not_finite(name, found, scores[name].numel())
