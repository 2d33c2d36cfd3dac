"""A small recipe, and a trainer for it, that several tests share."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from rich.console import Console

from asni import recipes
from asni.recipes import Recipe
from asni.runs.run import Experiment
from asni.training.processes import make_fabric
from asni.training.progress import Bar, Progress
from asni.training.trainer import Trainer


def short_digits(epochs: int = 4) -> Recipe:
    return recipes.load("digits-fc").override(epochs=epochs)


def experiment(root: Path, recipe: Recipe | None = None, seed: int = 0) -> Experiment:
    return Experiment(recipe or short_digits(), seed, "fp32", root)


def trainer(root: Path, recipe: Recipe | None = None, seed: int = 0, progress: Progress | None = None) -> Trainer:
    return Trainer(experiment(root, recipe, seed), make_fabric("cpu"), progress or Progress(Console(quiet=True)))


class StopAfter(Progress):
    """Presses Ctrl-C in the given step."""

    def __init__(self, steps: int):
        super().__init__(Console(quiet=True))
        self.steps_left = steps

    @contextmanager
    def training(self, stage: str, epochs: int, steps: int, done: int) -> Iterator[Bar]:
        yield self

    def step(self) -> None:
        self.steps_left -= 1
        if self.steps_left == 0:
            raise KeyboardInterrupt

    def epoch(self, entry: Mapping[str, Any]) -> None:
        pass
