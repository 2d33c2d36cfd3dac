"""Masks: which weights live. Choose, count and check them."""

import math
import zlib
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from numbers import Integral, Real
from typing import TypeVar

import numpy as np
import torch
from torch import Tensor, nn

from asni.errors import AsniError, UsageError
from asni.pruning.layers import plain
from asni.pruning.nearly_empty import is_nearly_empty
from asni.pruning.schedules import kept
from asni.pruning.selection import not_finite
from asni.pruning.sharded import any_sharded, local, share_of, spread_like, sum_each
from asni.pruning.sharded_masks import keep_largest_of_shards

Masks = dict[str, Tensor]
"""Parameter name -> bool tensor, True where the weight lives."""

Value = TypeVar("Value")


def full_masks(weights: Mapping[str, Tensor]) -> Masks:
    """The masks of a dense network: every weight lives."""
    return {name: torch.ones_like(weight, dtype=torch.bool) for name, weight in weights.items()}


def nonzero_masks(weights: Mapping[str, Tensor]) -> Masks:
    """The masks of a network that is already sparse: its nonzero weights live."""
    return {name: weight.detach() != 0 for name, weight in weights.items()}


def renamed(masks: Mapping[str, Value], names: Iterable[str]) -> dict[str, Value]:
    """The masks, or other values, under these names.

    They may differ by what wrappers such as DDP and torch.compile put into names.

    >>> list(renamed({"_orig_mod.head.weight": torch.ones(2)}, ["module.head.weight"]))
    ['module.head.weight']
    """
    exact = set(names)
    known = {plain(name): name for name in exact}
    return {name if name in exact else known.get(plain(name), name): mask for name, mask in masks.items()}


def checked_masks(masks: Mapping[str, Tensor]) -> Masks:
    """The masks as bool tensors: a weight lives where its mask is not zero.

    >>> checked_masks({"a": torch.tensor([0.0, 0.5])})
    {'a': tensor([False,  True])}
    """
    wrong = (
        next((mask for mask in masks.values() if not isinstance(mask, Tensor)), None)
        if isinstance(masks, Mapping)
        else masks
    )
    if wrong is not None:
        raise UsageError(f"masks are a dict of the names of weights and tensors, not {type(wrong).__name__}.")
    return {name: mask if mask.dtype == torch.bool else mask != 0 for name, mask in masks.items()}


