"""Gradual magnitude pruning: Zhu and Gupta 2017, "To prune, or not to prune" (arXiv 1710.01878).

Not compared with a program; a test compares the schedule with equation 1 of the paper.
"""

from typing import TYPE_CHECKING, Unpack

import torch
from torch import nn

from asni.methods.one_round import one_round
from asni.pruning.gradual import GradualMagnitude, Ranking, checked_sparsity
from asni.pruning.length import length, update_interval
from asni.pruning.schedules import cubic

if TYPE_CHECKING:
    from asni.runs.run import Run
    from asni.training.trainer import Trainer


class GMP(GradualMagnitude):
    """Prunes every 100 steps to `s_t = sparsity * (1 - (1 - (t - t_0) / (n dt))^3)`.

    Zhu and Gupta leave t_0 and n to the user; the ImageNet baseline in Kusupati et al. 2020 prunes from 20 % to 80 % of
    the training. Zhu and Gupta prune every layer to the same sparsity; here the threshold is global, as in ASNI-I, so
    that the methods differ in one thing at a time and end with the same number of weights.

    >>> model = nn.Linear(10, 10)
    >>> pruner = GMP(model, torch.optim.Adam(model.parameters()), sparsity=0.9, epochs=50, steps_per_epoch=1000)
    >>> pruner.every, pruner.prunings
    (100, 500)
    """

    def __init__(
        self,
        model: nn.Module,
        optimizer: torch.optim.Optimizer,
        *,
        sparsity: float,
        begin: float = 0.2,
        end: float = 0.8,
        every: int | None = None,
        epochs: int | None = None,
        steps_per_epoch: int | None = None,
        total_steps: int | None = None,
        **ranking: Unpack[Ranking],
    ):
        sparsity = checked_sparsity(sparsity)
        whole = length(epochs, steps_per_epoch, total_steps)
        super().__init__(
            model,
            optimizer,
            schedule=cubic(sparsity, begin, end),
            steps=whole,
            every=update_interval(whole.steps) if every is None else every,
            **ranking,
        )


def gmp(trainer: "Trainer") -> "Run":
    """One round of training, pruned along the cubic schedule."""
    pruning = trainer.recipe.pruning
    every = pruning.every if isinstance(pruning.every, int) else None
    return one_round(trainer, "gmp", GMP, every=every, within_budget=True, **pruning.ranking)
