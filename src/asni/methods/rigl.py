"""RigL: Evci et al. 2020, "Rigging the lottery: making all tickets winners" (arXiv 1911.11134); and SET.

Compared with google-research/rigl (commit d39fc7d) and nollied/rigl-torch (34d19e4): masks and weights equal, but for
the places that SET grows at random; ERK within 2 weights per layer (tests/methods/official).
"""

import math
from abc import abstractmethod
from collections.abc import Mapping
from typing import TYPE_CHECKING, ClassVar, SupportsIndex, Unpack

import numpy as np
import torch
from torch import Tensor, nn

from asni.errors import UsageError
from asni.methods.one_round import one_round
from asni.pruning.gradual import checked_sparsity, described
from asni.pruning.hold import Hold
from asni.pruning.layers import Layers, prunable, trained_by
from asni.pruning.layerwise import Distribution, erk, random_masks, random_scores, uniform
from asni.pruning.length import length, update_interval
from asni.pruning.masks import Masks, count, keep_largest, share_of_zeros, weights_to_keep
from asni.pruning.optimizers import unwrapped

if TYPE_CHECKING:
    from asni.runs.run import Run
    from asni.training.trainer import Trainer


class DropAndGrow(Hold):
    """Trains a sparse network from the first step: a random mask, whose smallest weights are replaced every 100 steps.

    In each layer the fraction `drop / 2 * (1 + cos(pi t / T_end))` of the living weights with the smallest magnitude is
    dropped, and as many are grown. A grown weight starts at 0 without momentum; one that is dropped and grown in the
    same update keeps its value. Updates stop at T_end, three quarters of the training. `distribution` is
    `asni.pruning.layerwise.erk` or `uniform`. The paper's uniform leaves the first layer dense; in a fully connected
    network that layer alone would exceed the requested number of weights, so here all layers have the same density.
    """

    shortest: ClassVar[int] = 1
    """The shortest possible interval between two updates."""

    def __init__(
        self,
        model: nn.Module,
        optimizer: torch.optim.Optimizer,
        *,
        sparsity: float,
        epochs: int | None = None,
        steps_per_epoch: int | None = None,
        total_steps: int | None = None,
        distribution: Distribution = erk,
        drop: float = 0.3,
        until: float = 0.75,
        every: int | None = None,
        seed: int = 0,
        **layers: Unpack[Layers],
    ):
        sparsity = checked_sparsity(sparsity)
        if not (0 <= drop <= 1 and 0 <= until <= 1):
            raise UsageError(f"drop ({drop}) and until ({until}) must be fractions from 0 to 1.")
        if every is not None and not (isinstance(every, SupportsIndex) and every >= self.shortest):
            raise UsageError(
                f"every, the steps between updates, must be a whole number of at least {self.shortest}, not {every!r}."
            )
        whole = length(epochs, steps_per_epoch, total_steps)
        weights = trained_by(unwrapped(optimizer), prunable(model, **layers))
        keep = weights_to_keep(weights, sparsity)
        counts = distribution({name: weight.shape for name, weight in weights.items()}, keep)
        self._zeros_at_start = share_of_zeros(weights)
        super().__init__(model, optimizer, start_masks(weights, counts, seed), target=keep, length=whole)
        self.layers = layers
        self.every = max(self.shortest, update_interval(whole.steps)) if every is None else every
        self.end = until * whole.steps
        self.drop = drop
        self.seed = seed
        self.settings = {
            "sparsity": sparsity,
            "steps": whole.steps,
            "every": self.every,
            "distribution": described(distribution),
            "drop": drop,
            "until": until,
            "seed": seed,
        }

    def begin(self) -> None:
        super().begin()
        self.warn_if_pruned_before(max(self._zeros_at_start, share_of_zeros(self.weights, within=self.masks)))

    @property
    def update_is_due(self) -> bool:
        return self.steps < self.end and self.steps % self.every == 0

    def update_masks(self) -> None:
        """Drop and grow in every layer that has a gradient: a layer that does not train keeps its weights."""
        fraction = self.drop / 2 * (1 + math.cos(math.pi * self.steps / self.end))
        masks = self.masks
        for name, weight in self.weights.items():
            if weight.grad is None:
                continue
            living = count({name: masks[name]})
            dropped = int(fraction * living)
            strong = keep_largest({name: weight}, living - dropped, within={name: masks[name]})[name]
            grown = keep_largest({name: self.growth(name, weight.grad)}, dropped, within={name: ~strong})[name]
            masks[name] = strong | grown
        self.masks = masks

    @abstractmethod
    def growth(self, name: str, gradient: Tensor) -> Tensor:
        """The scores of a layer's weights for growth; the largest magnitudes grow."""


