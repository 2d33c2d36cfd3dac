"""ASNI-I: one round of training, pruned after each epoch along a sigmoid (Damadi, Nouri and Pirsiavash).

Compared with sdamadi/image-classification (commit 91f7b48): the same weights for the same count, the same prunings left
out, and counts within the rounding of one weight per pruning (tests/methods/official).
"""

from typing import TYPE_CHECKING, Unpack

import torch
from torch import nn

from asni.methods.one_round import one_round
from asni.pruning.gradual import GradualMagnitude, Ranking, total_steps
from asni.pruning.schedules import Sigmoid

if TYPE_CHECKING:
    from asni.runs.run import Run
    from asni.training.trainer import Trainer


class ASNI(GradualMagnitude):
    """Makes a network sparse in one round of training, in your own training loop.

    After each epoch `e` except the last, a global magnitude threshold sets the fraction
    `p = alpha * sigmoid((e - beta*E) / gamma)` of the prunable weights to zero. alpha is solved so that the training
    ends with exactly `round(prunable * (1 - sparsity))` living weights. `least` leaves out prunings of at most this
    fraction of the living weights, as the authors' program does with 0.001 (see `Sigmoid`). The pruner counts the
    optimiser's steps, so the loop does not change. `GradualMagnitude` explains `score`, `floor`, `include` and
    `exclude`.

    Lines of the algorithm: `Hold` is line 3 (the gradient times the mask), `Sigmoid` is line 5 (p), and
    `GradualMagnitude.prune` is lines 6 to 8 (the threshold, the mask, the weights).

    >>> model = nn.Linear(10, 10)
    >>> optimizer = torch.optim.Adam(model.parameters())
    >>> pruner = ASNI(model, optimizer, sparsity=0.9, epochs=5, steps_per_epoch=2)
    >>> for step in range(5 * 2):
    ...     loss = model(torch.ones(1, 10)).square().sum()
    ...     optimizer.zero_grad(); loss.backward(); optimizer.step()
    >>> pruner
    ASNI(epoch 5/5, 90 % pruned, 10 alive)
    """

    def __init__(
        self,
        model: nn.Module,
        optimizer: torch.optim.Optimizer,
        *,
        sparsity: float,
        epochs: int,
        steps_per_epoch: int,
        beta: float = 0.5,
        gamma: float | None = None,
        least: float = 0.0,
        **ranking: Unpack[Ranking],
    ):
        super().__init__(
            model,
            optimizer,
            schedule=Sigmoid(sparsity, beta, gamma, least),
            steps=total_steps(epochs, steps_per_epoch),
            every=steps_per_epoch,
            **ranking,
        )

    @property
    def progress(self) -> str:
        return f"epoch {self.steps // self.every}/{self.prunings}"


def asni_1(trainer: "Trainer") -> "Run":
    """One round of training with the recipe's schedule."""
    recipe = trainer.recipe
    curve = {"beta": recipe.pruning.beta, "gamma": recipe.gamma, "least": recipe.pruning.least}
    return one_round(trainer, "asni-1", ASNI, **curve, **recipe.pruning.ranking)
