"""The plan of a recipe before any training: sizes, steps, schedule and memory."""

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from asni.datasets import info_of
from asni.display import on_stderr
from asni.pruning.schedules import kept
from asni.recipes import Recipe, Size
from asni.recipes.open_points import open_points
from asni.recipes.own_code import is_code
from asni.recipes.sections import Training

if TYPE_CHECKING:
    from torch import Tensor, nn


def plan(recipe: Recipe) -> dict[str, Any]:
    """Build the recipe's network; returns its `outline` and the memory that training it takes.

    >>> from asni.recipes import load
    >>> plan(load("mnist-fc"))["nonzeros"]
    8335
    """
    with on_stderr().status("Loading torch"):
        import torch

        from asni import networks
        from asni.methods.lottery import counts
        from asni.methods.tickets import rewind_step
        from asni.pruning.layers import prunable
        from asni.pruning.masks import weight_count, weights_to_keep
        from asni.training.optimizers import own_optimizer

    info, pruning = info_of(recipe.dataset, recipe.dataset_options), recipe.pruning
    # A user's own function may read values, and tensors on the meta device have none.
    with torch.device("cpu" if is_code(recipe.network) else "meta"):
        model = networks.build(recipe.network, info.shape, info.classes, recipe.network_options)
    if is_code(recipe.training.optimizer):
        # Only to refuse a class that cannot be used, before anything is trained.
        own_optimizer([torch.nn.Parameter(torch.zeros(1))], recipe.training)
    weights = prunable(model, **pruning.layers)
    size = Size(
        parameters=sum(parameter.numel() for parameter in model.parameters()),
        prunable=weight_count(weights),
    )
    keep = weights_to_keep(weights, recipe.schedule(size.prunable).final, pruning.floor)
    prunings = len(counts(size.prunable, keep, **recipe.lottery.pace))
    facts = outline(recipe, size)
    return {
        **facts,
        "lottery_prunings": prunings,
        "lottery_rate": 1 - (keep / size.prunable) ** (1 / prunings),
        "lottery_rewind": rewind_step(recipe, recipe.training.epochs * facts["steps_per_epoch"]),
        "memory_bytes": memory_bytes(model, weights, recipe.training),
    }


def outline(recipe: Recipe, size: Size) -> dict[str, Any]:
    """Sizes, steps, and the schedule epoch by epoch; `nonzeros` counts every parameter that is not pruned."""
    epochs, curve, alpha = recipe.training.epochs, recipe.schedule(size.prunable), recipe.alpha(size.prunable)
    schedule = [_after(epoch, kept(size.prunable, curve(epoch, epochs)), size) for epoch in range(epochs)]
    last = schedule[-1]
    return {
        "recipe": recipe.variant_name,
        "network": recipe.network,
        "dataset": recipe.dataset,
        **size._asdict(),
        "epochs": epochs,
        "batch_size": recipe.training.batch_size,
        "steps_per_epoch": recipe.steps_per_epoch(info_of(recipe.dataset, recipe.dataset_options).train),
        "nonzeros": last["nonzeros"],
        "sparsity": last["sparsity"],
        "total_sparsity": 1 - last["nonzeros"] / size.parameters,
        "alpha": alpha if math.isfinite(alpha) else None,
        "beta": recipe.pruning.beta,
        "gamma": recipe.gamma,
        "least": recipe.pruning.least,
        "schedule": schedule,
        "paper": recipe.paper.model_dump(),
        "open_points": list(open_points([recipe])),
    }


def _after(epoch: int, alive: int, size: Size) -> dict[str, Any]:
    nonzeros = size.parameters - size.prunable + alive
    return {"epoch": epoch, "sparsity": 1 - alive / size.prunable, "nonzeros": nonzeros}


def memory_bytes(model: "nn.Module", weights: "Mapping[str, Tensor]", training: Training) -> int:
    """The memory of one process in fp32: parameters, gradients, optimiser state and masks.

    Activations are not included; they grow with the process's share of the batch. Nor is the state of an optimiser of
    the user's own, which is not known before its first step.
    """
    from asni.pruning.hold import mask_bytes

    copies = {"adam": 4, "adamw": 4, "sgd": 3 if training.momentum else 2}.get(training.optimizer, 2)
    values = sum(parameter.numel() * parameter.element_size() for parameter in model.parameters())
    return copies * values + sum(weights[name].numel() * width for name, width in mask_bytes(weights).items())
