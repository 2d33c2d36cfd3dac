"""Savarese et al. 2019, "Winning the lottery with continuous sparsification" (arXiv 1912.04427).

Compared with lolemacs/continuous-sparsification (commit 5bd4039): defaults, gates, folded weights and gradients equal
(tests/methods/official).
"""

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Unpack

import torch
from torch import Tensor, nn

from asni.errors import UsageError
from asni.methods.one_round import one_round
from asni.pruning.gradual import checked_sparsity
from asni.pruning.hold import Hold
from asni.pruning.layers import Layers, prunable, trained_by
from asni.pruning.length import length, update_interval
from asni.pruning.masks import Masks, full_masks, keep_largest, weights_to_keep
from asni.pruning.messages import say
from asni.pruning.optimizers import unwrapped
from asni.pruning.reparameterised import Reparameterised

if TYPE_CHECKING:
    from asni.runs.run import Run
    from asni.training.trainer import Trainer

HOTTEST = 200.0
FARTHEST = 50.0


class Continuous(Reparameterised):
    """Multiplies each weight by a gate, `sigmoid(beta * s) / sigmoid(start)`, while beta rises from 1 to 200.

    `penalty` times the sum of the gates is added to the loss; s has no weight decay. The factor `1 / sigmoid(start)`,
    which makes training start from the ungated network, and the default `start` and `penalty` follow the authors'
    program. The paper's formula has no such factor; test accuracy played no part in the choice.

    In the paper a weight lives if its gate ends open (s > 0), so `start` and `penalty` determine the sparsity. Here the
    sparsity is given: when beta has reached 200, after the fraction `search` of the steps, the weights with the largest
    s are kept at their gated values, and the rest of the training fine-tunes them.

    >>> model = nn.Linear(10, 10)
    >>> optimizer = torch.optim.Adam(model.parameters())
    >>> pruner = Continuous(model, optimizer, sparsity=0.9, epochs=2, steps_per_epoch=5)
    >>> for step in range(2 * 5):
    ...     loss = model(torch.ones(1, 10)).square().sum()
    ...     optimizer.zero_grad(); loss.backward(); optimizer.step()
    >>> int((model.weight != 0).sum())
    10
    """

    def __init__(
        self,
        model: nn.Module,
        optimizer: torch.optim.Optimizer,
        *,
        sparsity: float,
        epochs: int | None = None,
        steps_per_epoch: int | None = None,
        total_steps: int | None = None,
        start: float = 0.0,
        penalty: float = 1e-8,
        search: float = 0.5,
        **layers: Unpack[Layers],
    ):
        sparsity = checked_sparsity(sparsity)
        if not 0 < search <= 1:
            raise UsageError(
                f"search, the fraction of the steps with soft gates, must be above 0 and at most 1, not {search}."
            )
        if not abs(start) <= FARTHEST:
            raise UsageError(f"start, the initial value of s, must be from -{FARTHEST:g} to {FARTHEST:g}, not {start}.")
        if not 0 <= penalty < math.inf:
            raise UsageError(f"penalty must be a finite number from 0 up, not {penalty}.")
        whole = length(epochs, steps_per_epoch, total_steps)
        weights = trained_by(unwrapped(optimizer), prunable(model, **layers))
        self.keep = weights_to_keep(weights, sparsity)
        self.penalty = penalty
        self.scaling = 1 + math.exp(-start)
        self.every = update_interval(whole.steps)
        self.searching = min(max(1, round(search * whole.steps / self.every)), whole.steps // self.every)
        self.hard_from = self.searching * self.every
        scores = {name: torch.full_like(w, start) for name, w in weights.items()}
        super().__init__(model, optimizer, weights, scores, target=self.keep, length=whole)
        self.layers = layers
        self.settings = {
            "sparsity": sparsity,
            "steps": whole.steps,
            "start": start,
            "penalty": penalty,
            "search": search,
        }
        self.hold = _Chosen(model, optimizer, full_masks(weights))

    @property
    def soft(self) -> bool:
        """Whether the gates are still soft, so that the layers hold gated weights."""
        return self.steps < self.hard_from

    @property
    def fixed_steps(self) -> int | None:
        return 0 if self.soft else self.hold.fixed_steps

    @property
    def temperature(self) -> float:
        """The paper's beta: 1 in the first interval, 200 in the last one before the gates become hard."""
        return float(HOTTEST ** min(self.steps // self.every / max(self.searching - 1, 1), 1.0))

    def planned(self, step: int) -> float:
        return 0.0 if step < self.hard_from else 1 - self.keep / self._ending.weights

    def formula(self, name: str, weight: Tensor, score: Tensor) -> Tensor:
        return weight * torch.sigmoid(self.temperature * score) * self.scaling

    def by_chain_rule(self, name: str, gradient: Tensor) -> tuple[Tensor, Tensor]:
        sigmoid = torch.sigmoid(self.temperature * self.scores[name].detach())
        slope = torch.rsub(sigmoid, 1).mul_(sigmoid).mul_(self.temperature * self.scaling)
        # Under a gradient scaler a fused optimiser still has to divide the gradients by its scale.
        scale = getattr(self.optimizer, "grad_scale", None)
        penalty = self.penalty * (1.0 if scale is None else scale)
        score_gradient = (gradient * self.latent[name]).add_(penalty).mul_(slope)
        return gradient * sigmoid.mul_(self.scaling), score_gradient

    @property
    def masks(self) -> Masks:
        return self.hold.masks

    def fold(self) -> None:
        if self.soft:
            super().fold()

    def before_step(self) -> None:
        if self.soft:
            super().before_step()

    def mask_gradient(self, name: str) -> None:
        self.hold.mask_gradient(name)

    def after_step(self) -> None:
        super().after_step()
        if self.steps == self.hard_from:
            self._harden()
        elif self.steps % self.every == 0:
            self.fold()

    def stepped(self) -> None:
        super().stepped()
        self.hold.stepped()

    @torch.no_grad()
    def finish(self) -> None:
        super().finish()
        if self.soft:
            self.hard_from = self.steps
            self._harden()
            say(
                f"Continuous finished after step {self.steps:,} of {self._ending.total_steps:,}: its gates became hard "
                f"at once and leave {self.keep:,} of {self._ending.weights:,} weights."
            )

    def _harden(self) -> None:
        self.release_state()
        self.hold.masks = keep_largest(self.scores, self.keep, by=lambda score: score)
        self._ending.alive = self.keep

    def state_dict(self) -> dict[str, Any]:
        return {**super().state_dict(), "hard_from": self.hard_from, "hold": self.hold.state_dict()}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        self._require_own(state)
        self.hard_from = state["hard_from"]
        super().load_state_dict(state)
        self.hold.load_state_dict(state["hold"])
        self._ending.alive = self._ending.weights if self.soft else self.keep

    def detach(self) -> None:
        super().detach()
        self.hold.detach()


class _Chosen(Hold):
    """Holds what the gates select; `Continuous` speaks for it, and shares its weights with it."""

    def begin(self) -> None:
        pass

    def require_alone(self) -> None:
        pass


def continuous(trainer: "Trainer") -> "Run":
    """One round of training: the first half with soft gates, the second half with the weights that they select."""
    return one_round(trainer, "continuous", Continuous)
