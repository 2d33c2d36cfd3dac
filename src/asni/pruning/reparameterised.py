"""Layers whose weights are computed from latent weights and a trained score."""

from abc import abstractmethod
from collections.abc import Iterator, Mapping
from copy import deepcopy
from typing import Any

import torch
from torch import Tensor, nn

from asni.errors import AsniError
from asni.pruning.inner_optimizer import without_parameters
from asni.pruning.length import Length
from asni.pruning.optimizers import unwrapped
from asni.pruning.pruner import Pruner
from asni.pruning.sharded import any_sharded


class Reparameterised(Pruner):
    """Trains latent weights and a score for each layer, while the layer itself always holds `formula(weight, score)`.

    The forward pass, evaluation and saving use these folded weights. Latent weights and scores are trained by `inner`,
    an optimiser of the same class, with gradients by the chain rule. In each step it has the learning rates and other
    settings that the user's optimiser has for the weights; scores by default have no weight decay. The user's optimiser
    keeps its parameter groups and trains everything else.
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
        self.inner = without_parameters(unwrapped(optimizer))
        super().__init__(model, optimizer, weights, target=target, length=length)
        self.latent = {name: nn.Parameter(weight.detach().clone()) for name, weight in self.weights.items()}
        self.scores = {name: nn.Parameter(score) for name, score in scores.items()}
        self._gradients: dict[str, Tensor | None] = {}
        self.fold()

    @abstractmethod
    def formula(self, name: str, weight: Tensor, score: Tensor) -> Tensor:
        """The weights that the layer uses in the forward pass."""

    @abstractmethod
    def by_chain_rule(self, name: str, gradient: Tensor) -> tuple[Tensor, Tensor]:
        """The gradients of the latent weights and of the score, from that of the layer's weights."""

    def weight_decays(self, group: Mapping[str, Any]) -> tuple[float, float]:
        """The weight decays of latent weights and scores whose weights are in this group of the user's optimiser."""
        return group.get("weight_decay", 0.0), 0.0

    @torch.no_grad()
    def fold(self) -> None:
        """Write the folded weights into every layer."""
        for name, weight in self.weights.items():
            weight.copy_(self.formula(name, self.latent[name], self.scores[name]))

    @torch.no_grad()
    def begin(self) -> None:
        super().begin()
        for name, weight in self.weights.items():
            latent = self.latent[name]
            # The model or the optimiser may have been loaded after the pruner was made.
            if not torch.equal(weight, self.formula(name, latent, self.scores[name])):
                latent.copy_(weight)
            if self.optimizer.state.get(weight):
                self.inner.state[latent] = self.optimizer.state.pop(weight)
        self.fold()

    def before_step(self) -> None:
        self._gradients = {name: weight.grad for name, weight in self.weights.items()}
        for weight in self.weights.values():
            weight.grad = None
        if self.step_is_skipped:
            return
        for name, gradient in self._gradients.items():
            both = (None, None) if gradient is None else self.by_chain_rule(name, gradient)
            self.latent[name].grad, self.scores[name].grad = both
        self.step_inner()
        for trained in (*self.latent.values(), *self.scores.values()):
            trained.grad = None
        self.fold()

    def step_inner(self) -> None:
        """Train the latent weights and the scores, which have their gradients."""
        self.inner.param_groups = self._inner_groups()
        for given_by_scaler in ("grad_scale", "found_inf"):
            setattr(self.inner, given_by_scaler, getattr(self.optimizer, given_by_scaler, None))
        self.inner.step()

    def settle(self) -> None:
        for name, gradient in self._gradients.items():
            self.weights[name].grad = gradient
        self._gradients = {}

    def groups(self) -> Iterator[tuple[dict[str, Any], list[str]]]:
        """The optimiser's parameter groups that hold some of the weights, with the names of these."""
        names = {id(weight): name for name, weight in self.weights.items()}
        for group in self.optimizer.param_groups:
            here = [names[id(each)] for each in group["params"] if id(each) in names]
            if here:
                yield group, here

    def _inner_groups(self) -> list[dict[str, Any]]:
        inner = []
        for group, names in self.groups():
            settings = {key: value for key, value in group.items() if key not in ("params", "param_names")}
            for trained, decay in zip((self.latent, self.scores), self.weight_decays(group), strict=True):
                inner.append({**settings, "params": [trained[name] for name in names], "weight_decay": decay})
        return inner

    def release_state(self) -> None:
        """Hand the optimiser state of the latent weights to the optimiser, which trains the weights from now on."""
        for name, weight in self.weights.items():
            if state := self.inner.state.get(self.latent[name]):
                self.optimizer.state[weight] = state
        self.inner.state.clear()

    def state_dict(self) -> dict[str, Any]:
        saved: dict[str, Any] = {"optimizer": {}}
        for kind, trained in {"latent": self.latent, "scores": self.scores}.items():
            saved[kind] = {self.names_in_state[name]: value.detach() for name, value in trained.items()}
            state = self.inner.state
            saved["optimizer"][kind] = {
                self.names_in_state[name]: dict(state.get(value, {})) for name, value in trained.items()
            }
        return {**super().state_dict(), **saved}

    @torch.no_grad()
    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        super().load_state_dict(state)
        for name in self.weights:
            self.latent[name].copy_(state["latent"][self.names_in_state[name]])
            self.scores[name].copy_(state["scores"][self.names_in_state[name]])
        self._load_inner(state["optimizer"])
        self.fold()

    def _load_inner(self, saved: Mapping[str, Mapping[str, Any]]) -> None:
        self.inner.param_groups = self._inner_groups()
        in_order = [
            saved[kind][self.names_in_state[name]]
            for _, names in self.groups()
            for kind in ("latent", "scores")
            for name in names
        ]
        state = {place: deepcopy(each) for place, each in enumerate(in_order) if each}
        self.inner.load_state_dict({**self.inner.state_dict(), "state": state})

    def detach(self) -> None:
        """Remove the hooks; the layers keep their folded weights, and the optimiser trains them on from there."""
        super().detach()
        self.release_state()
