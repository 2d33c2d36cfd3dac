"""A random mask: the control for every method that chooses a mask.

Not compared with a program: no paper has published it.
"""

from typing import TYPE_CHECKING

import torch
from torch import nn

from asni.pruning.hold import Hold
from asni.pruning.masks import keep_largest

if TYPE_CHECKING:
    from asni.runs.run import Run
    from asni.training.trainer import Trainer


def random_mask(trainer: "Trainer") -> "Run":
    """One round of training with a random mask; every weight is equally likely to live, in all layers."""

    def make_pruner(model: nn.Module, optimizer: torch.optim.Optimizer) -> Hold:
        generator = torch.Generator().manual_seed(trainer.seed)
        weights = trainer.prunable(model)
        scores = {name: torch.rand(weight.shape, generator=generator) for name, weight in weights.items()}
        return Hold(model, optimizer, keep_largest(scores, trainer.keep))

    return trainer.train("random", make_pruner)
