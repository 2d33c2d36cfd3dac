"""Magnitude masks of a finished training, for the next one."""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

from asni.errors import UsageError
from asni.methods.dense import dense_until
from asni.pruning.hold import Hold
from asni.pruning.masks import Masks, keep_largest

if TYPE_CHECKING:
    from asni.recipes import Recipe
    from asni.runs.run import Run
    from asni.training.round import MakePruner
    from asni.training.trainer import Trainer

Prune = Callable[[Mapping[str, Tensor], int, Masks | None], Masks]
"""(weights, number to keep, masks of the living weights) -> new masks."""

REWIND = 0.02
"""The step that later rounds rewind to, as a fraction of the training, unless the recipe sets it.

Frankle et al. (2019) find that 0.1 % to 7 % of the training is enough.
"""


def globally(weights: Mapping[str, Tensor], keep: int, within: Masks | None) -> Masks:
    """The largest magnitudes over all layers."""
    return keep_largest(weights, keep, within=within)


def pruned(trainer: "Trainer", trained: "Run", keep: int, prune: Prune = globally) -> "MakePruner":
    """A function that makes a pruner; it holds the mask of `trained`'s final weights, pruned to `keep` weights."""

    def make_pruner(model: nn.Module, optimizer: torch.optim.Optimizer) -> Hold:
        final = trained.weights
        within = trained.masks if trained.result["sparsity"] else None
        return Hold(model, optimizer, prune({name: final[name] for name in trainer.prunable(model)}, keep, within))

    return make_pruner


def rewind_step(recipe: "Recipe", steps: int) -> int:
    """The step k of a training of `steps` steps."""
    return recipe.lottery.rewind or max(1, round(REWIND * steps))


def rewind(trainer: "Trainer") -> "tuple[dict[str, Tensor], range]":
    """The dense training's weights at step k, including batch-norm statistics, and the steps from k on."""
    k = rewind_step(trainer.recipe, len(trainer.steps))
    if k >= len(trainer.steps):
        raise UsageError(f"cannot rewind to step {k} of {len(trainer.steps)}: no steps are left to train.")
    return dense_until(trainer, k).weights, trainer.steps[k:]
