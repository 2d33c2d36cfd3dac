"""STR: Kusupati et al. 2020, "Soft threshold weight reparameterization for learnable sparsity" (arXiv 2002.03231)."""

import math
from typing import TYPE_CHECKING, Unpack

import torch
from torch import Tensor, nn

from asni.errors import UsageError
from asni.methods.search import search
from asni.pruning.layers import Layers, prunable, trained_by
from asni.pruning.masks import Masks, count, nonzero_masks
from asni.pruning.reparameterised import Reparameterised
from asni.runs import names

if TYPE_CHECKING:
    from asni.runs.run import Run
    from asni.training.trainer import Trainer

START = -3200.0
TOLERANCE = 0.02


class STR(Reparameterised):
    """Each layer uses `sign(w) * relu(|w| - sigmoid(s))` as its weights and learns its threshold through s.

    Weight decay on s, `s <- s * exp(-lr * decay)` in every step, moves the threshold from 0 towards 1/2, against the
    loss. It is applied outside the optimiser, so that it acts the same under Adam and SGD. The latent weights decay
    too, as in the authors' code: otherwise they outgrow the threshold. Under Adam, a decay of d keeps every weight
    below 1/d, so the decay of the weights is at most 1: a training with a small sum of learning rates needs a large
    decay, which would push all weights below any threshold. The decay determines the sparsity: STR has no sparsity
    target.

    >>> model = nn.Linear(2, 1)
    >>> _ = model.weight.data.copy_(torch.tensor([[1.0, 0.125]]))
    >>> optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    >>> pruner = STR(model, optimizer, decay=10.0, start=-math.log(3))  # sigmoid(start) = 1/4
    >>> model.weight.data
    tensor([[0.7500, 0.0000]])
    """

    def __init__(
        self,
        model: nn.Module,
        optimizer: torch.optim.Optimizer,
        *,
        decay: float,
        start: float = START,
        **layers: Unpack[Layers],
    ):
        if not 0 <= decay < math.inf:
            raise UsageError(f"decay, the rate at which s decays to 0, must be a finite number from 0 up, not {decay}.")
        if not -math.inf < start < 0:
            raise UsageError(f"start, the initial value of s, must be a finite number below 0, not {start}.")
        weights = trained_by(optimizer, prunable(model, **layers))
        super().__init__(optimizer, weights, {name: w.detach().new_tensor(start) for name, w in weights.items()})
        self.decay = decay

    def formula(self, name: str, weight: Tensor, score: Tensor) -> Tensor:
        threshold = torch.sigmoid(score)
        return weight - weight.clamp(-threshold, threshold)

    def to_latent(self, name: str, gradient: Tensor) -> Tensor:
        # A weight within the threshold gets no gradient and gives none to s.
        sign = self.weights[name].sign()
        threshold = torch.sigmoid(self.scores[name])
        along = torch.dot(gradient.flatten(), sign.flatten())
        gradient.mul_(sign.abs_())
        return -along * threshold * (1 - threshold)

    @property
    def masks(self) -> Masks:
        return nonzero_masks(self.weights)

    def before_step(self) -> None:
        super().before_step()
        if not self.step_is_skipped:
            for values, decay in ((self.scores, self.decay), (self.weights, min(self.decay, 1.0))):
                for value in values.values():
                    value.mul_(math.exp(-self.group["lr"] * decay))


def soft_threshold(trainer: "Trainer") -> "Run":
    """Trains with different decays until one run ends within 2 % of the wanted number of weights, and returns that run.

    The trainings of the search are kept next to it as str-search-1, str-search-2 and so on, and its search.json lists
    them: they are part of the cost of a method without a sparsity target.
    """
    slowest = slowest_decay(trainer)
    trainings: list[dict[str, float]] = []

    def weights_at(earlier: float) -> int:
        decay = slowest * 10**earlier
        stage = names.search_name("str", len(trainings) + 1)
        run = trainer.train(
            stage,
            lambda model, optimizer: STR(model, optimizer, decay=decay, **trainer.recipe.pruning.layers),
            method="str",
            settings={"decay": decay},
        )
        weights = count(run.masks)
        trainings.append({"decay": decay, "weights": weights, "steps": run.result["steps"]})
        return weights

    # From a threshold that rises only at the very end to one that has risen after a tenth of the training.
    search(weights_at, trainer.keep, low=0, high=1, tolerance=TOLERANCE)
    settings = {"decay": trainings[-1]["decay"]}
    found = {"wanted": trainer.keep, "trainings": trainings}
    return trainer.adopt("str", names.search_name("str", len(trainings)), settings, {names.SEARCH: found})


def slowest_decay(trainer: "Trainer") -> float:
    """The decay under which s, without a loss, ends at -8, where the threshold is still almost 0."""
    from asni.recipes import lr_at

    training = trainer.recipe.training
    lr_sum = trainer.steps_per_epoch * sum(lr_at(training, epoch) for epoch in range(training.epochs))
    return math.log(-START / 8) / lr_sum
