"""The optimiser of a recipe: one of PyTorch's by name, or a class of the user's own."""

import inspect
from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import nn

from asni.errors import UsageError
from asni.recipes import Recipe
from asni.recipes.own_code import article, described, imported, is_code
from asni.recipes.sections import Training


def make_optimizer(model: nn.Module, recipe: Recipe, *, fused: bool = True) -> torch.optim.Optimizer:
    """The recipe's optimiser; `fused` runs one kernel per step instead of several per parameter.

    Do not use `fused` with a gradient scaler: if the first step is skipped, PyTorch's fused SGD continues from an
    uninitialised momentum buffer.
    """
    training = recipe.training
    if is_code(training.optimizer):
        return own_optimizer(model.parameters(), training)
    common: dict[str, Any] = {"lr": training.lr, "weight_decay": training.weight_decay, "fused": fused}
    if training.optimizer == "sgd":
        return torch.optim.SGD(model.parameters(), momentum=training.momentum, nesterov=training.nesterov, **common)
    if training.optimizer == "adam":
        return torch.optim.Adam(model.parameters(), **common)
    return torch.optim.AdamW(model.parameters(), **common)


def own_optimizer(parameters: Iterable[nn.Parameter], training: Training) -> torch.optim.Optimizer:
    """Call a `package.module:Class` as `Class(parameters, lr=lr, **optimizer_options)`.

    `weight_decay` is passed if it is above 0; otherwise the default of the class holds, which need not be 0.
    """
    name, decay = training.optimizer, training.weight_decay
    options = {"lr": training.lr, **({"weight_decay": decay} if decay else {}), **training.optimizer_options}
    make = own_class(training)
    try:
        optimizer = make(parameters, **options)
    except Exception as error:
        given = ", ".join(f"{key}={value!r}" for key, value in options.items())
        raise UsageError(f"optimiser '{name}' failed for (parameters, {given}): {described(error)}") from error
    if not isinstance(optimizer, torch.optim.Optimizer):
        raise UsageError(f"optimiser '{name}' is {article(optimizer)}; it must be a torch.optim.Optimizer.")
    if _needs_closure(optimizer):
        raise UsageError(f"optimiser '{name}' needs a closure in every step, which a training from a recipe has not.")
    return optimizer


def own_class(training: Training) -> Callable[..., object]:
    """Import the class of the user's own."""
    return imported("optimiser", training.optimizer, "a class (parameters, lr, ...) -> torch.optim.Optimizer")


def _needs_closure(optimizer: torch.optim.Optimizer) -> bool:
    parameter = inspect.signature(type(optimizer).step).parameters.get("closure")
    return parameter is not None and parameter.default is parameter.empty
