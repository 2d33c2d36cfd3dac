"""What a recipe will do, before any training."""

from typing import Any

import torch
from torch import nn

from asni import networks
from asni.datasets import info_of
from asni.pruning.hold import mask_bytes
from asni.pruning.masks import prunable
from asni.pruning.schedules import kept
from asni.recipes import Recipe
from asni.recipes.recipe import Training


def plan(recipe: Recipe) -> dict[str, Any]:
    """Sizes, steps, and the schedule epoch by epoch; `nonzeros` counts every parameter that is not pruned.

    >>> from asni.recipes import load
    >>> plan(load("mnist-fc"))["nonzeros"]
    8330
    """
    info = info_of(recipe.dataset)
    # A user's own function may look at values, of which there are none on the meta device.
    with torch.device("cpu" if ":" in recipe.network else "meta"):
        model = networks.build(recipe.network, info.shape, info.classes, recipe.network_options)
    parameters = sum(parameter.numel() for parameter in model.parameters())
    candidates = sum(weight.numel() for weight in prunable(model).values())
    epochs = recipe.training.epochs
    schedule = [
        _after(epoch, kept(candidates, recipe.schedule(epoch, epochs)), candidates, parameters)
        for epoch in range(epochs)
    ]
    last = schedule[-1]
    return {
        "recipe": recipe.variant_name,
        "network": recipe.network,
        "dataset": recipe.dataset,
        "parameters": parameters,
        "prunable": candidates,
        "epochs": epochs,
        "batch_size": recipe.training.batch_size,
        "steps_per_epoch": recipe.steps_per_epoch(info.train),
        "memory_bytes": memory_bytes(model, recipe.training),
        "nonzeros": last["nonzeros"],
        "sparsity": last["sparsity"],
        "total_sparsity": 1 - last["nonzeros"] / parameters,
        "alpha": recipe.schedule.alpha(epochs),
        "beta": recipe.pruning.beta,
        "gamma": recipe.gamma,
        "schedule": schedule,
    }


def memory_bytes(model: nn.Module, training: Training) -> int:
    """What one process holds of the network in fp32: parameters, gradients, optimiser state and masks.

    The activations come on top; they grow with the process's share of the batch.
    """
    copies = {"adam": 4, "adamw": 4, "sgd": 3 if training.momentum else 2}[training.optimizer]
    values = sum(parameter.numel() * parameter.element_size() for parameter in model.parameters())
    weights = prunable(model)
    return copies * values + sum(weights[name].numel() * width for name, width in mask_bytes(weights).items())


def _after(epoch: int, alive: int, candidates: int, parameters: int) -> dict[str, Any]:
    return {"epoch": epoch, "sparsity": 1 - alive / candidates, "nonzeros": parameters - candidates + alive}
