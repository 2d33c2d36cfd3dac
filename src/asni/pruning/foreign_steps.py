"""Notices that another optimiser trains the weights of a pruner, which then never sees a step.

It happens when an optimiser is made anew, when a wrapper steps through an optimiser of its own, and when a model is
sharded after its pruner was made.
"""

import weakref
from typing import TYPE_CHECKING, Any

from torch.optim import Optimizer
from torch.optim.optimizer import register_optimizer_step_post_hook

from asni.pruning.messages import warn

if TYPE_CHECKING:
    from asni.pruning.pruner import Pruner

_pruners: "weakref.WeakSet[Pruner]" = weakref.WeakSet()
_changes = 0
_CHECKED = "_asni_checked_at"


def watch(pruner: "Pruner") -> None:
    """Warn when another optimiser steps the weights of this pruner."""
    global _changes
    _pruners.add(pruner)
    _changes += 1


def stop_watching(pruner: "Pruner") -> None:
    _pruners.discard(pruner)


def pruners_of(optimizer: Optimizer) -> "list[Pruner]":
    """The pruners that work through this optimiser."""
    return [pruner for pruner in _pruners if pruner.optimizer is optimizer]


def _after_any_step(optimizer: Optimizer, *_: Any) -> None:
    # Each optimiser is looked at once after a pruner was made, so that a step costs nothing.
    if vars(optimizer).get(_CHECKED) == _changes:
        return
    vars(optimizer)[_CHECKED] = _changes
    trained = {id(parameter) for group in optimizer.param_groups for parameter in group["params"]}
    held_here = {id(weight) for pruner in pruners_of(optimizer) for weight in pruner.weights.values()}
    for pruner in list(_pruners):
        taken = [name for name, weight in pruner.weights_now().items() if id(weight) in trained - held_here]
        if taken and pruner.optimizer is not optimizer and not pruner.is_stepping:
            warn(
                f"another optimizer ({type(optimizer).__name__}) trains '{taken[0]}' and {len(taken) - 1} other layers "
                f"of {pruner!r}, which therefore neither prunes them nor keeps their zeros. Create the pruner from the "
                "optimizer that takes the steps, after the last change to the model, and detach the old one."
            )


register_optimizer_step_post_hook(_after_any_step)
