"""A small recipe, and a trainer for it, that several tests share."""

from pathlib import Path

from rich.console import Console

from asni import recipes
from asni.processes import make_fabric
from asni.progress import Progress
from asni.recipes import Recipe
from asni.runs import Job
from asni.training import Trainer


def short_digits(epochs: int = 4) -> Recipe:
    return recipes.load("digits-fc").override(epochs=epochs)


def job(home: Path, recipe: Recipe | None = None, seed: int = 0) -> Job:
    return Job(recipe or short_digits(), seed, "fp32", lambda stage: home / stage)


def trainer(home: Path, recipe: Recipe | None = None, seed: int = 0, progress: Progress | None = None) -> Trainer:
    return Trainer(job(home, recipe, seed), make_fabric("cpu"), progress or Progress(Console(quiet=True)))
