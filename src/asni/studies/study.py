"""Recipes x seeds x methods: which runs a study consists of, and what is missing."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from statistics import mean, stdev
from typing import Any

from asni.errors import UsageError
from asni.methods import METHODS, Method
from asni.recipes import Recipe
from asni.runs.run import Experiment, Run


@dataclass(frozen=True, eq=False)
class Task:
    """One method on one seed of one recipe. `source` is how the user named the recipe: a name or a path."""

    source: str
    experiment: Experiment
    method: Method

    def __str__(self) -> str:
        return f"{self.experiment} {self.method.name}"

    @property
    def run(self) -> Run:
        """The run that the method ends with."""
        return self.experiment.run(self.method.name)

    @property
    def log(self) -> Path:
        """What a process of its own prints."""
        return self.experiment.home / f"{self.method.name}.log"

    def arguments(self, device: str) -> list[str]:
        """`asni` with these arguments trains it, or resumes it."""
        experiment = self.experiment
        words = ["train", self.source, "--method", self.method.name, "--seed", str(experiment.seed)]
        words += experiment.recipe.overrides.arguments()
        return [
            *words,
            "--device",
            device,
            "--precision",
            experiment.precision,
            "--out",
            str(experiment.root),
            "--wait",
        ]

    def depends_on(self, other: "Task") -> bool:
        """Whether the other one's run is needed first."""
        return self.experiment is other.experiment and other.method.name in self.method.needs


@dataclass(frozen=True)
class Study:
    """What is trained: every method on every seed of every recipe. `recipes` are by the name that the user gave."""

    recipes: Mapping[str, Recipe]
    seeds: Sequence[int]
    methods: Sequence[str]
    precision: str
    root: Path

    def __post_init__(self) -> None:
        by_name: dict[str, str] = {}
        for source, recipe in self.recipes.items():
            if (other := by_name.setdefault(recipe.variant_name, source)) != source:
                raise UsageError(f"{source} and {other} have one name, and would share directories.")
            for method in self.methods:
                METHODS[method].require_heeds(recipe)

    def experiments(self, source: str) -> list[Experiment]:
        """The seeds of one recipe."""
        return [Experiment(self.recipes[source], seed, self.precision, self.root) for seed in self.seeds]

    @cached_property
    def tasks(self) -> list[Task]:
        return [
            Task(source, experiment, METHODS[method])
            for source in self.recipes
            for experiment in self.experiments(source)
            for method in self.methods
        ]

    def missing(self) -> list[Task]:
        """The tasks to train. A damaged result is an error before anything is trained."""
        return [task for task in self.tasks if not task.run.finished]


def trained(experiment: Experiment, methods: Iterable[str]) -> bool:
    """Whether all these methods are finished; answers without loading torch."""
    return all(experiment.run(method).finished for method in methods)


def over_seeds(results: Sequence[Mapping[str, Any]], averaged: Iterable[str]) -> dict[str, Any]:
    """Several seeds of one training: the mean accuracy, its standard deviation, and the means of what is `averaged`.

    >>> results = [{"accuracy": 90.0, "steps": 5, "directory": "a"}, {"accuracy": 92.0, "steps": 7, "directory": "b"}]
    >>> over = over_seeds(results, ["steps"])
    >>> over["accuracy"], over["spread"], over["steps"], over["directories"]
    (91.0, 1.4142135623730951, 6, ['a', 'b'])
    """
    accuracies = [result["accuracy"] for result in results]
    return {
        "accuracy": mean(accuracies) if results else None,
        "spread": stdev(accuracies) if len(results) > 1 else None,
        "seeds": len(results),
        **{key: mean(result[key] for result in results) if results else None for key in averaged},
        "accuracies": accuracies,
        "directories": [result["directory"] for result in results],
    }
