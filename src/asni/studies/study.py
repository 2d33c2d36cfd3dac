"""Recipes x seeds x methods: the runs of a study, and which of them are missing."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from statistics import mean, stdev
from typing import Any

from asni.errors import UsageError
from asni.methods import METHODS, Method, unused
from asni.recipes import Recipe
from asni.runs.run import Experiment, Run


@dataclass(frozen=True, eq=False)
class PlannedRun:
    """One method on one seed of one recipe. `source` is the name or path of the recipe as the user gave it."""

    source: str
    experiment: Experiment
    method: Method

    def __str__(self) -> str:
        return f"{self.experiment} {self.method.name}"

    @property
    def run(self) -> Run:
        """The run of the method's last training."""
        return self.experiment.run(self.method.name)

    @property
    def trainings(self) -> list[Run]:
        """The trainings that led to its result, itself the last one; only if it is finished."""
        return [self.experiment.round(stage) for stage in self.run.result["rounds"]]

    @property
    def log(self) -> Path:
        """The log of the process that trains it, if it is a separate one."""
        return self.experiment.home / f"{self.method.name}.log"

    def arguments(self, device: str, kernels: str) -> list[str]:
        """The arguments of `asni` that train or resume it."""
        experiment = self.experiment
        words = ["train", self.source, "--method", self.method.name, "--seed", str(experiment.seed)]
        words += experiment.recipe.overrides.arguments()
        return [
            *words,
            "--device",
            device,
            "--kernels",
            kernels,
            "--precision",
            experiment.precision,
            "--out",
            str(experiment.root),
            "--wait",
        ]

    def depends_on(self, other: "PlannedRun") -> bool:
        """Whether the other run is needed first."""
        return self.experiment is other.experiment and other.method.name in self.method.needs


@dataclass(frozen=True)
class Study:
    """Every method on every seed of every recipe. The keys of `recipes` are names or paths as the user gave them."""

    recipes: Mapping[str, Recipe]
    seeds: Sequence[int]
    methods: Sequence[str]
    precision: str
    root: Path

    def __post_init__(self) -> None:
        by_name: dict[str, str] = {}
        for source, recipe in self.recipes.items():
            if (other := by_name.setdefault(recipe.variant_name, source)) != source:
                raise UsageError(f"{source} and {other} have the same name and would share directories. Rename one.")
            for method in self.methods:
                METHODS[method].require_supports(recipe)
            if messages := list(unused(recipe, self.methods)):
                raise UsageError("\n".join(messages))

    def experiments(self, source: str) -> list[Experiment]:
        """The seeds of one recipe."""
        return [Experiment(self.recipes[source], seed, self.precision, self.root) for seed in self.seeds]

    @cached_property
    def runs(self) -> list[PlannedRun]:
        return [
            PlannedRun(source, experiment, METHODS[method])
            for source in self.recipes
            for experiment in self.experiments(source)
            for method in self.methods
        ]

    def missing(self) -> list[PlannedRun]:
        """The runs that are not finished. A damaged result raises an error before anything is trained."""
        return [planned for planned in self.runs if not planned.run.finished]


def trained(experiment: Experiment, methods: Iterable[str]) -> bool:
    """Whether all these methods are finished; does not load torch."""
    return all(experiment.run(method).finished for method in methods)


def over_seeds(results: Sequence[Mapping[str, Any]], averaged: Iterable[str]) -> dict[str, Any]:
    """Summarise several seeds: mean and standard deviation of the accuracy, and the means of the keys `averaged`.

    A mean is None if one of the seeds does not know the number.

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
        **{key: _mean([result[key] for result in results]) for key in averaged},
        "accuracies": accuracies,
        "directories": [result["directory"] for result in results],
    }


def _mean(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return mean(known) if known and len(known) == len(values) else None
