"""The control of every method that chooses a mask: one that was drawn by lot."""

from typing import TYPE_CHECKING

import torch
from torch import nn

from asni.pruning.hold import Hold
from asni.pruning.masks import keep_largest

if TYPE_CHECKING:
    from asni.runs.run import Run
    from asni.training.trainer import Trainer


def random_mask(trainer: "Trainer") -> "Run":
    """One round of training of as many weights as asked, each of all layers as likely to live as any other."""

    def make_pruner(model: nn.Module, optimizer: torch.optim.Optimizer) -> Hold:
        lots = torch.Generator().manual_seed(trainer.seed)
        lot = {name: torch.rand(weight.shape, generator=lots) for name, weight in trainer.prunable(model).items()}
        return Hold(model, optimizer, keep_largest(lot, trainer.keep))

    return trainer.train("random", make_pruner)
