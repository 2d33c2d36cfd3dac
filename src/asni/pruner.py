"""A pruning method as the optimiser sees it: what happens before and after each of its steps."""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn

from asni.errors import UsageError
from asni.masks import Masks, prunable


class Pruner(ABC):
    """Works through hooks on the optimiser alone, so that a training loop need not know about it."""

    def __init__(self, model: nn.Module, optimizer: torch.optim.Optimizer):
        self.weights = prunable(model)
        _require_trained(self.weights, optimizer)
        self.optimizer = optimizer
        self.steps = 0
        self._hooks = [
            optimizer.register_step_pre_hook(self._before_step),
            optimizer.register_step_post_hook(self._after_step),
        ]

    @property
    @abstractmethod
    def masks(self) -> Masks:
        """Which weights live."""

    def state_dict(self) -> dict[str, Any]:
        """What a checkpoint must hold beside the states of the model and of the optimiser."""
        return {"steps": self.steps}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on from a checkpoint, once the model and the optimiser have been loaded from it."""
        self.steps = state["steps"]

    @abstractmethod
    def before_step(self) -> None:
        """Called with the gradients of the whole network, before the optimiser uses them."""

    @abstractmethod
    def settle(self) -> None:
        """Called when the optimiser is done with the weights, even where a gradient scaler had it skip the step."""

    def after_step(self) -> None:
        """Called after each step that the optimiser really took; methods that prune do it here."""
        self.steps += 1

    def detach(self) -> None:
        """Take the hooks off the optimiser; the weights stay as they are."""
        for hook in self._hooks:
            hook.remove()

    @property
    def step_is_skipped(self) -> bool:
        # A fused optimiser under a gradient scaler is called even when the scaler has it skip the step.
        found_inf = getattr(self.optimizer, "found_inf", None)
        return found_inf is not None and bool(found_inf.item())

    def _before_step(self, _: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        this, *rest = args
        closure = rest[0] if rest else kwargs.get("closure")
        if closure is None:
            with torch.no_grad():
                self.before_step()
            return None

        def closure_and_then() -> Any:
            loss = closure()
            with torch.no_grad():
                self.before_step()
            return loss

        return (this,), {"closure": closure_and_then}

    @torch.no_grad()
    def _after_step(self, *_: Any) -> None:
        self.settle()
        if not self.step_is_skipped:
            self.after_step()


def _require_trained(weights: Mapping[str, Tensor], optimizer: torch.optim.Optimizer) -> None:
    trained = {id(parameter) for group in optimizer.param_groups for parameter in group["params"]}
    if trained.isdisjoint(map(id, weights.values())):
        raise UsageError(
            "this optimizer trains no convolution or linear weight of the model, so it cannot prune it. "
            "Make it from model.parameters(), once the model is what you train."
        )
