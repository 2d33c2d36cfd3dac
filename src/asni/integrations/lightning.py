"""Pruning in the Trainer of Lightning."""

import math
from collections.abc import Callable
from typing import Any

from torch.optim import Optimizer

from asni.errors import UsageError
from asni.integrations.length import needs_length
from asni.pruning.pruner import Pruner

try:
    from pytorch_lightning import Callback, LightningModule, Trainer
except ImportError as error:
    raise ImportError(f"asni.integrations.lightning needs {error.name}: pip install 'asni[lightning]'.") from error


class SparsityCallback(Callback):
    """Prunes with `method` along the steps of the Trainer, which gives it the optimiser and the number of steps.

    The options are those of the method. Checkpoints hold the pruner's state, and `fit(ckpt_path=...)` resumes it.
    "sparsity" is logged. The Trainer clips by the gradients of living weights alone. A training that stops early is
    pruned to the target at its end. `pruner` is the pruner of the last training.

    >>> import asni
    >>> callback = SparsityCallback(asni.GMP, sparsity=0.9)
    >>> trainer = Trainer(max_epochs=10, callbacks=[callback], logger=False)  # then trainer.fit(module, loader)
    """

    pruner: Pruner

    def __init__(self, method: Callable[..., Pruner], **options: Any):
        self.method, self.options = method, options
        self._loaded: dict[str, Any] = {}

    def setup(self, trainer: Trainer, pl_module: LightningModule, stage: str) -> None:
        # A checkpoint may have been loaded for a test, before this training.
        self._loaded = {}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        # The optimisers do not exist yet.
        self._loaded = state_dict

    def state_dict(self) -> dict[str, Any]:
        return self.pruner.state_dict() if hasattr(self, "pruner") else {}

    def on_train_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        if trainer.ckpt_path is not None and not self._loaded:
            raise UsageError(
                f"{trainer.ckpt_path} has no state of a pruner: it was saved without SparsityCallback. "
                "To prune from its weights on, load them into the module and start a new training."
            )
        # A second fit continues to count, but its pruner starts anew.
        before = 0 if self._loaded else trainer.global_step
        length = {"total_steps": _steps(trainer) - before} if needs_length(self.method, self.options) else {}
        self.pruner = self.method(pl_module, _only_optimizer(trainer), **length, **self.options)
        if self._loaded:
            self.pruner.load_state_dict(self._loaded)

    def on_before_optimizer_step(self, trainer: Trainer, pl_module: LightningModule, optimizer: Optimizer) -> None:
        self.pruner.mask_gradients()

    def on_train_batch_end(self, trainer: Trainer, pl_module: LightningModule, *_: Any) -> None:
        pl_module.log("sparsity", self.pruner.sparsity)

    def on_train_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        self.pruner.finish()

    def on_fit_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        # Callbacks that average weights put the average into the module at the end of the training.
        self.pruner.finish()
        self.pruner.detach()


def _only_optimizer(trainer: Trainer) -> Optimizer:
    if len(trainer.optimizers) != 1:
        raise UsageError(
            f"the module has {len(trainer.optimizers)} optimizers, and SparsityCallback prunes with one. "
            "Leave the callback out and make a pruner for each optimizer in on_train_start of the module."
        )
    return trainer.optimizers[0]


def _steps(trainer: Trainer) -> int:
    steps = trainer.estimated_stepping_batches
    if not 0 < steps < math.inf:
        raise UsageError("the training has no end along which to prune. Give Trainer(max_steps=...).")
    return int(steps)
