"""What ASNI-II is worth: its mask and its 2L numbers, with one thing spoilt at a time.

The fourth control, the same mask with the original initial values, is a column of the paper's own table: `original`.
"""

from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

from asni.methods.amenable import amenable
from asni.methods.asni import asni_1
from asni.pruning.hold import Hold
from asni.pruning.masks import Masks

if TYPE_CHECKING:
    from asni.runs.run import Run
    from asni.training.trainer import Trainer

FRESH = 1 << 31
"""Added to the seed for initial values that no seed of a comparison has; torch heeds the lower 32 bits alone."""


def control_fresh(trainer: "Trainer") -> "Run":
    """ASNI-I's mask with initial values drawn afresh: is it the mask alone?"""
    fresh = trainer.network(seed=trainer.seed + FRESH).state_dict()
    return _trained(trainer, "control-fresh", asni_1(trainer).masks, fresh)


def control_signs(trainer: "Trainer") -> "Run":
    """ASNI-II with each layer's centroids dealt out anew among its living weights: does the place of a sign matter?"""
    model, masks = _amenable(trainer)
    lots = torch.Generator().manual_seed(trainer.seed)
    for name in masks:
        weight = model.get_parameter(name)
        centroids = weight.detach()[masks[name]]
        weight.detach()[masks[name]] = centroids[torch.randperm(len(centroids), generator=lots)]
    return _trained(trainer, "control-signs", masks, model.state_dict())


def control_mask(trainer: "Trainer") -> "Run":
    """ASNI-II with each layer's living weights, and their centroids, moved to places drawn by lot."""
    model, masks = _amenable(trainer)
    lots = torch.Generator().manual_seed(trainer.seed)
    for name in masks:
        weight = model.get_parameter(name)
        places = torch.randperm(weight.numel(), generator=lots)
        masks[name] = masks[name].flatten()[places].view(weight.shape)
        weight.detach().copy_(weight.detach().flatten()[places].view(weight.shape))
    return _trained(trainer, "control-mask", masks, model.state_dict())


def _amenable(trainer: "Trainer") -> tuple[nn.Module, Masks]:
    """The network with ASNI-II's initial values, and its masks."""
    sparse = asni_1(trainer)
    model = trainer.network(sparse.weights)
    return model, amenable(model, sparse.masks).mask


def _trained(trainer: "Trainer", stage: str, masks: Masks, start: dict[str, Tensor]) -> "Run":
    return trainer.train(stage, lambda model, optimizer: Hold(model, optimizer, masks), start=start)
