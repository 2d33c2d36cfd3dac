"""SynFlow: choose the mask before training, without data and without emptying a layer (Tanaka et al., 2020).

for k = 1 .. n:                                  n = 100
    s = theta_0 m * dR/d(theta_0 m)              R: the outputs for an image of ones, all values made positive
    m = the largest (keep / all)^(k/n) of s, over all layers
train theta_0 * m

Compared with ganguli-lab/Synaptic-Flow (commit 9dfa57a): scores equal, and masks for the same count
(tests/methods/official).
"""

from typing import TYPE_CHECKING, Unpack

import torch
from torch import nn

from asni.pruning import saliency
from asni.pruning.hold import Hold
from asni.pruning.layers import Layers, prunable
from asni.pruning.masks import Masks, count, full_masks, keep_largest

if TYPE_CHECKING:
    from asni.runs.run import Run
    from asni.training.trainer import Trainer


def synflow(trainer: "Trainer") -> "Run":
    """One round of training with the mask chosen from the initial values alone."""

    def make_pruner(model: nn.Module, optimizer: torch.optim.Optimizer) -> Hold:
        shape, layers = trainer.dataset.info.shape, trainer.recipe.pruning.layers
        return Hold(model, optimizer, synflow_masks(model, shape, trainer.keep, **layers))

    return trainer.train("synflow", make_pruner)


def synflow_masks(
    model: nn.Module, shape: tuple[int, ...], keep: int, iterations: int = 100, **layers: Unpack[Layers]
) -> Masks:
    """Masks that keep exactly `keep` weights, pruned by the same factor in each iteration, with new scores each time.

    >>> model = nn.Sequential(nn.Linear(8, 8), nn.Linear(8, 2))
    >>> count(synflow_masks(model, (8,), keep=10))
    10
    """
    masks = full_masks(prunable(model, **layers))
    total = count(masks)
    for iteration in range(1, iterations + 1):
        alive = round(total * (keep / total) ** (iteration / iterations))
        masks = keep_largest(saliency.synflow(model, shape, masks, **layers), alive, within=masks)
    return masks
