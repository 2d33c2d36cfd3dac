"""Lets kernels take the steps of an optimiser, between the hooks of everyone else."""

from collections.abc import Callable
from typing import Any

from torch import Tensor
from torch.optim import Optimizer

from asni.sparse.optimizers.in_place import InPlace
from asni.sparse.optimizers.torch_optimizers import require_known
from asni.sparse.steps import UnsupportedError


class NativeSteps:
    """Steps what `kernels()` can step, and leaves the rest to torch; the gradients are back when the step is done.

    It stands behind all hooks before a step, which may still change gradients, and before those that follow it.
    """

    def __init__(self, optimizer: Optimizer, kernels: Callable[[], InPlace | None]) -> None:
        self.optimizer, self.kernels = optimizer, kernels
        self._stepped: dict[Tensor, Tensor] = {}
        self._before = optimizer.register_step_pre_hook(self._step)
        self._after = optimizer.register_step_post_hook(self._bring_back)
        self.stand_between()

    def stand_between(self) -> None:
        """Take this place again: hooks may have joined."""
        before: Any = self.optimizer._optimizer_step_pre_hooks
        after: Any = self.optimizer._optimizer_step_post_hooks
        if next(reversed(before)) != self._before.id:
            before.move_to_end(self._before.id)
        if next(iter(after)) != self._after.id:
            after.move_to_end(self._after.id, last=False)

    def remove(self) -> None:
        self._before.remove()
        self._after.remove()

    def _step(self, optimizer: Optimizer, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        # Left over from a step that failed.
        self._stepped = {}
        if not self._is_plain(args, kwargs):
            return
        kernels = self.kernels()
        if kernels is not None:
            self._stepped = kernels.step()
        for parameter in self._stepped:
            parameter.grad = None

    def _bring_back(self, *_: Any) -> None:
        for parameter, gradient in self._stepped.items():
            parameter.grad = gradient
        self._stepped = {}

    def _is_plain(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
        """Whether this is a step without a closure or a gradient scaler, and no hook comes between it and torch's."""
        asked = (
            *args[1:],
            *kwargs.values(),
            *(getattr(self.optimizer, name, None) for name in ("grad_scale", "found_inf")),
        )
        if any(each is not None for each in asked):
            return False
        try:
            require_known(self.optimizer)
        except UnsupportedError:
            return False
        return bool(next(reversed(self.optimizer._optimizer_step_pre_hooks)) == self._before.id)
