"""Several trainings that belong together, and the table that comes out."""

import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from asni.runs import Job

if TYPE_CHECKING:
    from asni.training import Trainer

VARIANTS = {"dense": "dense", "asni-1": "asni", "asni-2": "asni-2", "original": "original"}
"""The four columns of the paper's main table, and the method that trains each."""


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


def drawn(home: Path) -> Path:
    """The directory of an investigation's figures, drawn unless they are there."""
    figures = home / "figures"
    if not figures.exists():
        from asni.figures import investigation

        with tempfile.TemporaryDirectory(dir=home, prefix=".figures-") as unfinished:
            investigation(home, Path(unfinished) / "figures")
            (Path(unfinished) / "figures").rename(figures)
    return figures
