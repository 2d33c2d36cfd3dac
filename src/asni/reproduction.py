"""The paper's Table 2, measured: which rows, in what length, and the paper's numbers beside ours."""

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from asni.errors import UsageError, unknown
from asni.recipes import Recipe, load, names
from asni.runs import Job, home_of
from asni.studies import VARIANTS, investigated, over_seeds
from asni.tables import Column, Table, hundredths, number, rounded, signed

COLUMNS = (
    Column("row", "row", is_name=True),
    Column("recipe", "recipe", str, is_name=True),
    Column("variant", "variant", str, is_name=True),
    Column("paper_accuracy", "paper's %", hundredths),
    Column("accuracy", "accuracy %", hundredths),
    Column("difference", "difference", signed),
    Column("spread", "spread", hundredths),
    Column("seeds", "seeds"),
    Column("paper_nonzeros", "paper's nonzeros"),
    Column("nonzeros", "nonzeros", rounded),
    Column("length", "epochs", str, is_name=True),
)
NOTES = (
    "accuracy: mean over seeds, each of which gives all four variants the same start and data; "
    "spread: standard deviation; difference: ours less the paper's.",
)


def chosen_rows(asked: Sequence[str]) -> list[str]:
    """Recipes of the paper's rows, by number, range, name or file, each once; the MNIST and CIFAR rows by default.

    >>> chosen_rows(["5-6", "mnist-fc", "5"])
    ['cifar10-conv2', 'cifar10-conv4', 'mnist-fc']
    >>> chosen_rows(["12"])
    ['imagenet-resnet50-80', 'imagenet-resnet50-90']
    """
    chosen = list(dict.fromkeys(name for row in asked or ["1-11"] for name in _recipes_of(row)))
    by_name = {load(name).name: name for name in chosen}
    if clash := [name for name in chosen if name not in by_name.values()]:
        raise UsageError(f"{clash[0]} and {by_name[load(clash[0]).name]} have one name, and would share directories.")
    return chosen


def _recipes_of(asked: str) -> list[str]:
    if asked.endswith(".toml") or "/" in asked or asked in names():
        if not _has_accuracies(load(asked)):
            raise UsageError(f"{asked}: has no [paper] numbers to set beside ours; use `asni investigate {asked}`.")
        return [asked]
    by_row = _names_by_row()
    if not (numbers := re.fullmatch(r"(\d+)(?:-(\d+))?", asked)):
        raise unknown("row or recipe", asked, ["1-12", *(name for row in by_row.values() for name in row)])
    first, last = int(numbers[1]), int(numbers[2] or numbers[1])
    if not min(by_row) <= first <= last <= max(by_row):
        raise UsageError(f"no row '{asked}': the rows of the paper's Table 2 are {min(by_row)} to {max(by_row)}.")
    return [name for row in range(first, last + 1) for name in by_row[row]]


def _names_by_row() -> dict[int, list[str]]:
    by_row: dict[int, list[str]] = {}
    for name in names():
        if (row := load(name).paper.row) is not None:
            by_row.setdefault(row, []).append(name)
    return by_row


def _has_accuracies(recipe: Recipe) -> bool:
    return any(_of_paper(recipe, variant) is not None for variant in VARIANTS)


def _of_paper(recipe: Recipe, variant: str) -> float | None:
    printed: float | None = getattr(recipe.paper, variant.replace("-", "_"))
    return printed


def length(recipe: Recipe, *, epochs: int | None, scale: float | None) -> Recipe:
    """The recipe in the length that was asked; `scale` multiplies its epochs, down to two.

    >>> length(load("mnist-fc"), epochs=None, scale=0.2).variant_name
    'mnist-fc--epochs-10'
    """
    if epochs is not None and scale is not None:
        raise UsageError("--epochs and --scale both say how long to train: choose one.")
    if scale is not None:
        if not 0 < scale < math.inf:
            raise UsageError(f"--scale {scale:g}: must be above 0, such as 0.2 for a fifth of the epochs.")
        own = recipe.training.epochs
        epochs = max(round(scale * own), min(2, own))
    return recipe.override(epochs=epochs)


def jobs_of(recipe: Recipe, seeds: int, precision: str, root: Path) -> list[Job]:
    """One job a seed, in the directories of `asni investigate`: what one has trained, the other has too."""
    return [Job(recipe, seed, precision, home_of(root, recipe, seed).joinpath) for seed in range(seeds)]


def table(rows: Iterable[tuple[Recipe, Sequence[Job]]]) -> Table:
    """Four lines for each recipe (given in the paper's length), from the jobs of which all variants are finished."""
    return Table([line for recipe, jobs in rows for line in _lines(recipe, jobs)], COLUMNS, NOTES)


def _lines(recipe: Recipe, jobs: Sequence[Job]) -> list[dict[str, Any]]:
    finished = [job for job in jobs if investigated(job)]
    epochs = jobs[0].recipe.training.epochs
    return [line(recipe, variant, epochs, [_result(job, variant) for job in finished]) for variant in VARIANTS]


def _result(job: Job, variant: str) -> dict[str, Any]:
    run = job.run(variant)
    return {**run.result, "directory": str(run.directory)}


def line(recipe: Recipe, variant: str, epochs: int, results: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """One variant of one recipe; without a finished seed, its own numbers are None.

    >>> common = {"nonzeros": 8330, "seconds": 60.0, "directory": "runs"}
    >>> results = [{"accuracy": 96.0, **common}, {"accuracy": 97.0, **common}]
    >>> short = line(load("mnist-fc"), "asni-1", 10, results)
    >>> short["accuracy"], round(short["difference"], 2), short["paper_nonzeros"], short["length"]
    (96.5, -0.22, 8335, 'shortened (10 of 50)')
    """
    paper, own = recipe.paper, recipe.training.epochs
    printed, over = _of_paper(recipe, variant), over_seeds(results, ("nonzeros", "seconds"))
    mark = "shortened" if epochs < own else "lengthened"
    return {
        "row": paper.row,
        "recipe": recipe.name,
        "variant": variant,
        "paper_accuracy": printed,
        **over,
        "difference": None if printed is None or over["accuracy"] is None else over["accuracy"] - printed,
        "paper_nonzeros": paper.parameters if variant == "dense" else paper.nonzeros,
        "epochs": epochs,
        "paper_epochs": own,
        "shortened": epochs < own,
        "length": number(own) if epochs == own else f"{mark} ({epochs} of {own})",
    }
