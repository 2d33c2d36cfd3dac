"""Pruning in the Trainer of Hugging Face transformers."""

import sys
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

import torch
from transformers import Trainer, TrainerCallback, TrainerControl, TrainerState, TrainingArguments

from asni.errors import UsageError
from asni.pruning.pruner import Pruner

STATE = "asni.pt"
"""The pruner's state, beside the other files of a checkpoint."""


class SparsityCallback(TrainerCallback):
    """Prunes with `method` along the steps of the Trainer: `callbacks=[SparsityCallback(asni.GMP, sparsity=0.9)]`.

    The pruner's state is saved beside each checkpoint. "sparsity" is logged. Gradients of pruned weights are masked
    before the Trainer clips. A training that stops early is pruned to the target at its end.
    """

    pruner: Pruner

    def __init__(self, method: Callable[..., Pruner], **options: Any):
        self.method, self.options = method, options

    def on_train_begin(
        self,
        args: TrainingArguments,
        state: TrainerState,
        control: TrainerControl,
        **kwargs: Any,
    ) -> None:
        if hasattr(self, "pruner"):
            self.pruner.detach()
        length = {"total_steps": state.max_steps} if "sparsity" in self.options else {}
        self.pruner = self.method(kwargs["model"], kwargs["optimizer"], **self.options, **length)
        checkpoint = _resumed_from()
        if checkpoint is not None:
            self._load(checkpoint, state.global_step)
        self._handles = [w.register_post_accumulate_grad_hook(self._mask) for w in self.pruner.weights.values()]

    def _mask(self, weight: torch.Tensor) -> None:
        self.pruner.mask_gradients(weight)

    def _load(self, checkpoint: Path, step: int) -> None:
        file = checkpoint / STATE
        if not file.exists():
            raise UsageError(
                f"{checkpoint} has no {STATE}: it was saved without SparsityCallback. "
                "Load its weights into the model and start a new training instead."
            )
        saved = torch.load(file, map_location="cpu", weights_only=True)
        if saved["global_step"] != step:
            raise UsageError(f"{file} is of step {saved['global_step']}, but the checkpoint is of step {step}.")
        self.pruner.load_state_dict(saved["pruner"])

    def on_save(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any) -> None:
        if args.should_save and not state.is_hyper_param_search:
            directory = Path(str(args.output_dir)) / f"checkpoint-{state.global_step}"
            torch.save({"global_step": state.global_step, "pruner": self.pruner.state_dict()}, directory / STATE)

    def on_log(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any) -> None:
        if hasattr(self, "pruner"):
            kwargs["logs"]["sparsity"] = state.log_history[-1]["sparsity"] = self.pruner.sparsity

    def on_train_end(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        if args.load_best_model_at_end and state.best_model_checkpoint is not None:
            # The Trainer has loaded the best weights, which have masks of their own.
            best = torch.load(Path(state.best_model_checkpoint) / STATE, map_location="cpu", weights_only=True)
            self.pruner.load_state_dict(best["pruner"])
        self.pruner.finish()
        for handle in self._handles:
            handle.remove()
        self.pruner.detach()


def _resumed_from() -> Path | None:
    """What `Trainer.train(resume_from_checkpoint=...)` was called with: no event of the Trainer tells."""
    frame: FrameType | None = sys._getframe()
    while frame is not None and frame.f_code is not Trainer.train.__code__:
        frame = frame.f_back
    path = None if frame is None else frame.f_locals["resume_from_checkpoint"]
    return None if path is None else Path(path)
