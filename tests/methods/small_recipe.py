"""A training of a moment, on the digits."""

from typing import Any

from asni.recipes import Recipe

OPTIMIZERS: dict[str, dict[str, Any]] = {
    "sgd": {"optimizer": "sgd", "lr": 0.1, "momentum": 0.9, "weight_decay": 1e-3, "lr_policy": "cosine"},
    "adam": {"optimizer": "adam", "lr": 1e-2, "weight_decay": 1e-3},
}

NEEDS: dict[str, dict[str, Any]] = {"asni-1-macs": {"macs": 0.5}}
"""What a method needs in its recipe."""


def small_recipe(
    network: str = "normed", optimizer: str = "adam", epochs: int = 4, sparsity: float = 0.6, **pruning: Any
) -> Recipe:
    return Recipe.model_validate(
        {
            "name": "small",
            "dataset": "digits",
            "network": f"tests.methods.small_networks:{network}",
            "training": {
                "epochs": epochs,
                "batch_size": 30,
                "steps_per_epoch": 3,
                "threads": 1,
                **OPTIMIZERS[optimizer],
            },
            "pruning": {"sparsity": sparsity, **pruning},
        }
    )
