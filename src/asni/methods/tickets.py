"""The mask of a finished training, by the magnitude of its weights, to train again under."""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

from asni.errors import UsageError
from asni.methods.dense import dense_until
from asni.pruning.hold import Hold
from asni.pruning.masks import Masks, keep_largest

if TYPE_CHECKING:
    from asni.runs.run import Run
    from asni.training.round import MakePruner
    from asni.training.trainer import Trainer

Prune = Callable[[Mapping[str, Tensor], int, Masks | None], Masks]
"""Which weights live: how many of the given ones, of those that lived before."""

REWIND = 0.02
"""How far a training goes before the step that later rounds go back to, as a fraction of it.

Frankle et al. (2019) find that between 0.1 % and 7 % of the training suffice.
"""


def globally(weights: Mapping[str, Tensor], keep: int, within: Masks | None) -> Masks:
    """The largest magnitudes over all layers."""
    return keep_largest(weights, keep, within=within)


def pruned(trainer: "Trainer", trained: "Run", keep: int, prune: Prune = globally) -> "MakePruner":
    """Holds the mask of what lives at the end of `trained` after pruning it down to `keep` weights."""

    def make_pruner(model: nn.Module, optimizer: torch.optim.Optimizer) -> Hold:
        final = trained.weights
        within = trained.masks if trained.result["sparsity"] else None
        return Hold(model, optimizer, prune({name: final[name] for name in trainer.prunable(model)}, keep, within))

    return make_pruner


def rewind(trainer: "Trainer", share: float = REWIND) -> "tuple[dict[str, Tensor], range]":
    """The dense training's values at its step k, batch-norm statistics included, and the steps from k on."""
    k = max(1, round(share * len(trainer.steps)))
    if k >= len(trainer.steps):
        raise UsageError(f"there is no training left after step {k} of {len(trainer.steps)} to go back to.")
    return dense_until(trainer, k).weights, trainer.steps[k:]
