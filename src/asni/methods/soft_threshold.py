"""STR: Kusupati et al. 2020, "Soft threshold weight reparameterization for learnable sparsity" (arXiv 2002.03231).

Compared with RAIVNLab/STR (commit cc74d38): forward pass and three SGD steps equal, with and without momentum
(tests/methods/official).
"""

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Unpack

import torch
from torch import Tensor, nn

from asni.errors import UsageError
from asni.methods.search import search
from asni.pruning.layers import Layers, prunable, trained_by
from asni.pruning.masks import Masks, count, nonzero_masks
from asni.pruning.optimizers import unwrapped
from asni.pruning.reparameterised import Reparameterised
from asni.recipes.own_code import is_code
from asni.runs import names

if TYPE_CHECKING:
    from asni.recipes.sections import Training
    from asni.runs.run import Run
    from asni.training.trainer import Trainer

START = -3200.0
TOLERANCE = 0.02

# The shrinkage by which s, without a loss, ends at -8, where the threshold is still almost 0.
SLOWEST = math.log(-START / 8)


class STR(Reparameterised):
    """Each layer uses `sign(w) * relu(|w| - sigmoid(s))` as its weights and learns its threshold through s.

    Decay of s moves the threshold from 0 towards 1/2, against the loss, and so determines the sparsity: STR has no
    sparsity target. The latent weights have the same decay, since they would outgrow the threshold without it;
    `threshold_decay` gives s another. For these weights `decay` replaces the weight decay of the optimiser; biases and
    norms keep theirs.

    Under SGD, `decay` is the weight decay of SGD, as in the authors' code: it is part of the gradient, and momentum
    accumulates it. Under other optimisers, which the authors do not use, weights and s are multiplied by
    `exp(-lr * decay)` in every step, and the decay of the weights is at most 1: Adam moves a weight by about lr at
    most, so a decay of d keeps every weight below 1/d, and above d = 2 none would exceed the threshold.

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
        threshold_decay: float | None = None,
        start: float = START,
        **layers: Unpack[Layers],
    ):
        threshold_decay = decay if threshold_decay is None else threshold_decay
        for name, rate in {"decay": decay, "threshold_decay": threshold_decay}.items():
            if not 0 <= rate < math.inf:
                raise UsageError(f"{name} must be a finite number from 0 up, not {rate}.")
        if not -math.inf < start < 0:
            raise UsageError(f"start, the initial value of s, must be a finite number below 0, not {start}.")
        optimizer = unwrapped(optimizer)
        weights = trained_by(optimizer, prunable(model, **layers))
        super().__init__(model, optimizer, weights, {name: w.detach().new_tensor(start) for name, w in weights.items()})
        self.layers = layers
        self.decay, self.threshold_decay = decay, threshold_decay
        self.settings = {"decay": decay, "threshold_decay": threshold_decay, "start": start}
        self.by_sgd = isinstance(optimizer, torch.optim.SGD)

    def formula(self, name: str, weight: Tensor, score: Tensor) -> Tensor:
        threshold = torch.sigmoid(score)
        return weight - weight.clamp(-threshold, threshold)

    def by_chain_rule(self, name: str, gradient: Tensor) -> tuple[Tensor, Tensor]:
        # A weight within the threshold gets no gradient and gives none to s.
        sign = self.weights[name].sign()
        threshold = torch.sigmoid(self.scores[name])
        along = torch.dot(gradient.flatten(), sign.flatten())
        return gradient * sign.abs_(), -along * threshold * (1 - threshold)

    def weight_decays(self, group: Mapping[str, Any]) -> tuple[float, float]:
        return (self.decay, self.threshold_decay) if self.by_sgd else (0.0, 0.0)

    @property
    def masks(self) -> Masks:
        return nonzero_masks(self.weights)

    def finish(self) -> None:
        super().finish()
        self.warn_of_nearly_empty(self.masks)

    def detach(self) -> None:
        """Remove the hooks; warns of layers that the thresholds have emptied, as no step does."""
        self.warn_of_nearly_empty(self.masks)
        super().detach()

    def mask_gradient(self, name: str) -> None:
        weight = self.weights[name]
        if weight.grad is not None:
            weight.grad.masked_fill_(weight == 0, 0.0)

    def step_inner(self) -> None:
        if not self.by_sgd:
            self._shrink()
        super().step_inner()

    def _shrink(self) -> None:
        for group, here in self.groups():
            for trained, decay in ((self.latent, min(self.decay, 1.0)), (self.scores, self.threshold_decay)):
                left = math.exp(-group["lr"] * decay)
                for name in here:
                    if trained[name].grad is not None:
                        trained[name].mul_(left)


def soft_threshold(trainer: "Trainer") -> "Run":
    """Trains with different decays until one run ends within 2 % of the wanted number of weights, and returns that run.

    The trainings of the search are kept next to it as str-search-1, str-search-2 and so on, and its search.json lists
    them: they are part of the cost of a method without a sparsity target.
    """
    _require_known_momentum(trainer.recipe.training)
    trainings: list[dict[str, float]] = []

    def weights_at(earlier: float) -> int:
        decay = decay_for(trainer, SLOWEST * 10**earlier)
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


def _require_known_momentum(training: "Training") -> None:
    """Refuse SGD under an import path: the search computes decays from the momentum in the recipe."""
    if is_code(training.optimizer):
        from asni.training.optimizers import own_class

        own = own_class(training)
        if isinstance(own, type) and issubclass(own, torch.optim.SGD):
            raise UsageError(
                f"str cannot use '{training.optimizer}', whose momentum its search does not know. "
                "Write optimizer = 'sgd' with momentum and nesterov, or choose another method."
            )


def decay_for(trainer: "Trainer", shrinkage: float) -> float:
    """The least decay under which s, without a loss, ends at `START * exp(-shrinkage)`."""
    from asni.recipes import lr_at

    training = trainer.recipe.training
    rates = [lr_at(training, epoch) for epoch in range(training.epochs)]
    unit = (1 - training.momentum) / (trainer.steps_per_epoch * sum(rates))
    if training.optimizer != "sgd":
        return shrinkage * unit

    def is_enough(decay: float) -> bool:
        return s_after_sgd(training, rates, trainer.steps_per_epoch, decay) >= START * math.exp(-shrinkage)

    # In a short training, momentum does not build up and a strong decay carries s past 0: no formula holds there.
    low = high = unit / 2
    while not is_enough(high):
        low, high = high, 1.1 * high
    while low < (middle := (low + high) / 2) < high:
        low, high = (low, middle) if is_enough(middle) else (middle, high)
    return high


def s_after_sgd(training: "Training", rates: Sequence[float], steps_per_epoch: int, decay: float) -> float:
    """Where s ends in a training without a loss."""
    s, velocity, momentum, nesterov = START, 0.0, training.momentum, training.nesterov
    for lr in rates:
        for _ in range(steps_per_epoch):
            velocity = momentum * velocity + decay * s
            s -= lr * (decay * s + momentum * velocity if nesterov else velocity)
    return s
