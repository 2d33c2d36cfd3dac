"""Global pruning along any schedule, by magnitude or another score: ASNI-I, GMP and one-shot pruning differ in it."""

from typing import Unpack

import torch
from torch import nn

from asni.errors import UsageError
from asni.pruning.hold import Hold
from asni.pruning.layers import Layers, prunable, trained_by
from asni.pruning.masks import count, floor_counts, full_masks, keep_largest
from asni.pruning.schedules import Schedule, kept
from asni.pruning.scores import Score, magnitude, score_function, scored


class Ranking(Layers, total=False):
    """Which weights are pruned and how they are ranked, as every gradual pruner takes it."""

    score: str | Score
    floor: float | None


class GradualMagnitude(Hold):
    """Prunes after every `every` steps of a training of `steps` to what the schedule says.

    Those steps are the schedule's epoch. The weights of all layers are ranked together, a pruned weight never comes
    back, and the last pruning leaves exactly `round(prunable * (1 - final))` of them. Options of all gradual pruners:

    - `include`, `exclude`: which weights are pruned (see `asni.prunable`);
    - `score`: "magnitude" (default), "lamp", or a function `(name, weight) -> tensor` whose largest values live;
    - `floor`: how much of each layer lives at least, a fraction as a float or a number of weights as an int.

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
            raise UsageError(f"a training of {steps} steps cannot be pruned after every {every} of them.")
        self.prunings = steps // every
        final = schedule(self.prunings - 1, self.prunings)
        require_sparsity(final)
        self.score = score_function(score)
        weights = trained_by(optimizer, prunable(model, **layers))
        if floor is not None:
            floor_counts(weights, floor, kept(sum(weight.numel() for weight in weights.values()), final))
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
        """The threshold over all layers, the masks, the weights; nothing where as many are pruned already."""
        keep = kept(sum(weight.numel() for weight in self.weights.values()), sparsity)
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
