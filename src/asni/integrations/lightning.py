"""Pruning in a Lightning Trainer."""

import math
from collections.abc import Callable
from typing import Any

from pytorch_lightning import Callback, LightningModule, Trainer
from torch.optim import Optimizer

from asni.errors import UsageError
from asni.pruning.pruner import Pruner


class SparsityCallback(Callback):
    """Prunes with `method` along the steps of the Trainer: `callbacks=[SparsityCallback(asni.GMP, sparsity=0.9)]`.

    The pruner's state is in the Trainer's checkpoints. "sparsity" is logged. Gradients of pruned weights are masked
    before the Trainer clips. A training that stops early is pruned to the target at its end.
    """

    pruner: Pruner

    def __init__(self, method: Callable[..., Pruner], **options: Any):
        self.method, self.options = method, options
        self._loaded: dict[str, Any] | None = None

    def on_train_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        if trainer.ckpt_path is not None and self._loaded is None:
            raise UsageError(
                f"{trainer.ckpt_path} has no state of a pruner: it was saved without SparsityCallback. "
                "Load its weights into the module and start a new training instead."
            )
        self.pruner = self.method(pl_module, _only_optimizer(trainer), **self.options, **_length(trainer, self.options))
        if self._loaded is not None:
            self.pruner.load_state_dict(self._loaded)
            self._loaded = None

    def on_before_optimizer_step(self, trainer: Trainer, pl_module: LightningModule, optimizer: Optimizer) -> None:
        self.pruner.mask_gradients()

    def on_train_batch_end(self, trainer: Trainer, pl_module: LightningModule, *_: Any) -> None:
        pl_module.log("sparsity", self.pruner.sparsity)

    def on_train_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        self.pruner.finish()
        self.pruner.detach()

    def state_dict(self) -> dict[str, Any]:
        return self.pruner.state_dict() if hasattr(self, "pruner") else {}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        # Lightning loads callbacks before the optimisers exist.
        self._loaded = state_dict


def _only_optimizer(trainer: Trainer) -> Optimizer:
    if len(trainer.optimizers) != 1:
        raise UsageError(
            f"the module has {len(trainer.optimizers)} optimizers; SparsityCallback prunes what one of them trains. "
            "Make a pruner for each in the module instead."
        )
    return trainer.optimizers[0]


def _length(trainer: Trainer, options: dict[str, Any]) -> dict[str, int]:
    if "sparsity" not in options:
        return {}
    steps = trainer.estimated_stepping_batches
    if not 0 < steps < math.inf:
        raise UsageError("the training has no end to plan the pruning by. Give Trainer(max_steps=...).")
    return {"total_steps": int(steps)}