def weights_of(model: nn.Module, masks: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The weights that `masks` apply to; raises an error if the masks do not fit the model."""
    known = dict(model.named_parameters(remove_duplicate=False))
    weights: dict[str, Tensor] = {name: known[name] for name in masks if name in known}
    require_fitting(masks, weights)
    return weights


def require_fitting(masks: Mapping[str, Tensor], weights: Mapping[str, Tensor]) -> None:
    """Raise an error that names the first layer in which masks and weights differ."""
    for name in [*weights, *masks]:
        here, there = (shape_of(tensors.get(name)) for tensors in (weights, masks))
        if here != there:
            raise AsniError(
                f"the masks do not fit the network: layer '{name}' is {here} in the network and {there} in the masks."
            )


def shape_of(value: Tensor | Sequence[int] | None) -> str:
    """The shape of a tensor, or a shape itself, as text."""
    shape = value.shape if isinstance(value, Tensor) else value
    return "missing" if shape is None else "x".join(map(str, shape))


def weight_count(weights: Mapping[str, Tensor]) -> int:
    """The number of weights of all layers."""
    return sum(weight.numel() for weight in weights.values())


def count(masks: Mapping[str, Tensor]) -> int:
    """How many weights live."""
    return sum(count_each(masks).values())


def count_each(masks: Mapping[str, Tensor]) -> dict[str, int]:
    """How many weights live in each layer."""
    if any_sharded(masks.values()):
        return sum_each(masks, lambda name: int(local(masks[name]).sum()))
    return _at_once({name: mask.sum() for name, mask in masks.items()})


def nonzeros_each(weights: Mapping[str, Tensor]) -> dict[str, int]:
    """How many weights of each layer are not zero."""
    if any_sharded(weights.values()):
        return sum_each(weights, lambda name: int(torch.count_nonzero(local(weights[name]))))
    return _at_once({name: torch.count_nonzero(weight.detach()) for name, weight in weights.items()})


def _at_once(counts: Mapping[str, Tensor]) -> dict[str, int]:
    """Waits for a GPU once for all layers, not once for each."""
    if not counts:
        return {}
    device = next(iter(counts.values())).device
    numbers = torch.stack([count.to(device, non_blocking=True) for count in counts.values()]).tolist()
    return dict(zip(counts, numbers, strict=True))


def nearly_empty(masks: Mapping[str, Tensor]) -> dict[str, int]:
    """The layers that almost no signal passes through, and their living weights (see `is_nearly_empty`).

    >>> nearly_empty({"a": torch.tensor([[True, False]] + 19 * [[False, False]]), "b": torch.tensor([[True, False]])})
    {'a': 1}
    """
    living = count_each(masks)
    return {name: alive for name, alive in living.items() if is_nearly_empty(alive, masks[name].shape)}


def share_of_zeros(weights: Mapping[str, Tensor], within: Mapping[str, Tensor] | None = None) -> float:
    """The fraction of zeros in a network that was pruned before; a layer of zeros alone is an initial value.

    `within` counts only the zeros that should live.

    >>> share_of_zeros({"pruned": torch.tensor([1.0, 0.0]), "gate": torch.zeros(6), "dense": torch.ones(2)})
    0.1
    """
    nonzero = nonzero_masks(weights)
    zeros = {name: ~mask if within is None else ~mask & within[name] for name, mask in nonzero.items()}
    found = count_each(zeros)
    partly = sum(found[name] for name, alive in count_each(nonzero).items() if alive)
    return partly / max(weight_count(weights), 1)


def keep_largest(
    scores: Mapping[str, Tensor],
    keep: int,
    *,
    within: Mapping[str, Tensor] | None = None,
    by: Callable[[Tensor], Tensor] = torch.abs,
    floor: float | None = None,
) -> Masks:
    """Masks that keep exactly `keep` weights: the largest `by(score)` over all layers; ties go to the lower index.

    `within` restricts the choice to weights that live in it. `floor` is the minimum to keep in each layer (see
    `floor_counts`). NaN or infinity raises an error that names the layer.

    Scores that are `DTensor`s (FSDP2, tensor parallelism) give the masks of one process, spread like them. All
    processes of their mesh have to call this. The scores are not collected.

    >>> masks = keep_largest({"a": torch.tensor([0.5, -3.0]), "b": torch.tensor([[2.0], [0.5]])}, keep=3)
    >>> masks["a"].tolist(), masks["b"].tolist()
    ([True, True], [[True], [False]])
    """
    if within is not None:
        within = {name: spread_like(within[name], score) for name, score in scores.items()}
    candidates = weight_count(scores) if within is None else count(within)
    if not 0 <= keep <= candidates:
        raise AsniError(f"cannot keep {keep:,} of {candidates:,} weights.")
    if floor is not None:
        sizes = {name: score.numel() for name, score in scores.items()}
        reserved = _largest_of_each(scores, floor_counts(sizes, floor, keep), within, by)
        living = full_masks(scores) if within is None else within
        rest = {name: living[name].to(mask.device) & ~mask for name, mask in reserved.items()}
        others = keep_largest(scores, keep - count(reserved), within=rest, by=by)
        return {name: mask | others[name] for name, mask in reserved.items()}
    dtype = common_dtype(scores)
    if any_sharded(scores.values()):
        return keep_largest_of_shards(scores, keep, within, by, dtype)

    def value(score: Tensor) -> Tensor:
        return by(score.detach()).to(dtype)

    lowest = _value_of_rank(keep, scores, within, value)
    masks = {name: value(score) >= lowest for name, score in scores.items()}
    if within is not None:
        masks = {name: mask & within[name].to(mask.device) for name, mask in masks.items()}
    _drop_ties(masks, scores, lowest, count(masks) - keep, value)
    return masks


def common_dtype(scores: Mapping[str, Tensor]) -> torch.dtype:
    """The dtype in which all layers are compared.

    Rounded to a coarser one, the threshold would separate other weights in that layer.
    """
    return torch.float64 if any(score.dtype == torch.float64 for score in scores.values()) else torch.float32


def floor_counts(sizes: Mapping[str, int], floor: float, keep: int) -> dict[str, int]:
    """How many weights `floor` keeps in layers of these sizes: a fraction of them (float), or a number (int).

    Raises an error if they add up to more than `keep`.

    >>> floor_counts({"a": 300, "b": 10}, 0.05, keep=100)
    {'a': 15, 'b': 1}
    """
    whole = isinstance(floor, Integral)
    is_number = isinstance(floor, Real | float) and not isinstance(floor, bool)
    if not is_number or not (floor >= 0 if whole else 0 <= floor <= 1):
        raise UsageError(
            f"floor must be a fraction of each layer, from 0.0 to 1.0, or a number of weights, not {floor!r}."
        )
    # Minus a tolerance, so that a rounding error does not turn 7 % of 100 into 8 weights.
    counts = {
        name: min(size, int(floor) if whole else math.ceil(float(floor) * size - 1e-9)) for name, size in sizes.items()
    }
    if sum(counts.values()) > keep:
        raise UsageError(
            f"floor = {floor} keeps {sum(counts.values()):,} weights in {len(counts)} layers, "
            f"but the sparsity leaves only {keep:,}. Lower the floor or the sparsity."
        )
    return counts


def weights_to_keep(weights: Mapping[str, Tensor], sparsity: float, floor: float | None = None) -> int:
    """How many of the weights live at this sparsity; refuses one that leaves too few for one in each layer, or for the
    floor.
    """
    total, layers = weight_count(weights), sum(weight.numel() > 0 for weight in weights.values())
    keep = kept(total, sparsity)
    if keep < max(layers, 1):
        most = f" At most {1 - layers / total:.12g} leaves one in each." if total > layers else ""
        raise UsageError(
            f"a sparsity of {sparsity} leaves {keep:,} of the {total:,} prunable weights, too few for "
            f"{layers} layer{'s' * (layers != 1)}.{most}"
        )
    if floor is not None:
        floor_counts({name: weight.numel() for name, weight in weights.items()}, floor, keep)
    return keep


def _largest_of_each(
    scores: Mapping[str, Tensor],
    counts: Mapping[str, int],
    within: Mapping[str, Tensor] | None,
    by: Callable[[Tensor], Tensor],
) -> Masks:
    masks: Masks = {}
    for name, score in scores.items():
        living = None if within is None else {name: within[name]}
        most = score.numel() if living is None else count(living)
        masks |= keep_largest({name: score}, min(counts[name], most), within=living, by=by)
    return masks


def _value_of_rank(
    keep: int,
    scores: Mapping[str, Tensor],
    within: Mapping[str, Tensor] | None,
    value: Callable[[Tensor], Tensor],
) -> float:
    """The smallest value that is kept: the `keep`-th largest."""
    if keep == 0:
        return math.inf
    # NumPy's partition is far faster than topk or kthvalue, but slow if most values are equal. In a network that is
    # already sparse most are zero, so zeros are counted and left out.
    nonzeros: np.ndarray = torch.empty(weight_count(scores), dtype=value(torch.empty(0)).dtype).numpy()
    zeros = end = 0
    for name, score in scores.items():
        values = value(score).cpu()
        _require_finite(name, values)
        values = values.flatten() if within is None else values[within[name].cpu()]
        found = int(torch.count_nonzero(values))
        nonzeros[end : end + found] = values if found == len(values) else values[values != 0]
        end, zeros = end + found, zeros + len(values) - found
    nonzeros = nonzeros[:end]
    positive = int(np.count_nonzero(nonzeros > 0))
    if positive < keep <= positive + zeros:
        return 0.0
    place = end - (keep if keep <= positive else keep - zeros)
    nonzeros.partition(place)
    return float(nonzeros[place])


def _require_finite(name: str, values: Tensor) -> None:
    if not np.isfinite(values.numpy()).all():
        raise not_finite(name, int((~torch.isfinite(values)).sum()), values.numel())


def _drop_ties(
    masks: Masks, scores: Mapping[str, Tensor], tied: float, surplus: int, value: Callable[[Tensor], Tensor]
) -> None:
    """Of the weights tied at the threshold, prune the `surplus` with the highest indices."""
    for name in reversed(masks):
        if surplus <= 0:
            return
        ties = torch.nonzero(masks[name].flatten() & (value(scores[name]).flatten() == tied)).flatten()
        dropped = ties[-surplus:]
        masks[name][torch.unravel_index(dropped, masks[name].shape)] = False
        surplus -= len(dropped)


def require_same_on_every_rank(masks: Mapping[str, Tensor]) -> None:
    """In distributed training, raise an error if ranks that share weights hold different masks of them."""
    if not (torch.distributed.is_available() and torch.distributed.is_initialized()):
        return
    checksums: dict[Hashable, int] = {}
    for mask in masks.values():
        share = share_of(mask)
        checksums[share] = zlib.crc32(np.packbits(local(mask).cpu().numpy()).tobytes(), checksums.get(share, 0))
    gathered: list[dict[Hashable, int]] = [{}] * torch.distributed.get_world_size()
    torch.distributed.all_gather_object(gathered, checksums)
    for share in dict.fromkeys(share for each in gathered for share in each):
        same = [each[share] for each in gathered if share in each]
        if len(set(same)) > 1:
            raise AsniError(
                f"the ranks hold different masks (checksums {same}), so their weights differ. "
                "Every rank must start from the same weights and use averaged gradients."
            )
