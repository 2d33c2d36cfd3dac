"""Several trainings that belong together, and the table that comes out."""

import tempfile
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from statistics import mean, stdev
from typing import TYPE_CHECKING, Any

from asni.runs.run import Job

if TYPE_CHECKING:
    from asni.training.trainer import Trainer

VARIANTS = {"dense": "dense", "asni-1": "asni", "asni-2": "asni-2", "original": "original"}
"""The four columns of the paper's main table, and the method that trains each."""

UNTOUCHED = ("dense", "asni-1", "original")
"""Those that start from the network's own initial values; ASNI-II starts from its centroids."""


def stage_of(method: str) -> str:
    """The name of the training that a method ends with.

    >>> stage_of("asni"), stage_of("snip")
    ('asni-1', 'snip')
    """
    return next((variant for variant, trained_by in VARIANTS.items() if trained_by == method), method)


def investigated(job: Job) -> bool:
    """Whether all four variants are trained already; answers without loading torch."""
    return all(job.run(variant).finished for variant in VARIANTS)


def train_variants(trainer: "Trainer") -> None:
    """Train the variants that are missing."""
    from asni.methods import METHODS

    for method in VARIANTS.values():
        METHODS[method](trainer)


def rows(job: Job, stages: Iterable[str]) -> list[dict[str, Any]]:
    """One row for each finished training, as its run recorded it."""
    return [{"variant": stage, **job.run(stage).result} for stage in stages]


def over_seeds(results: Sequence[Mapping[str, Any]], averaged: Iterable[str]) -> dict[str, Any]:
    """Several seeds of one training: the mean accuracy, its standard deviation, and the means of what is `averaged`.

    >>> results = [{"accuracy": 90.0, "steps": 5, "directory": "a"}, {"accuracy": 92.0, "steps": 7, "directory": "b"}]
    >>> together = over_seeds(results, ["steps"])
    >>> together["accuracy"], together["spread"], together["steps"], together["directories"]
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


def drawn(home: Path) -> Path:
    """The directory of an investigation's figures, drawn unless they are there."""
    figures = home / "figures"
    if not figures.exists():
        from asni.figures import investigation

        with tempfile.TemporaryDirectory(dir=home, prefix=".figures-") as unfinished:
            investigation(home, Path(unfinished) / "figures")
            (Path(unfinished) / "figures").rename(figures)
    return figures
