"""SNIP: choose the mask before training, from one batch (Lee, Ajanthan and Torr, 2019).

s = |theta_0 * dL/dtheta_0|        the connection sensitivity, on the first batch
m = the largest of s, over all layers
train theta_0 * m

Batch norm uses the statistics of the batch, so the batch is not split: one process needs the memory for all of it.

Compared with mil-ad/snip (commit 883c805): scores and masks equal, with batch norm too (tests/methods/official).
"""

from typing import TYPE_CHECKING

import torch
from torch import nn

from asni.pruning import saliency
from asni.pruning.hold import Hold
from asni.pruning.masks import keep_largest

if TYPE_CHECKING:
    from asni.runs.run import Run
    from asni.training.trainer import Trainer


def snip(trainer: "Trainer") -> "Run":
    """One round of training with the mask chosen from the first training batch."""

    def make_pruner(model: nn.Module, optimizer: torch.optim.Optimizer) -> Hold:
        images, labels = next(trainer.batches(epoch=0))
        sensitivity = saliency.snip(model, images, labels, **trainer.recipe.pruning.layers)
        return Hold(model, optimizer, keep_largest(sensitivity, trainer.keep))

    return trainer.train("snip", make_pruner)
