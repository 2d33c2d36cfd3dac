"""One round of training with the recipe's sparsity, epochs, steps and layers."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch
from torch import nn

from asni.pruning.pruner import Pruner

if TYPE_CHECKING:
    from asni.runs.run import Run
    from asni.training.trainer import Trainer


def one_round(
    trainer: "Trainer", stage: str, pruner: Callable[..., Pruner], *, within_budget: bool = False, **options: Any
) -> "Run":
    """Train under `pruner(model, optimizer, sparsity=..., epochs=..., steps_per_epoch=..., **options)`.

    `within_budget` adds the recipe's budget of multiplications or milliseconds, if it has one.
    """

    def make_pruner(model: nn.Module, optimizer: torch.optim.Optimizer) -> Pruner:
        limits = trainer.limits.of(model) if within_budget else {}
        return pruner(
            model,
            optimizer,
            sparsity=trainer.sparsity,
            epochs=trainer.recipe.training.epochs,
            steps_per_epoch=trainer.steps_per_epoch,
            **trainer.recipe.pruning.layers,
            **limits,
            **options,
        )

    return trainer.train(stage, make_pruner)
