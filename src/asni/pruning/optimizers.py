"""The torch optimiser behind what frameworks hand out."""

import sys
from collections.abc import Iterator
from types import FrameType

from torch import Tensor
from torch.optim import Optimizer

from asni.errors import UsageError


def unwrapped(optimizer: object) -> Optimizer:
    """The optimiser whose hooks run at each step: the wrappers of accelerate and Lightning have none of their own."""
    while "_optimizer_step_pre_hooks" not in getattr(optimizer, "__dict__", {}):
        inner = getattr(optimizer, "optimizer", None)
        if inner is None or inner is optimizer:
            raise UsageError(f"optimizer must be an optimizer of torch, not {type(optimizer).__name__}.")
        optimizer = inner
    assert isinstance(optimizer, Optimizer)
    return optimizer


def trained_count(optimizer: Optimizer) -> int:
    """How many parameters the optimiser trains; it changes with `add_param_group` and with unfreezing."""
    return sum(parameter.requires_grad for group in optimizer.param_groups for parameter in group["params"])


def calls_parent_step(optimizer: Optimizer) -> bool:
    """Whether its `step` may call that of a parent class, so that torch runs the hooks of one step more than once."""
    return sum("step" in vars(kind) for kind in type(optimizer).__mro__ if kind is not Optimizer) > 1


def only_makes_state(optimizer: Optimizer) -> bool:
    """Whether this step trains nothing: torch.distributed.checkpoint takes one to create the state it loads into."""
    lr = optimizer.param_groups[0].get("lr")
    # Looking at a number on a GPU would wait for it, and the step in question has its learning rate on the CPU.
    if (isinstance(lr, Tensor) and lr.device.type != "cpu") or lr != 0:
        return False
    return any(frame.f_code.co_name == "_init_optim_state" for frame in _callers())


def _callers() -> Iterator[FrameType]:
    frame = sys._getframe().f_back
    while frame is not None:
        yield frame
        frame = frame.f_back


# The code of the wrapper that torch puts around the `step` of every optimiser class to call the hooks.
HOOKED_STEP = Optimizer.profile_hook_step(Optimizer.step).__code__


def is_inner_step(optimizer: Optimizer) -> bool:
    """Whether the `step` that runs was called from a subclass's `step`: torch runs the hooks for both."""
    steps = [frame for frame in _callers() if frame.f_code is HOOKED_STEP and frame.f_locals["args"][0] is optimizer]
    return len(steps) > 1
