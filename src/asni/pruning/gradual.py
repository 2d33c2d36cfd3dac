"""Global magnitude pruning along any schedule: ASNI-I, GMP and one-shot pruning differ in the schedule alone."""

import torch
from torch import nn

from asni.errors import UsageError
from asni.pruning.hold import Hold
from asni.pruning.masks import count, full_masks, keep_largest
from asni.pruning.pruner import trained_weights
from asni.pruning.schedules import Schedule, kept


class GradualMagnitude(Hold):
    """Prunes after every `every` steps of a training of `steps` to what the schedule says.

    Those steps are the schedule's epoch. The weights of all layers are ranked together, a pruned weight never comes
    back, and the last pruning leaves exactly `round(prunable * (1 - final))` of them.

    >>> from asni.pruning.schedules import Linear
    >>> model = nn.Linear(10, 10)
    >>> optimizer = torch.optim.Adam(model.parameters())
    >>> pruner = GradualMagnitude(model, optimizer, schedule=Linear(0.9), steps=20, every=4)
    >>> for step in range(20):
    ...     loss = model(torch.ones(1, 10)).square().sum()
    ...     optimizer.zero_grad(); loss.backward(); optimizer.step()
    >>> int((model.weight != 0).sum())
    10
    """

    def __init__(
        self, model: nn.Module, optimizer: torch.optim.Optimizer, *, schedule: Schedule, steps: int, every: int
    ):
        if not 1 <= every <= steps:
            raise UsageError(f"a training of {steps} steps cannot be pruned after every {every} of them.")
        self.prunings = steps // every
        require_sparsity(schedule(self.prunings - 1, self.prunings))
        super().__init__(model, optimizer, full_masks(trained_weights(model, optimizer)))
        self.schedule = schedule
        self.every = every

    def after_step(self) -> None:
        super().after_step()
        done, between = divmod(self.steps, self.every)
        if between == 0:
            self.prune(self.schedule(done - 1, self.prunings))

    def prune(self, sparsity: float) -> None:
        """The threshold over all layers, the masks, the weights; nothing where as many are pruned already."""
        keep = kept(sum(weight.numel() for weight in self.weights.values()), sparsity)
        masks = self.masks
        if keep < count(masks):
            self.masks = keep_largest(self.weights, keep, within=masks)


def require_sparsity(sparsity: float) -> None:
    if not 0 < sparsity < 1:
        raise UsageError(f"sparsity is the fraction of the weights to prune, above 0 and below 1, not {sparsity}.")


def total_steps(epochs: int, steps_per_epoch: int) -> int:
    for name, number in (("epochs", epochs), ("steps_per_epoch", steps_per_epoch)):
        # Fractions of a step would never be counted, and nothing pruned.
        if number < 1 or number != int(number):
            raise UsageError(f"{name} must be a whole number and at least 1, not {number}.")
    return epochs * steps_per_epoch


def update_interval(steps: int) -> int:
    """Every 100 steps, as published; in a training of fewer than 5,000, every fiftieth part of it.

    >>> update_interval(50_000), update_interval(1_160), update_interval(10)
    (100, 23, 1)
    """
    return min(100, max(1, steps // 50))
