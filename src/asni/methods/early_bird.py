"""Early-Bird tickets: the mask is drawn as soon as it stops changing (You et al., 2020); here over single weights.

    after each epoch:
        m_e = the largest |theta|, over all layers
        put the distance between m_e and m_(e-1) into a queue of the last 5
        if the largest distance in the queue is below 0.1: draw m_e, and continue training theta * m_e

The distance is the fraction of the kept weights that are new. At a sparsity of 50 % it equals the published distance,
the fraction of all positions at which the masks differ. If only 3 % are kept, the published distance would be below 0.1
from the start. A mask that never becomes stable is drawn after the second-to-last epoch. The training continues from
there, so early-bird costs one round.

Compared with RICE-EIC/Early-Bird-Tickets (commit 4a16ae0): masks equal for the same count, tickets drawn 1 or 2 epochs
later, since the queue is that of the paper's Algorithm 1; the program compares m_e with each of the 4 masks before it
(tests/methods/official).
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Unpack

import torch
from torch import Tensor, nn

from asni.pruning.hold import Hold
from asni.pruning.layers import Layers, prunable, trained_by
from asni.pruning.length import length
from asni.pruning.masks import Masks, count, full_masks, keep_largest, share_of_zeros
from asni.pruning.messages import say
from asni.pruning.optimizers import unwrapped
from asni.pruning.schedules import last_pruning

if TYPE_CHECKING:
    from asni.runs.run import Run
    from asni.training.trainer import Trainer


class EarlyBird(Hold):
    """Tracks the magnitude mask of `keep` weights while the dense network trains, and prunes once it is stable."""

    def __init__(
        self,
        model: nn.Module,
        optimizer: torch.optim.Optimizer,
        *,
        keep: int,
        epochs: int,
        steps_per_epoch: int,
        threshold: float = 0.1,
        patience: int = 5,
        **layers: Unpack[Layers],
    ):
        whole = length(epochs, steps_per_epoch)
        weights = trained_by(unwrapped(optimizer), prunable(model, **layers))
        super().__init__(model, optimizer, full_masks(weights), target=keep, length=whole)
        self.layers = layers
        self.keep, self.epochs, self.steps_per_epoch = keep, epochs, steps_per_epoch
        self.threshold, self.patience = threshold, patience
        self.candidate: Masks | None = None
        self.distances: list[float] = []
        self.chosen = False
        self.settings = {"keep": keep, "steps": whole.steps, "threshold": threshold, "patience": patience}

    def begin(self) -> None:
        super().begin()
        self.warn_if_pruned_before(share_of_zeros(self.weights))

    def after_step(self) -> None:
        super().after_step()
        if self.steps % self.steps_per_epoch == 0 and not self.chosen:
            self.after_epoch(self.steps // self.steps_per_epoch - 1)

    @property
    def fixed_steps(self) -> int | None:
        if not self.steps_as(EarlyBird):
            return 0
        return None if self.chosen else self.steps_per_epoch - self.steps % self.steps_per_epoch

    def after_epoch(self, epoch: int) -> None:
        """One iteration of the algorithm's loop."""
        before, self.candidate = self.candidate, keep_largest(self.weights, self.keep)
        if before is not None:
            self.distances = [*self.distances, distance(before, self.candidate)][-self.patience :]
        stable = len(self.distances) == self.patience and max(self.distances) < self.threshold
        if stable or epoch == last_pruning(self.epochs):
            self.masks = self.candidate
            self.chosen = True

    @torch.no_grad()
    def finish(self) -> None:
        super().finish()
        if not self.chosen:
            self.masks = keep_largest(self.weights, self.keep)
            self.chosen = True
            say(f"EarlyBird finished after step {self.steps:,}: its mask was not stable, and is drawn now.")

    def state_dict(self) -> dict[str, Any]:
        own = {"candidate": self.candidate, "distances": self.distances, "chosen": self.chosen}
        return {**super().state_dict(), **own}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        super().load_state_dict(state)
        self.distances, self.chosen, candidate = state["distances"], state["chosen"], state["candidate"]
        if candidate is not None:
            self.candidate = {name: mask.to(self.weights[name].device) for name, mask in candidate.items()}


def distance(before: Mapping[str, Tensor], after: Mapping[str, Tensor]) -> float:
    """The fraction of the living weights that did not live before.

    >>> distance({"a": torch.tensor([True, True, False, False])}, {"a": torch.tensor([True, False, True, False])})
    0.5
    """
    new = {name: after[name] & ~before[name] for name in after}
    return count(new) / max(count(after), 1)


def early_bird(trainer: "Trainer") -> "Run":
    """One round of training, dense until the mask is stable."""

    def make_pruner(model: nn.Module, optimizer: torch.optim.Optimizer) -> EarlyBird:
        return EarlyBird(
            model,
            optimizer,
            keep=trainer.keep,
            epochs=trainer.recipe.training.epochs,
            steps_per_epoch=trainer.steps_per_epoch,
            **trainer.recipe.pruning.layers,
        )

    return trainer.train("early-bird", make_pruner)
