"""ASNI-I: one round of training, pruned after each epoch along a sigmoid (Damadi, Nouri and Pirsiavash)."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import torch
from torch import nn

from asni.errors import UsageError
from asni.hold import Hold
from asni.masks import full_masks, keep_largest
from asni.schedules import Sigmoid, kept, last_pruning

if TYPE_CHECKING:
    from asni.runs import Run
    from asni.training import Trainer


class ASNI(Hold):
    """Makes a network sparse while your own loop trains it.

    After each epoch `e` but the last, a global magnitude threshold leaves the fraction
    `p = alpha * sigmoid((e - beta*E) / gamma)` of the prunable weights at zero, with alpha solved so that the
    training ends with exactly `round(prunable * (1 - sparsity))` of them alive. The optimiser's steps are counted,
    so the loop itself does not change.

    >>> model = nn.Linear(10, 10)
    >>> optimizer = torch.optim.Adam(model.parameters())
    >>> pruner = ASNI(model, optimizer, sparsity=0.9, epochs=5, steps_per_epoch=2)
    >>> for step in range(5 * 2):
    ...     loss = model(torch.ones(1, 10)).square().sum()
    ...     optimizer.zero_grad(); loss.backward(); optimizer.step()
    >>> int((model.weight != 0).sum())
    10
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
    ):
        if not 0 < sparsity < 1:
            raise UsageError(f"sparsity is the fraction of the weights to prune, above 0 and below 1, not {sparsity}.")
        if epochs < 1 or steps_per_epoch < 1:
            raise UsageError(f"epochs ({epochs}) and steps_per_epoch ({steps_per_epoch}) must be at least 1.")
        super().__init__(model, optimizer, full_masks(model))
        self.schedule = Sigmoid(sparsity, beta, gamma)
        self.epochs = epochs
        self.steps_per_epoch = steps_per_epoch
        self.steps = 0

    def after_step(self) -> None:
        self.steps += 1
        epochs_done, into_epoch = divmod(self.steps, self.steps_per_epoch)
        if into_epoch == 0 and epochs_done - 1 <= last_pruning(self.epochs):
            self.prune(self.schedule(epochs_done - 1, self.epochs))

    def prune(self, sparsity: float) -> None:
        """Lines 5 to 8 of the algorithm: the threshold, the mask, the weights."""
        prunable = sum(weight.numel() for weight in self.weights.values())
        self.masks = keep_largest(self.weights, kept(prunable, sparsity), within=self.masks)

    def state_dict(self) -> dict[str, Any]:
        return {**super().state_dict(), "steps": self.steps}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        super().load_state_dict(state)
        self.steps = state["steps"]


def asni_1(trainer: "Trainer") -> "Run":
    """One round of training with the recipe's schedule."""
    recipe = trainer.recipe

    def plug(model: nn.Module, optimizer: torch.optim.Optimizer) -> ASNI:
        return ASNI(
            model,
            optimizer,
            sparsity=recipe.final_sparsity,
            epochs=recipe.training.epochs,
            steps_per_epoch=trainer.steps_per_epoch,
            beta=recipe.pruning.beta,
            gamma=recipe.gamma,
        )

    return trainer.train("asni-1", plug)
