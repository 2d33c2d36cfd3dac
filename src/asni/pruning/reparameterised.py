"""Layers whose weights are computed from latent weights and a trained score."""

from abc import abstractmethod
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn

from asni.errors import AsniError
from asni.pruning.layers import plain
from asni.pruning.length import Length
from asni.pruning.pruner import Pruner
from asni.pruning.sharded import any_sharded


class Reparameterised(Pruner):
    """Trains latent weights and a score for each layer, while the layer itself always holds `formula(weight, score)`.

    The forward pass, evaluation and saving use these folded weights. In a step, the optimiser sees the latent weights
    and the scores, with gradients by the chain rule. The scores have the learning rates of their weights, in
    separate parameter groups, by default without weight decay: create the pruner before a learning-rate scheduler.
    """

    def __init__(
        self,
        model: nn.Module,
        optimizer: torch.optim.Optimizer,
        weights: Mapping[str, Tensor],
        scores: Mapping[str, Tensor],
        *,
        target: int | None = None,
        length: Length | None = None,
    ):
        if any_sharded(weights.values()):
            raise AsniError(f"{type(self).__name__} cannot train weights that FSDP2 or tensor parallelism has sharded.")
        super().__init__(model, optimizer, weights, target=target, length=length)
        optimizer = self.optimizer
        self.latent = {name: weight.detach().clone() for name, weight in self.weights.items()}
        self.scores = {name: nn.Parameter(score) for name, score in scores.items()}
        for group in list(optimizer.param_groups):
            here = set(map(id, group["params"]))
            own = [self.scores[name] for name, weight in self.weights.items() if id(weight) in here]
            if own:
                optimizer.add_param_group({**group, "params": own, "weight_decay": 0.0})
        self.fold()

    @abstractmethod
    def formula(self, name: str, weight: Tensor, score: Tensor) -> Tensor:
        """The weights that the layer uses in the forward pass."""

    @abstractmethod
    def to_latent(self, name: str, gradient: Tensor) -> Tensor:
        """Convert the gradient of the layer's weights, in place, to that of the latent weights; return the score's."""

    @torch.no_grad()
    def fold(self) -> None:
        """Write the folded weights into every layer."""
        for name, weight in self.weights.items():
            weight.copy_(self.formula(name, self.latent[name], self.scores[name]))

    def before_step(self) -> None:
        for name, weight in self.weights.items():
            # A layer without a gradient must not repeat the score's gradient of an earlier step.
            self.scores[name].grad = None if weight.grad is None else self.to_latent(name, weight.grad)
            weight.copy_(self.latent[name])

    def settle(self) -> None:
        for name, weight in self.weights.items():
            self.latent[name].copy_(weight)
        self.fold()

    def state_dict(self) -> dict[str, Any]:
        latent = {plain(name): weight for name, weight in self.latent.items()}
        scores = {plain(name): score.detach() for name, score in self.scores.items()}
        return {**super().state_dict(), "latent": latent, "scores": scores}

    @torch.no_grad()
    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        super().load_state_dict(state)
        for name in self.weights:
            self.latent[name].copy_(state["latent"][plain(name)])
            self.scores[name].copy_(state["scores"][plain(name)])
        self.fold()

    def detach(self) -> None:
        """Remove the hooks and the scores from the optimiser; the layers keep their folded weights.

        The groups of the scores stay, empty, since a learning-rate scheduler counts the groups.
        """
        super().detach()
        for group in self.score_groups:
            group["params"] = []
        for score in self.scores.values():
            self.optimizer.state.pop(score, None)

    @property
    def score_groups(self) -> list[dict[str, Any]]:
        """The optimiser's parameter groups that hold the scores."""
        own = {id(score) for score in self.scores.values()}
        return [group for group in self.optimizer.param_groups if own & set(map(id, group["params"]))]
