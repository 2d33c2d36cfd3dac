"""Layers whose weights are computed from latent weights and a trained score."""

from abc import abstractmethod
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn

from asni.pruning.pruner import Pruner


class Reparameterised(Pruner):
    """Trains latent weights and a score for each layer, while the layer itself always holds `formula(weight, score)`.

    The forward pass, evaluation and saving use these folded weights. In a step, the optimiser sees the latent weights
    and the scores, with gradients by the chain rule. The scores form a separate parameter group, by default without
    weight decay: create the pruner before a learning-rate scheduler.
    """

    def __init__(self, optimizer: torch.optim.Optimizer, weights: Mapping[str, Tensor], scores: Mapping[str, Tensor]):
        super().__init__(optimizer, weights)
        self.latent = {name: weight.detach().clone() for name, weight in self.weights.items()}
        self.scores = {name: nn.Parameter(score) for name, score in scores.items()}
        lr = optimizer.param_groups[0]["lr"]
        optimizer.add_param_group({"params": list(self.scores.values()), "lr": lr, "weight_decay": 0.0})
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
        scores = {name: score.detach() for name, score in self.scores.items()}
        return {**super().state_dict(), "latent": self.latent, "scores": scores}

    @torch.no_grad()
    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        super().load_state_dict(state)
        for name in self.weights:
            self.latent[name].copy_(state["latent"][name])
            self.scores[name].copy_(state["scores"][name])
        self.fold()

    def detach(self) -> None:
        """Remove the hooks and the scores from the optimiser; the layers keep their folded weights.

        The group of the scores stays, empty, since a learning-rate scheduler counts the groups.
        """
        super().detach()
        own = {id(score) for score in self.scores.values()}
        for group in self.optimizer.param_groups:
            group["params"] = [each for each in group["params"] if id(each) not in own]
        for score in self.scores.values():
            self.optimizer.state.pop(score, None)

    @property
    def group(self) -> dict[str, Any]:
        """The optimiser's parameter group that holds the scores."""
        one = next(iter(self.scores.values()))
        return next(group for group in self.optimizer.param_groups if any(one is each for each in group["params"]))
