"""ASNI-I: one round of training, pruned after each epoch along a sigmoid (Damadi, Nouri and Pirsiavash).

Compared with sdamadi/image-classification (commit 91f7b48): the same weights for the same count, the same prunings left
out, and counts within the rounding of one weight per pruning (tests/methods/official).
"""

from typing import TYPE_CHECKING, Unpack

import torch
from torch import nn

from asni.errors import UsageError
from asni.methods.one_round import one_round
from asni.pruning.gradual import GradualMagnitude, Ranking, checked_sparsity
from asni.pruning.length import Length, length, update_interval
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
    optimiser's steps, so the loop does not change. The training's length is given by `epochs` and `steps_per_epoch`, or
    by `total_steps`. A training of one epoch, or one given by `total_steps` alone, follows the same curve in small
    prunings, every 100 steps or about 50 times. `GradualMagnitude` explains `score`, `floor`, `include` and `exclude`.

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
        epochs: int | None = None,
        steps_per_epoch: int | None = None,
        total_steps: int | None = None,
        beta: float = 0.5,
        gamma: float | None = None,
        least: float = 0.0,
        **ranking: Unpack[Ranking],
    ):
        sparsity = checked_sparsity(sparsity)
        whole = length(epochs, steps_per_epoch, total_steps)
        every = whole.per_epoch or update_interval(whole.steps)
        if gamma is not None:
            gamma *= whole.steps // every / epochs_of(whole)
        super().__init__(
            model, optimizer, schedule=Sigmoid(sparsity, beta, gamma, least), steps=whole, every=every, **ranking
        )

    @property
    def progress(self) -> str:
        if self.length is None or self.length.per_epoch is None:
            return super().progress
        return f"epoch {self.steps // self.every}/{self.prunings}"


def epochs_of(whole: Length) -> int:
    """The epochs of a training, which are the unit of gamma."""
    if whole.epochs is None and whole.per_epoch is None:
        raise UsageError("gamma is a number of epochs, so ASNI needs epochs= too.")
    return whole.epochs or whole.steps // (whole.per_epoch or whole.steps)


def asni_1(trainer: "Trainer") -> "Run":
    """One round of training with the recipe's schedule."""
    recipe = trainer.recipe
    curve = {"beta": recipe.pruning.beta, "gamma": recipe.gamma, "least": recipe.pruning.least}
    return one_round(trainer, "asni-1", ASNI, **curve, **recipe.pruning.ranking)
