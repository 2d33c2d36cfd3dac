"""A small recipe, and a trainer for it, that several tests share."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from rich.console import Console

from asni import recipes
from asni.pruning.hold import Hold
from asni.recipes import Recipe
from asni.runs.run import Experiment
from asni.training.processes import make_fabric
from asni.training.progress import Bar, Progress
from asni.training.round import MakePruner
from asni.training.trainer import Trainer


def short_digits(epochs: int = 4) -> Recipe:
    return recipes.load("digits-fc").override(epochs=epochs)


def experiment(root: Path, recipe: Recipe | None = None, seed: int = 0) -> Experiment:
    return Experiment(recipe or short_digits(), seed, "fp32", root)


def trainer(
    root: Path, recipe: Recipe | None = None, seed: int = 0, progress: Progress | None = None, **options: Any
) -> Trainer:
    progress = progress or Progress(Console(quiet=True))
    return Trainer(experiment(root, recipe, seed), make_fabric("cpu"), progress, **options)


class StopAfter(Progress):
    """Presses Ctrl-C in the given step."""

    def __init__(self, steps: int):
        super().__init__(Console(quiet=True))
        self.steps_left = steps

    @contextmanager
    def training(self, stage: str, epochs: int, steps: int, done: int, seconds: float = 0.0) -> Iterator[Bar]:
        yield self

    def step(self) -> None:
        self.steps_left -= 1
        if self.steps_left == 0:
            raise KeyboardInterrupt

    def evaluating(self) -> None:
        pass

    def epoch(self, entry: Mapping[str, Any]) -> None:
        pass


def diverging_in_step(step: int) -> MakePruner:
    """Makes a pruner that breaks a weight in the given step."""

    class Diverging(Hold):
        steps = 0

        def after_step(self) -> None:
            self.steps += 1
            if self.steps == step:
                next(iter(self.weights.values())).data[0, 0] = float("nan")

    return Diverging