def start_masks(weights: Mapping[str, Tensor], counts: Mapping[str, int], seed: int) -> Masks:
    """Random masks; in a layer that is already as sparse as wanted, none of the living weights is killed.

    So a pruner may be created before or after a checkpoint is loaded into the model.
    """
    masks = random_masks(weights, counts, seed)
    for name, weight in weights.items():
        nonzero = weight.detach() != 0
        if 0 < (alive := count({name: nonzero})) <= counts[name]:
            others = {name: masks[name] & ~nonzero}
            masks[name] = nonzero | keep_largest(others, counts[name] - alive, within=others, by=Tensor.float)[name]
    return masks


class RigL(DropAndGrow):
    """Grows the weights with the largest dense gradients in place of those with the smallest magnitude.

    Every `every` steps, up to the fraction `until` of the training, each layer replaces the fraction
    `drop / 2 * (1 + cos(pi t / T_end))` of its living weights; see `DropAndGrow` for the rest.

    The updates at t = 0, 100, 200, ... replace the gradient step and count as step t, as in Algorithm 1 of the paper.
    The authors' program does not count them. rigl-torch counts t from 1.

    >>> model = nn.Linear(10, 10)
    >>> optimizer = torch.optim.Adam(model.parameters())
    >>> RigL(model, optimizer, sparsity=0.9, epochs=5, steps_per_epoch=10)
    RigL(step 0/50, 90 % pruned, 10 alive)
    """

    # The update replaces the step, so an update in every step would leave no step to train.
    shortest = 2

    @property
    def fixed_steps(self) -> int | None:
        """The steps before the next update, which needs the gradients of pruned weights."""
        ahead = -self.steps % self.every
        if not self.steps_as(RigL):
            return 0
        return ahead if self.steps + ahead < self.end else None

    def mask_gradient(self, name: str) -> None:
        # The next update ranks dense gradients.
        if not self.update_is_due:
            super().mask_gradient(name)

    def before_step(self) -> None:
        if self.update_is_due and not self.step_is_skipped:
            self.update_masks()
            # Optimisers skip parameters without a gradient, so the update replaces the gradient step.
            self.optimizer.zero_grad()
        else:
            super().before_step()

    def growth(self, name: str, gradient: Tensor) -> Tensor:
        return gradient


class SET(DropAndGrow):
    """Grows weights at random in place of those with the smallest magnitude.

    Every `every` steps, up to the fraction `until` of the training, each layer replaces the fraction
    `drop / 2 * (1 + cos(pi t / T_end))` of its living weights; see `DropAndGrow` for the rest.

    SET (Mocanu et al. 2018, arXiv 1707.04780) in the form that Evci et al. compare with: an update follows a gradient
    step and ranks the weights after it. The updates follow the steps number 100, 200, ..., as those of Mocanu et al.
    follow the epochs; by default the program of Evci et al. updates after step 1 too.

    >>> model = nn.Linear(10, 10)
    >>> optimizer = torch.optim.Adam(model.parameters())
    >>> SET(model, optimizer, sparsity=0.9, epochs=5, steps_per_epoch=10)
    SET(step 0/50, 90 % pruned, 10 alive)
    """

    @property
    def fixed_steps(self) -> int | None:
        """The steps before the next one with an update, which asks which layers have gradients."""
        ahead = self.every - self.steps % self.every
        if not self.steps_as(SET):
            return 0
        return ahead - 1 if self.steps + ahead < self.end else None

    def after_step(self) -> None:
        super().after_step()
        if self.update_is_due:
            self.update_masks()

    def growth(self, name: str, gradient: Tensor) -> Tensor:
        layer = list(self.weights).index(name)
        return random_scores(gradient, np.random.default_rng([self.seed, self.steps, layer]))


def rigl(trainer: "Trainer") -> "Run":
    """One round of training with the layer densities of ERK."""
    return one_round(trainer, "rigl", RigL, seed=trainer.seed)


def rigl_uniform(trainer: "Trainer") -> "Run":
    """One round of training with the same density in every layer."""
    return one_round(trainer, "rigl-uniform", RigL, seed=trainer.seed, distribution=uniform)


def set_(trainer: "Trainer") -> "Run":
    """One round of training with random growth."""
    return one_round(trainer, "set", SET, seed=trainer.seed)
