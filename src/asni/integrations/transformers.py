"""Pruning in the Trainer of Hugging Face transformers."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import torch
from torch.optim import Optimizer
from torch.utils.hooks import RemovableHandle

from asni.errors import UsageError
from asni.integrations.length import needs_length
from asni.pruning.pruner import Pruner

try:
    from transformers import TrainerCallback, TrainerControl, TrainerState, TrainingArguments
except ImportError as error:
    raise ImportError(
        f"asni.integrations.transformers needs {error.name}: pip install 'asni[transformers]'."
    ) from error

KEY = "asni"
"""Where a checkpoint's optimizer.pt holds the pruner's state: in the first parameter group.

The Trainer tells callbacks no path to resume from, and torch restores a group with whatever it holds.
"""


class SparsityCallback(TrainerCallback):
    """Prunes with `method` along the steps of the Trainer, which gives it the optimiser and the number of steps.

    The options are those of the method. Checkpoints hold the pruner's state, with that of the optimiser, and
    `train(resume_from_checkpoint=...)` resumes it. "sparsity" is logged. The Trainer clips by the gradients of living
    weights alone. A training that stops early, and a best model loaded at the end, are pruned to the target then: save
    with `trainer.save_model()`. `pruner` is the pruner of the last training.

    >>> import asni
    >>> callback = SparsityCallback(asni.GMP, sparsity=0.9)  # then Trainer(model, args, ..., callbacks=[callback])
    """

    pruner: Pruner

    def __init__(self, method: Callable[..., Pruner], **options: Any):
        self.method, self.options = method, options
        self._hooks: list[RemovableHandle] = []

    def on_train_begin(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        if args.load_best_model_at_end and args.save_only_model:
            raise UsageError(
                "load_best_model_at_end needs save_only_model=False: which weights of the best model are pruned is "
                "saved with the optimizer."
            )
        self._release()
        saved = kwargs["optimizer"].param_groups[0].pop(KEY, None)
        length = {"total_steps": state.max_steps} if needs_length(self.method, self.options) else {}
        self.pruner = self.method(kwargs["model"], kwargs["optimizer"], **length, **self.options)
        if state.global_step > 0:
            self._resume(saved, state.global_step)
        self._hook_into(state)

    def on_log(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any) -> None:
        if hasattr(self, "pruner"):
            # The history got a copy of the logs before this event.
            kwargs["logs"]["sparsity"] = state.log_history[-1]["sparsity"] = self.pruner.sparsity

    def on_train_end(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        if args.load_best_model_at_end and state.best_model_checkpoint is not None:
            # The Trainer has loaded the best weights, which were pruned by other masks than the last ones.
            self.pruner.load_state_dict(_saved_in(Path(state.best_model_checkpoint)))
        self.pruner.finish()
        self._release()

    def _resume(self, saved: Mapping[str, Any] | None, step: int) -> None:
        if saved is None:
            raise UsageError(
                f"the checkpoint of step {step} has no state of a pruner: it was saved without SparsityCallback, or "
                "with save_only_model. To prune from its weights on, load them into the model and start a new training."
            )
        if saved["step"] != step:
            raise UsageError(
                f"the state of the pruner in optimizer.pt is that of step {saved['step']}, but the checkpoint is that "
                f"of step {step}: the training in between was not pruned, or the file is that of another checkpoint."
            )
        self.pruner.load_state_dict(saved["pruner"])

    def _hook_into(self, state: TrainerState) -> None:
        pruner = self.pruner

        def save(_: Optimizer, saved: dict[str, Any]) -> None:
            saved["param_groups"][0][KEY] = {"step": state.global_step, "pruner": pruner.state_dict()}

        def mask(name: str) -> Callable[[torch.Tensor], None]:
            return lambda _: pruner.mask_gradient(name)

        # No event lies between the backward pass and the clipping.
        masking = [weight.register_post_accumulate_grad_hook(mask(name)) for name, weight in pruner.weights.items()]
        self._hooks = [pruner.optimizer.register_state_dict_post_hook(save), *masking]

    def _release(self) -> None:
        """End the pruner's part in this training, or in one that an error has ended."""
        if self._hooks:
            self.pruner.detach()
        for hook in self._hooks:
            hook.remove()
        self._hooks = []


def _saved_in(checkpoint: Path) -> Mapping[str, Any]:
    file = checkpoint / "optimizer.pt"
    groups = torch.load(file, map_location="cpu", weights_only=True, mmap=True)["param_groups"] if file.exists() else []
    if not groups or KEY not in groups[0]:
        raise UsageError(
            f"{checkpoint}, the best model, has no state of a pruner in optimizer.pt. The model has its weights, but "
            "they are not pruned to the target: prune them with asni.keep_largest, or train from them again."
        )
    state: Mapping[str, Any] = groups[0][KEY]["pruner"]
    return state
