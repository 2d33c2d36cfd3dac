"""Notices gradient accumulation, the usual reason why an optimiser takes far fewer steps than a loader has batches."""

from torch import Tensor

from asni.pruning.messages import warn

STEPS_WATCHED = 3


class BackwardPasses:
    """Counts the backward passes that reach a weight during the first optimiser steps."""

    def __init__(self, weight: Tensor):
        self.passes = 0
        self._hook = weight.register_post_accumulate_grad_hook(self._count)

    def _count(self, _: Tensor) -> None:
        self.passes += 1

    def after_step(self, steps: int, declared: int) -> bool:
        """Whether to keep watching; warns if every step follows several backward passes."""
        if steps < STEPS_WATCHED:
            return True
        self.stop()
        each = self.passes // steps
        if each > 1:
            warn(
                f"each optimiser step follows {each} backward passes, and {declared:,} optimiser steps were declared. "
                "That is right if all passes are on one batch. "
                f"If steps_per_epoch is the number of batches, the training ends after {declared // each:,} steps, "
                f"short of its sparsity: pass steps_per_epoch=len(loader) // {each}, or total_steps=, if you know them."
            )
        return False

    def stop(self) -> None:
        self._hook.remove()
