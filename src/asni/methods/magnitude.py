"""Train, prune, fine-tune: Han et al. 2015, "Learning both weights and connections" (arXiv 1506.02626).

Not compared with a program; the global threshold is that of the lottery ticket, which was (see lottery.py).
"""

from typing import TYPE_CHECKING, Unpack

import torch
from torch import nn

from asni.methods.one_round import one_round
from asni.pruning.gradual import GradualMagnitude, Ranking, checked_sparsity
from asni.pruning.length import length, update_interval
from asni.pruning.schedules import Step

if TYPE_CHECKING:
    from asni.runs.run import Run
    from asni.training.trainer import Trainer


class Magnitude(GradualMagnitude):
    """Prunes once, halfway: the first half of the steps trains the dense network, the second half fine-tunes the rest.

    Han et al. train to the end and then fine-tune for about as long; here both phases share the steps of one training,
    so that the method costs one round. The optimiser and its learning rate do not change. Their threshold is a multiple
    of each layer's standard deviation; here it is global, as in ASNI-I.

    >>> model = nn.Linear(10, 10)
    >>> pruner = Magnitude(model, torch.optim.Adam(model.parameters()), sparsity=0.9, epochs=4, steps_per_epoch=250)
    >>> [pruner.schedule(pruning, pruner.prunings) for pruning in (23, 24)]
    [0.0, 0.9]
    """

    def __init__(
        self,
        model: nn.Module,
        optimizer: torch.optim.Optimizer,
        *,
        sparsity: float,
        at: float = 0.5,
        epochs: int | None = None,
        steps_per_epoch: int | None = None,
        total_steps: int | None = None,
        **ranking: Unpack[Ranking],
    ):
        sparsity = checked_sparsity(sparsity)
        whole = length(epochs, steps_per_epoch, total_steps)
        schedule, every = Step(sparsity, at), update_interval(whole.steps)
        super().__init__(model, optimizer, schedule=schedule, steps=whole, every=every, **ranking)


def magnitude(trainer: "Trainer") -> "Run":
    """One round of training, pruned once in the middle of it."""
    return one_round(trainer, "magnitude", Magnitude, within_budget=True, **trainer.recipe.pruning.ranking)
