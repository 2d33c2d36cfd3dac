"""What torch's SGD, Adam and AdamW are told, and what they keep: settings for the kernel, state as torch makes it."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.optim import SGD, Adam, AdamW, Optimizer

from asni.engine.graph import Array
from asni.sparse.steps import UnsupportedError

OPTIMISERS = (SGD, Adam, AdamW)
"""In the order of native/optimise.h."""

SETTINGS = 12
"""How many numbers the kernel is told."""

Group = Mapping[str, Any]
_REFUSED = ("amsgrad", "capturable", "differentiable")


@dataclass
class Progress:
    """How many steps Adam has taken on a parameter, and whether SGD has its momentum."""

    steps: int = 0
    has_buffer: bool = False

    def advance(self, group: Group) -> None:
        """Count a step."""
        self.steps += 1
        self.has_buffer |= bool(group.get("momentum", 0))


def require_known(optimizer: Optimizer) -> None:
    """Refuse an optimiser whose steps the kernel does not take."""
    kind = type(optimizer)
    if kind not in OPTIMISERS:
        known = ", ".join(each.__name__ for each in OPTIMISERS)
        raise UnsupportedError(f"the optimiser is {kind.__module__}.{kind.__qualname__}; the kernels have {known}")
    for option in _REFUSED:
        if any(group.get(option) for group in optimizer.param_groups):
            raise UnsupportedError(f"{kind.__name__} with {option}=True, which the kernels do not have")


def kind_of(optimizer: Optimizer, group: Group) -> int:
    """The number of an optimiser in the native core."""
    kind = AdamW if group.get("decoupled_weight_decay") else type(optimizer)
    return OPTIMISERS.index(kind)


def fill(settings: Array, group: Group, progress: Progress) -> None:
    """Write what the kernel is told for the next step, in the order of its `Settings`."""
    settings[:3] = float(group["lr"]), float(group["weight_decay"]), group["maximize"]
    if "momentum" in group:
        settings[3:7] = group["momentum"], group["dampening"], group["nesterov"], progress.has_buffer
    else:
        beta1, beta2 = map(float, group["betas"])
        past, past_squares = (1 - beta ** (progress.steps + 1) for beta in (beta1, beta2))
        settings[7:] = beta1, beta2, group["eps"], past, math.sqrt(past_squares)


def progress_of(optimizer: Optimizer, parameter: Tensor) -> Progress:
    """What the optimiser's state says of a parameter."""
    state = optimizer.state.get(parameter, {})
    return Progress(int(state.get("step", 0)), state.get("momentum_buffer") is not None)


def keep_progress(optimizer: Optimizer, parameter: Tensor, group: Group, progress: Progress) -> None:
    """Write the progress into the optimiser's state; what is missing there is made as torch makes it, of zeros."""
    if isinstance(optimizer, SGD):
        if progress.has_buffer and optimizer.state[parameter].get("momentum_buffer") is None:
            optimizer.state[parameter]["momentum_buffer"] = _zeros_like(parameter)
        return
    if not progress.steps and not optimizer.state.get(parameter):
        return
    state = optimizer.state[parameter]
    if not state:
        single = group["fused"] or torch.get_default_dtype() != torch.float64
        state["step"] = torch.zeros((), dtype=torch.float32 if single else torch.float64)
        state["exp_avg"], state["exp_avg_sq"] = _zeros_like(parameter), _zeros_like(parameter)
    state["step"].fill_(progress.steps)


def _zeros_like(parameter: Tensor) -> Tensor:
    return torch.zeros_like(parameter, memory_format=torch.preserve_format, requires_grad=False)
