"""Global pruning along a schedule, by magnitude or another score: the base of ASNI-I, GMP and one-shot pruning."""

from typing import Unpack

import torch
from torch import nn

from asni.errors import UsageError
from asni.pruning.hold import Hold
from asni.pruning.layers import Layers, prunable, trained_by
from asni.pruning.masks import count, full_masks, keep_largest, weight_count, weights_to_keep
from asni.pruning.schedules import Schedule, kept
from asni.pruning.scores import Score, magnitude, score_function, scored


class Ranking(Layers, total=False):
    """Keyword arguments of every gradual pruner: which weights to prune and how to rank them."""

    score: str | Score
    floor: float | None


class GradualMagnitude(Hold):
    """Prunes to the schedule's sparsity every `every` steps of a training of `steps` steps.

    `every` steps count as one epoch of the schedule. Weights are ranked globally, over all layers. A pruned weight
    never comes back. The last pruning leaves exactly `round(prunable * (1 - final))` weights. Options of all gradual
    pruners:

    - `include`, `exclude`: which weights to prune (see `asni.prunable`);
    - `score`: "magnitude" (default), "lamp", or a function `(name, weight) -> tensor`; the largest scores are kept;
    - `floor`: the minimum to keep in each layer, as a fraction (float) or a number of weights (int).

    >>> from asni.pruning.schedules import Polynomial
    >>> model = nn.Linear(10, 10)
    >>> optimizer = torch.optim.Adam(model.parameters())
    >>> pruner = GradualMagnitude(model, optimizer, schedule=Polynomial(0.9), steps=20, every=4)
    >>> for step in range(20):
    ...     loss = model(torch.ones(1, 10)).square().sum()
    ...     optimizer.zero_grad(); loss.backward(); optimizer.step()
    >>> pruner
    GradualMagnitude(step 20/20, 90 % pruned, 10 alive)
    """

    def __init__(
        self,
        model: nn.Module,
        optimizer: torch.optim.Optimizer,
        *,
        schedule: Schedule,
        steps: int,
        every: int,
        score: str | Score = "magnitude",
        floor: float | None = None,
        **layers: Unpack[Layers],
    ):
        if not 1 <= every <= steps:
            raise UsageError(f"every must be from 1 to the {steps} steps of the training, not {every}.")
        self.prunings = steps // every
        final = schedule(self.prunings - 1, self.prunings)
        require_sparsity(final)
        self.score = score_function(score)
        weights = trained_by(optimizer, prunable(model, **layers))
        weights_to_keep(weights, final, floor)
        super().__init__(model, optimizer, full_masks(weights))
        self.schedule, self.floor = schedule, floor
        self.total_steps, self.every = steps, every

    @property
    def progress(self) -> str:
        return f"step {self.steps:,}/{self.total_steps:,}"

    def after_step(self) -> None:
        super().after_step()
        done, between = divmod(self.steps, self.every)
        if between == 0:
            self.prune(self.schedule(done - 1, self.prunings))

    def prune(self, sparsity: float) -> None:
        """Prune to `sparsity` by one global threshold; does nothing if the network is already that sparse."""
        keep = kept(weight_count(self.weights), sparsity)
        masks = self.masks
        if keep < count(masks):
            # Magnitudes are taken layer by layer, without a copy of all weights.
            scores, by = (
                (self.weights, torch.abs)
                if self.score is magnitude
                else (scored(self.weights, self.score), torch.positive)
            )
            self.masks = keep_largest(scores, keep, within=masks, by=by, floor=self.floor)


def require_sparsity(sparsity: float) -> None:
    if not 0 < sparsity < 1:
        raise UsageError(f"sparsity must be a fraction above 0 and below 1, not {sparsity}.")


def total_steps(epochs: int, steps_per_epoch: int) -> int:
    for name, number in (("epochs", epochs), ("steps_per_epoch", steps_per_epoch)):
        # The step count would never equal a fractional number, and nothing would be pruned.
        if number < 1 or number != int(number):
            raise UsageError(f"{name} must be a whole number and at least 1, not {number}.")
    return epochs * steps_per_epoch


def update_interval(steps: int) -> int:
    """Steps between two updates: 100, as published, or a fiftieth of a training shorter than 5,000 steps.

    >>> update_interval(50_000), update_interval(1_160), update_interval(10)
    (100, 23, 1)
    """
    return min(100, max(1, steps // 50))
