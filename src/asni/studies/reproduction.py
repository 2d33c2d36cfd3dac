"""Reproduce the paper's Table 2: choose rows, and show our results next to the paper's."""

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from asni.datasets import info_of
from asni.errors import UsageError, unknown
from asni.methods import VARIANTS
from asni.recipes import Recipe, load, names
from asni.recipes.open_points import open_points
from asni.studies.investigation import row
from asni.studies.study import Study, over_seeds, trained
from asni.studies.tables import MAC_DENSITY, MAC_DENSITY_NOTE, Column, Table, hundredths, number, rounded, signed

COLUMNS = (
    Column("row", "row", is_name=True),
    Column("recipe", "recipe", str, is_name=True),
    Column("variant", "variant", str, is_name=True),
    Column("paper_accuracy", "paper's %", hundredths, expendable=2),
    Column("accuracy", "accuracy %", hundredths),
    Column("difference", "difference", signed, expendable=1),
    Column("spread", "spread", hundredths, expendable=4),
    Column("seeds", "seeds", expendable=5),
    Column("paper_nonzeros", "paper's nonzeros", expendable=3),
    Column("nonzeros", "nonzeros", rounded),
    replace(MAC_DENSITY, expendable=2),
    Column("trained_for", "epochs", str, is_name=True, expendable=1),
)
NOTES = (
    "accuracy: mean over seeds, each of which gives all four variants the same initial values and data order; "
    "spread: standard deviation; difference: ours minus the paper's.",
    MAC_DENSITY_NOTE,
)


def chosen_rows(asked: Sequence[str]) -> list[str]:
    """The recipes of rows given by number, range, name or file, without duplicates; default: all MNIST and CIFAR rows.

    >>> chosen_rows(["5-6", "mnist-fc", "5"])
    ['cifar10-conv2', 'cifar10-conv4', 'mnist-fc']
    >>> chosen_rows(["12"])
    ['imagenet-resnet50-80', 'imagenet-resnet50-90']
    """
    return list(dict.fromkeys(name for row in asked or ["1-11"] for name in _recipes_of(row)))


def _recipes_of(asked: str) -> list[str]:
    if asked.endswith(".toml") or "/" in asked or asked in names():
        recipe = load(asked)
        _epochs_and_steps(recipe)  # an unknown dataset raises an error before anything is trained
        if not _has_accuracies(recipe):
            raise UsageError(f"{asked}: has no [paper] numbers to compare with; use `asni investigate {asked}`.")
        return [asked]
    by_row = _names_by_row()
    if not (numbers := re.fullmatch(r"(\d{1,9})(?:-(\d{1,9}))?", asked)):
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
    return any(recipe.paper.accuracy(variant) is not None for variant in VARIANTS)


def table(study: Study) -> Table:
    """Four lines per recipe, averaged over the seeds for which all variants are finished."""
    lines = [line for source in study.recipes for line in _lines(study, source)]
    return Table(lines, COLUMNS, [*NOTES, *open_points(study.recipes.values())])


def _lines(study: Study, source: str) -> list[dict[str, Any]]:
    finished = [experiment for experiment in study.experiments(source) if trained(experiment, VARIANTS)]
    return [
        line(load(source), variant, study.recipes[source], [row(experiment.run(variant)) for experiment in finished])
        for variant in VARIANTS
    ]


def line(recipe: Recipe, variant: str, trained: Recipe, results: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """One variant of `recipe`, `trained` with its own epochs; without a finished seed, the measured values are None.

    >>> common = {"nonzeros": 8330, "mac_density": 0.03, "seconds": 60.0, "directory": "runs"}
    >>> results = [{"accuracy": 96.0, **common}, {"accuracy": 97.0, **common}]
    >>> paper = load("mnist-fc")
    >>> short = line(paper, "asni-1", paper.override(epochs=10), results)
    >>> short["accuracy"], round(short["difference"], 2), short["paper_nonzeros"], short["trained_for"]
    (96.5, -0.22, 8335, 'shortened (10 of 50)')
    """
    paper = recipe.paper
    printed, over = paper.accuracy(variant), over_seeds(results, ("nonzeros", "mac_density", "seconds"))
    epochs, steps = _epochs_and_steps(trained)
    own_epochs, own_steps = _epochs_and_steps(recipe)
    return {
        "row": paper.row,
        "recipe": recipe.name,
        "variant": variant,
        "paper_accuracy": printed,
        **over,
        "difference": None if printed is None or over["accuracy"] is None else over["accuracy"] - printed,
        "paper_nonzeros": paper.parameters if variant == "dense" else paper.nonzeros,
        "epochs": epochs,
        "paper_epochs": own_epochs,
        "steps_per_epoch": steps,
        "paper_steps_per_epoch": own_steps,
        "shortened": epochs * steps < own_epochs * own_steps,
        "trained_for": _in_words((epochs, steps), (own_epochs, own_steps)),
    }


def _epochs_and_steps(recipe: Recipe) -> tuple[int, int]:
    """The number of epochs, and of steps per epoch."""
    return recipe.training.epochs, recipe.steps_per_epoch(info_of(recipe.dataset, recipe.dataset_options).train)


def _in_words(trained: tuple[int, int], own: tuple[int, int]) -> str:
    """The length of a training compared with the paper's.

    >>> _in_words((25, 1000), (25, 1000)), _in_words((5, 200), (25, 1000))
    ('25', 'shortened (5 of 25, 200 of 1,000 steps each)')
    """
    if trained == own:
        return number(own[0])
    each = f", {number(trained[1])} of {number(own[1])} steps each" if trained[1] != own[1] else ""
    mark = "shortened" if math.prod(trained) < math.prod(own) else "lengthened"
    return f"{mark} ({trained[0]} of {own[0]}{each})"
