"""Deep-copied and unpickled optimisers say that they lost their hooks, and with them the masks."""

from collections.abc import Callable
from functools import partial
from typing import Any, cast

from torch.optim import Optimizer

from asni.pruning.messages import warn


def warn_in_copies(optimizer: Optimizer, pruner: str) -> None:
    """Let every copy of the optimiser warn that this pruner does not work on it."""
    # An attribute of the instance: copy and pickle prefer it to the method of the class.
    vars(optimizer)["__reduce_ex__"] = partial(_reduced, optimizer, pruner)


def stop_warning(optimizer: Optimizer) -> None:
    vars(optimizer).pop("__reduce_ex__", None)


def _reduced(optimizer: Optimizer, pruner: str, protocol: int) -> tuple[Any, ...]:
    make, arguments, *rest = cast(tuple[Any, ...], type(optimizer).__reduce_ex__(optimizer, protocol))
    return (_made_without, (pruner, make, *arguments), *rest)


def _made_without(pruner: str, make: Callable[..., Optimizer], *arguments: Any) -> Optimizer:
    warn(
        f"this copy of an optimizer does not have the {pruner} of the original, so pruned weights grow again. "
        "Create a pruner for it: asni.Hold(model, optimizer) keeps the zeros, a new pruner resumes from a state_dict."
    )
    return make(*arguments)
