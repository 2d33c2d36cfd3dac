"""Trainings of a moment, on the digits."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from io import StringIO
from pathlib import Path
from typing import Any

from rich.console import Console

from asni.processes import make_fabric
from asni.progress import Bar, Progress
from asni.recipes import Recipe
from asni.runs import Job
from asni.training import Trainer

OPTIMIZERS: dict[str, dict[str, Any]] = {
    "sgd": {"optimizer": "sgd", "lr": 0.1, "momentum": 0.9, "weight_decay": 1e-3, "lr_policy": "cosine"},
    "adam": {"optimizer": "adam", "lr": 1e-2, "weight_decay": 1e-3},
}


def small_recipe(network: str = "normed", optimizer: str = "adam", epochs: int = 4, sparsity: float = 0.6) -> Recipe:
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
            "pruning": {"sparsity": sparsity},
        }
    )


def small_trainer(directory: Path, recipe: Recipe, *, progress: Progress | None = None, seed: int = 0) -> Trainer:
    silent = Progress(Console(file=StringIO()))
    return Trainer(Job(recipe, seed, "fp32", directory.joinpath), make_fabric("cpu"), progress or silent)


class StopAfter(Progress):
    """The user presses Ctrl-C when that many steps were taken."""

    def __init__(self, steps: int):
        super().__init__(Console(file=StringIO()))
        self.left = steps

    @contextmanager
    def training(self, stage: str, epochs: int, steps: int, done: int) -> Iterator[Bar]:
        yield self

    def step(self) -> None:
        self.left -= 1
        if not self.left:
            raise KeyboardInterrupt

    def epoch(self, entry: Mapping[str, Any]) -> None:
        """Nobody looks."""
