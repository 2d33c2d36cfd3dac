"""The base class of pruners: hooks that run before and after each optimiser step."""

import sys
from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor
from torch.optim import Optimizer

from asni.pruning.masks import Masks, count, weight_count

# The code of the wrapper that torch puts around the `step` of every optimiser class to call the hooks.
HOOKED_STEP = Optimizer.profile_hook_step(Optimizer.step).__code__


class Pruner(ABC):
    """Prunes through optimiser hooks, so that the training loop does not change.

    It prunes `weights`, a subset of the optimiser's parameters, and does not touch the others.
    """

    def __init__(self, optimizer: Optimizer, weights: Mapping[str, Tensor]):
        self.weights = dict(weights)
        self.optimizer = optimizer
        self.steps = 0
        self._hooks = [
            optimizer.register_step_pre_hook(self._before_step),
            optimizer.register_step_post_hook(self._after_step),
        ]

    def __repr__(self) -> str:
        alive, total = count(self.masks), weight_count(self.weights)
        # Rounded down: 99.99 % must not look like everything.
        percent = 1000 * (total - alive) // max(total, 1) / 10
        return f"{type(self).__name__}({self.progress}, {percent:g} % pruned, {alive:,} alive)"

    @property
    def progress(self) -> str:
        """How far the training is, as text for the repr."""
        return f"step {self.steps:,}"

    @property
    @abstractmethod
    def masks(self) -> Masks:
        """Which weights live."""

    def state_dict(self) -> dict[str, Any]:
        """The pruner's state, to save in a checkpoint with the states of the model and the optimiser."""
        return {"steps": self.steps}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Resume from a checkpoint: create the pruner, then load model, optimiser and pruner, in this order.

        A pruner created after loading would prune the loaded weights before it knows the step.
        """
        self.steps = state["steps"]

    @abstractmethod
    def before_step(self) -> None:
        """Called with the gradients of the whole network, before the optimiser uses them."""

    @abstractmethod
    def settle(self) -> None:
        """Called when the optimiser is done with the weights, even if a gradient scaler skipped the step."""

    def after_step(self) -> None:
        """Called after each step that was not skipped; subclasses prune here."""
        self.steps += 1

    def detach(self) -> None:
        """Remove the hooks from the optimiser; the weights keep their values."""
        for hook in self._hooks:
            hook.remove()

    @property
    def step_is_skipped(self) -> bool:
        # A gradient scaler calls a fused optimiser even for a step that it skips.
        found_inf = getattr(self.optimizer, "found_inf", None)
        return found_inf is not None and bool(found_inf.item())

    def _before_step(self, _: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if self._is_inner_step():
            return None
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

        if rest:
            return (this, closure_and_then, *rest[1:]), kwargs
        return args, {**kwargs, "closure": closure_and_then}

    @torch.no_grad()
    def _after_step(self, *_: Any) -> None:
        if self._is_inner_step():
            return
        self.settle()
        if not self.step_is_skipped:
            self.after_step()

    def _is_inner_step(self) -> bool:
        """Whether this `step` was called from a subclass's `step`: torch runs the hooks for both."""
        if torch.compiler.is_compiling():
            return False
        steps, frame = 0, sys._getframe().f_back
        while frame is not None:
            steps += frame.f_code is HOOKED_STEP and frame.f_locals["args"][0] is self.optimizer
            frame = frame.f_back
        return steps > 1
