"""Which weights live: name the candidates, choose among them, count them."""

import zlib
from collections.abc import Callable, Mapping

import numpy as np
import torch
from torch import Tensor, nn

from asni.errors import AsniError

Masks = dict[str, Tensor]
"""Parameter name -> bool tensor, True where the weight lives."""

PRUNABLE_LAYERS = (
    nn.Linear,
    nn.Conv1d,
    nn.Conv2d,
    nn.Conv3d,
    nn.ConvTranspose1d,
    nn.ConvTranspose2d,
    nn.ConvTranspose3d,
)


def prunable(model: nn.Module) -> dict[str, Tensor]:
    """The weights of all convolution and linear layers by name; a shared weight is listed once.

    >>> list(prunable(nn.Sequential(nn.Linear(4, 3), nn.BatchNorm1d(3), nn.Linear(3, 2))))
    ['0.weight', '2.weight']
    """
    weights: dict[int, tuple[str, Tensor]] = {}
    for name, module in model.named_modules():
        if isinstance(module, PRUNABLE_LAYERS):
            weights.setdefault(id(module.weight), (f"{name}.weight".lstrip("."), module.weight))
    if not weights:
        raise AsniError(f"{type(model).__name__} has no convolution or linear layer, so there is nothing to prune.")
    return dict(weights.values())


def full_masks(model: nn.Module) -> Masks:
    """The masks of a dense network: every weight lives."""
    return {name: torch.ones_like(weight, dtype=torch.bool) for name, weight in prunable(model).items()}


def nonzero_masks(model: nn.Module) -> Masks:
    """The masks of a network that is sparse already: a weight lives where it is not zero."""
    return {name: weight.detach() != 0 for name, weight in prunable(model).items()}


def count(masks: Mapping[str, Tensor]) -> int:
    """How many weights live."""
    return sum(int(mask.sum()) for mask in masks.values())


def keep_largest(
    scores: Mapping[str, Tensor],
    keep: int,
    *,
    within: Mapping[str, Tensor] | None = None,
    by: Callable[[Tensor], Tensor] = torch.abs,
) -> Masks:
    """The masks of exactly `keep` weights: the largest `by(score)` over all layers at once, ties to the lower index.

    `within` admits only weights that live there. NaN or infinity is refused by the layer's name.

    >>> masks = keep_largest({"a": torch.tensor([0.5, -3.0]), "b": torch.tensor([[2.0], [0.5]])}, keep=3)
    >>> masks["a"].tolist(), masks["b"].tolist()
    ([True, True], [[True], [False]])
    """
    total = sum(score.numel() for score in scores.values())
    if not 0 <= keep <= total:
        raise AsniError(f"cannot keep {keep:,} of {total:,} weights.")
    flat = _flatten(scores, total, within, by)
    lives = _largest(flat, keep)
    masks, end = {}, 0
    for name, score in scores.items():
        start, end = end, end + score.numel()
        masks[name] = torch.from_numpy(lives[start:end].copy()).view(score.shape).to(score.device)
    return masks


def _flatten(
    scores: Mapping[str, Tensor],
    total: int,
    within: Mapping[str, Tensor] | None,
    by: Callable[[Tensor], Tensor],
) -> np.ndarray:
    double = any(score.dtype == torch.float64 for score in scores.values())
    flat, end = torch.empty(total, dtype=torch.float64 if double else torch.float32), 0
    for name, score in scores.items():
        start, end = end, end + score.numel()
        layer = flat[start:end].view(score.shape).copy_(by(score.detach()))
        if not np.isfinite(layer.numpy()).all():
            raise AsniError(
                f"{int((~torch.isfinite(layer)).sum()):,} of {layer.numel():,} values of layer '{name}' are NaN or "
                "infinite, so they cannot be ranked. The training has diverged: lower the learning rate."
            )
        if within is not None:
            layer[~within[name].cpu()] = -torch.inf
    return flat.numpy()


def _largest(flat: np.ndarray, keep: int) -> np.ndarray:
    if keep == 0:
        return np.zeros(flat.size, dtype=bool)
    # All values from rank `keep` upwards live; where its value is tied, the highest indices are one too many.
    threshold = np.partition(flat, flat.size - keep)[flat.size - keep]
    lives: np.ndarray = flat >= threshold
    surplus = int(np.count_nonzero(lives)) - keep
    if surplus:
        lives[np.flatnonzero(flat == threshold)[-surplus:]] = False
    return lives


def require_same_on_every_rank(masks: Mapping[str, Tensor]) -> None:
    """In a distributed training, stop if two ranks hold different masks."""
    if not (torch.distributed.is_available() and torch.distributed.is_initialized()):
        return
    packed = b"".join(np.packbits(mask.cpu().numpy()).tobytes() for mask in masks.values())
    checksums: list[int | None] = [None] * torch.distributed.get_world_size()
    torch.distributed.all_gather_object(checksums, zlib.crc32(packed))
    if len(set(checksums)) > 1:
        raise AsniError(
            f"the ranks hold different masks (checksums {checksums}). Their weights have drifted apart: "
            "every rank must start from the same values and see averaged gradients."
        )
