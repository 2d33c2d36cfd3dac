"""Controls for ASNI-II: its mask and its 2L numbers, with one thing randomised at a time.

The fourth control, the same mask with the original initial values, is a column of the paper's Table 2: `original`.
Not compared with a program: no paper has published them.
"""

from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

from asni.methods.amenable import amenable_network
from asni.methods.asni import asni_1
from asni.pruning.hold import Hold
from asni.pruning.masks import Masks

if TYPE_CHECKING:
    from asni.runs.run import Run
    from asni.training.trainer import Trainer

FRESH = 1 << 31
"""Added to the seed to get initial values that no seed of a comparison uses; torch uses only the lower 32 bits."""


def control_fresh(trainer: "Trainer") -> "Run":
    """ASNI-I's mask with new random initial values: is the mask alone enough?"""
    fresh = trainer.network(seed=trainer.seed + FRESH).state_dict()
    return _trained(trainer, "control-fresh", asni_1(trainer).masks, fresh)


def control_signs(trainer: "Trainer") -> "Run":
    """ASNI-II with each layer's centroids shuffled among its living weights: do the positions of the signs matter?"""
    model, masks = _amenable(trainer)
    generator = torch.Generator().manual_seed(trainer.seed)
    for name in masks:
        weight = model.get_parameter(name)
        centroids = weight.detach()[masks[name]]
        weight.detach()[masks[name]] = centroids[torch.randperm(len(centroids), generator=generator)]
    return _trained(trainer, "control-signs", masks, model.state_dict())


def control_mask(trainer: "Trainer") -> "Run":
    """ASNI-II with each layer's living weights, and their centroids, moved to random positions."""
    model, masks = _amenable(trainer)
    generator = torch.Generator().manual_seed(trainer.seed)
    for name in masks:
        weight = model.get_parameter(name)
        positions = torch.randperm(weight.numel(), generator=generator)
        masks[name] = masks[name].flatten()[positions].view(weight.shape)
        weight.detach().copy_(weight.detach().flatten()[positions].view(weight.shape))
    return _trained(trainer, "control-mask", masks, model.state_dict())


def _amenable(trainer: "Trainer") -> tuple[nn.Module, Masks]:
    """The network with ASNI-II's initial values, and its masks."""
    sparse = asni_1(trainer)
    return amenable_network(trainer, sparse)[0], sparse.masks


def _trained(trainer: "Trainer", stage: str, masks: Masks, start: dict[str, Tensor]) -> "Run":
    return trainer.train(stage, lambda model, optimizer: Hold(model, optimizer, masks), start=start)
