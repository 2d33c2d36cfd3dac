"""The torch optimiser behind what frameworks hand out."""

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
