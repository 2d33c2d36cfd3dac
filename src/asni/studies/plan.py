"""The plan of a recipe before any training: sizes, steps, schedule and memory."""

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from asni.datasets import info_of
from asni.display import on_stderr
from asni.errors import AsniError
from asni.pruning.schedules import kept
from asni.recipes import Recipe, Size
from asni.recipes.open_points import open_points
from asni.recipes.own_code import is_code
from asni.recipes.prunings import prunings
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
    # A user's own function may read values, and layers that are left out are counted by their nonzeros. Tensors on the
    # meta device have neither.
    needs_values = is_code(recipe.network) or pruning.include or pruning.exclude
    with torch.device("cpu" if needs_values else "meta"):
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
    rounds = len(counts(size.prunable, keep, **recipe.lottery.pace))
    facts = outline(recipe, size)
    return {
        **facts,
        **_multiplications(recipe, model, weights, keep),
        "lottery_prunings": rounds,
        "lottery_rate": 1 - (keep / size.prunable) ** (1 / rounds),
        "lottery_rewind": rewind_step(recipe, recipe.training.epochs * facts["steps_per_epoch"]),
        "memory_bytes": memory_bytes(model, weights, recipe.training),
    }


def _multiplications(
    recipe: Recipe, model: "nn.Module", weights: "Mapping[str, Tensor]", keep: int
) -> dict[str, int | list[float] | None]:
    """Those of one image in the dense network, and the range of fractions that so many weights can take."""
    from asni.pruning.mac_density import density_range, macs_goal

    example = (1, *info_of(recipe.dataset, recipe.dataset_options).shape)
    pruning = recipe.pruning
    try:
        goal = macs_goal(model, weights, keep, example, pruning.macs or 1.0, pruning.floor)
    except AsniError:
        if pruning.macs is not None:
            raise
        # Nobody asked for them, and a network whose layers are not known trains all the same.
        return {"macs": None, "mac_density_range": None}
    return {"macs": round(goal.budget.whole), "mac_density_range": list(density_range(goal))}


def outline(recipe: Recipe, size: Size) -> dict[str, Any]:
    """Sizes, steps, and the schedule epoch by epoch; `nonzeros` counts every parameter that is not pruned."""
    steps_per_epoch = recipe.steps_per_epoch(info_of(recipe.dataset, recipe.dataset_options).train)
    planned = prunings(recipe, steps_per_epoch, size.prunable)
    schedule = [_after(epoch, share, recipe, size) for epoch, share in enumerate(planned.sparsities)]
    last = schedule[-1]
    return {
        "recipe": recipe.variant_name,
        "network": recipe.network,
        "dataset": recipe.dataset,
        **size._asdict(),
        "epochs": recipe.training.epochs,
        "batch_size": recipe.training.batch_size,
        "steps_per_epoch": steps_per_epoch,
        "nonzeros": last["nonzeros"],
        "sparsity": last["sparsity"],
        "total_sparsity": 1 - last["nonzeros"] / size.parameters,
        "mac_budget": recipe.pruning.macs,
        "curve": recipe.pruning.schedule,
        "alpha": planned.alpha if planned.alpha is not None and math.isfinite(planned.alpha) else None,
        "beta": recipe.pruning.beta,
        "gamma": recipe.gamma,
        "least": recipe.pruning.least,
        "prune_every": planned.every,
        "schedule": schedule,
        "paper": recipe.paper.model_dump(),
        "open_points": list(open_points([recipe])),
    }


def _after(epoch: int, sparsity: float, recipe: Recipe, size: Size) -> dict[str, Any]:
    """The network after an epoch; a budget falls with the sparsity, from all multiplications to its own."""
    alive, macs = kept(size.prunable, sparsity), recipe.pruning.macs
    row = {
        "epoch": epoch,
        "sparsity": 1 - alive / size.prunable,
        "nonzeros": size.parameters - size.prunable + alive,
    }
    if macs is not None:
        row["mac_density"] = 1 - (1 - macs) * sparsity / recipe.schedule(size.prunable).final
    return row


def memory_bytes(model: "nn.Module", weights: "Mapping[str, Tensor]", training: Training) -> int:
    """The memory of one process in fp32: parameters, gradients, optimiser state and masks.

    Activations are not included; they grow with the process's share of the batch. Nor is the state of an optimiser of
    the user's own, which is not known before its first step.
    """
    from asni.pruning.hold import mask_bytes

    copies = {"adam": 4, "adamw": 4, "sgd": 3 if training.momentum else 2}.get(training.optimizer, 2)
    values = sum(parameter.numel() * parameter.element_size() for parameter in model.parameters())
    return copies * values + sum(weights[name].numel() * width for name, width in mask_bytes(weights).items())
