"""When ASNI-I prunes the network of a recipe, and to what: one truth for plans, figures and reports."""

from dataclasses import dataclass

from asni.errors import UsageError
from asni.pruning.length import Length, length, pruning_interval, update_interval
from asni.pruning.schedules import Schedule, cubic
from asni.recipes.recipe import Recipe


@dataclass(frozen=True)
class Prunings:
    """`count` prunings along a schedule, one every `every` steps; `alpha` is the height of a sigmoid in percent."""

    schedule: Schedule
    count: int
    every: int
    alpha: float | None
    done: tuple[int, ...]
    """How many of them have been done at the end of each epoch."""

    @property
    def sparsities(self) -> list[float]:
        """The fraction of the prunable weights that is zero after each epoch."""
        return [self.schedule(done - 1, self.count) if done else 0.0 for done in self.done]


def prunings(recipe: Recipe, steps_per_epoch: int, prunable: int | None = None) -> Prunings:
    """The prunings of asni-1, or of asni-1-macs if the recipe has a budget.

    >>> from asni.recipes import load
    >>> short = prunings(load("digits-fc").override(epochs=5), steps_per_epoch=30)
    >>> short.every, short.count, [round(sparsity, 3) for sparsity in short.sparsities]
    (3, 50, [0.038, 0.222, 0.662, 0.905, 0.95])
    """
    epochs, own = recipe.training.epochs, recipe.schedule(prunable)
    whole = length(epochs, steps_per_epoch)
    every = _interval(recipe, whole, steps_per_epoch)
    if every > whole.steps:
        raise UsageError(f"every must be from 1 to the {whole.steps} steps of the training, not {every}.")
    count = whole.steps // every
    done = tuple((epoch + 1) * steps_per_epoch // every for epoch in range(epochs))
    if recipe.pruning.schedule == "cubic":
        return Prunings(cubic(own.final), count, every, None, done)
    if count == epochs:
        return Prunings(own, count, every, recipe.alpha(prunable), done)
    curve = own.finer(count / epochs)
    return Prunings(curve, count, every, curve.alpha(count), done)


def _interval(recipe: Recipe, whole: Length, steps_per_epoch: int) -> int:
    every = recipe.pruning.every
    if isinstance(every, int):
        return every
    if recipe.pruning.has_budget:
        return update_interval(whole.steps)
    return steps_per_epoch if every == "epoch" else pruning_interval(whole)
