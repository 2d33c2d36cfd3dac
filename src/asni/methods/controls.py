"""What ASNI-II is worth: its mask and its 2L numbers, with one thing spoilt at a time.

The fourth control, the same mask with the original initial values, is a column of the paper's own table: `original`.
"""

from typing import TYPE_CHECKING

import torch
from torch import Tensor

from asni.hold import Hold
from asni.masks import Masks
from asni.methods.amenable import Amenable, amenable
from asni.methods.asni import asni_1

if TYPE_CHECKING:
    from asni.runs import Run
    from asni.training import Trainer

FRESH = 1 << 31
"""Added to the seed for initial values that no seed of a comparison has; torch heeds the lower 32 bits alone."""


def control_fresh(trainer: "Trainer") -> "Run":
    """ASNI-I's mask with initial values drawn afresh: is it the mask alone?"""
    fresh = trainer.network(seed=trainer.seed + FRESH).state_dict()
    return _trained(trainer, "control-fresh", asni_1(trainer).masks, fresh)


def control_signs(trainer: "Trainer") -> "Run":
    """ASNI-II with each layer's centroids dealt out anew among its living weights: does the place of a sign matter?"""
    numbers, lots = _numbers(trainer), torch.Generator().manual_seed(trainer.seed)
    start = dict(numbers.theta_0)
    for name, lives in numbers.mask.items():
        centroids = start[name][lives]
        start[name][lives] = centroids[torch.randperm(len(centroids), generator=lots)]
    return _trained(trainer, "control-signs", numbers.mask, start)


def control_mask(trainer: "Trainer") -> "Run":
    """ASNI-II with each layer's living weights, and their centroids, moved to places drawn by lot."""
    numbers, lots = _numbers(trainer), torch.Generator().manual_seed(trainer.seed)
    start, masks = dict(numbers.theta_0), {}
    for name, lives in numbers.mask.items():
        places = torch.randperm(lives.numel(), generator=lots)
        masks[name] = lives.flatten()[places].view(lives.shape)
        start[name] = start[name].flatten()[places].view(lives.shape)
    return _trained(trainer, "control-mask", masks, start)


def _numbers(trainer: "Trainer") -> Amenable:
    sparse = asni_1(trainer)
    return amenable(trainer.network(sparse.weights), sparse.masks)


def _trained(trainer: "Trainer", stage: str, masks: Masks, start: dict[str, Tensor]) -> "Run":
    return trainer.train(stage, lambda model, optimizer: Hold(model, optimizer, masks), start=start)
