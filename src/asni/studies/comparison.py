"""Compare methods on the same network, data and nonzeros: the accuracy and the cost of each."""

from collections.abc import Iterable, Mapping
from typing import Any

from asni.errors import AsniError, UsageError, unknown
from asni.methods import METHODS, TASKS, possible_methods
from asni.recipes import Recipe
from asni.runs.run import Run
from asni.studies.study import PlannedRun, Study, over_seeds
from asni.studies.tables import MAC_DENSITY, MAC_DENSITY_NOTE, Column, Table, hundredths, rounded, signed, tenths

PAPER_RECIPE = "imagenet-resnet50-80"
"""The recipe of the paper's comparison; with another network or dataset, a difference from the paper means nothing."""

SIZE = ("nonzeros", "sparsity", "total_sparsity", "mac_density")

COLUMNS = (
    Column("method", "method", str, is_name=True),
    Column("task", "task", expendable=6),
    Column("accuracy", "accuracy %", hundredths),
    Column("spread", "spread", hundredths, expendable=2),
    Column("seeds", "seeds", expendable=5),
    Column("nonzeros", "nonzeros", rounded),
    MAC_DENSITY,
    Column("trainings", "trainings", tenths, expendable=1),
    Column("steps", "steps", rounded, expendable=7),
    Column("seconds", "seconds", rounded, expendable=4),
    Column("paper_imagenet", "paper's ImageNet %", hundredths, expendable=8),
    Column("difference", "difference", signed, expendable=3),
)
NOTES = (
    TASKS,
    "accuracy: mean over seeds; spread: standard deviation. trainings, steps, seconds: totals per seed, averaged.",
    MAC_DENSITY_NOTE,
    "paper's ImageNet %: ResNet-50 with 80 % of its parameters pruned.",
)


def chosen_methods(names: str | None, recipe: Recipe) -> list[str]:
    """The methods of a comma-separated list, without duplicates; None means all that can train the recipe.

    >>> from asni.recipes import load
    >>> chosen_methods("snip, random,snip", load("digits-fc"))
    ['snip', 'random']
    """
    if names is None:
        return possible_methods(recipe)
    asked = list(dict.fromkeys(name.strip() for name in names.split(",")))
    if "" in asked:
        raise UsageError(
            f"--methods '{names}': a name is empty; put one comma between two names (known: {', '.join(METHODS)})"
        )
    for name in asked:
        if name not in METHODS:
            raise unknown("method", name, METHODS)
    return asked


def rows(study: Study) -> list[dict[str, Any]]:
    """One row per finished run: its result, and the cost of all trainings that led to it."""
    return [_row(planned) for planned in study.runs if planned.run.finished]


def _row(planned: PlannedRun) -> dict[str, Any]:
    result = planned.run.result
    rounds = [_result(run) for run in planned.trainings]
    return {
        "recipe": planned.experiment.recipe.variant_name,
        "method": planned.method.name,
        "task": planned.method.task,
        **{key: result[key] for key in ("seed", "accuracy", *SIZE)},
        "trainings": len(rounds),
        "steps": sum(each["steps"] for each in rounds),
        "seconds": sum(each["seconds"] for each in rounds),
        "paper_imagenet": planned.method.imagenet,
        "directory": str(planned.run.directory),
    }


def _result(run: Run) -> dict[str, Any]:
    if not run.finished:
        raise AsniError(f"{run.directory} is not finished, but other runs needed it. Remove them to train them again.")
    return run.result


def table(study: Study) -> Table:
    """One line per method, averaged over the seeds whose runs are finished."""
    return summary_table(rows(study))


def summary_table(rows: Iterable[Mapping[str, Any]]) -> Table:
    lines = summary(rows)
    recipe = lines[0]["recipe"]
    columns = [column for column in COLUMNS if column.key != "difference" or recipe == PAPER_RECIPE]
    return Table(lines, columns, (f"recipe: {recipe}", *NOTES))


def summary(rows: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """One row per method, averaged over its seeds, sorted by task and then by accuracy.

    >>> known = {"recipe": "mnist-fc", "task": 2, "paper_imagenet": None, "directory": "runs"}
    >>> size = {"nonzeros": 10, "sparsity": 0.9, "total_sparsity": 0.9, "mac_density": 0.1}
    >>> costs = {"trainings": 1, "steps": 5, "seconds": 1.0}
    >>> rows = [{"method": "snip", "accuracy": accuracy, **known, **size, **costs} for accuracy in (90.0, 92.0)]
    >>> [(each["method"], each["seeds"], each["accuracy"], round(each["spread"], 2)) for each in summary(rows)]
    [('snip', 2, 91.0, 1.41)]
    """
    by_method: dict[str, list[Mapping[str, Any]]] = {}
    for each in rows:
        by_method.setdefault(each["method"], []).append(each)
    return sorted(map(_averaged, by_method.values()), key=lambda method: (method["task"], -method["accuracy"]))


def _averaged(rows: list[Mapping[str, Any]]) -> dict[str, Any]:
    known = {key: rows[0][key] for key in ("recipe", "method", "task", "paper_imagenet")}
    ours = over_seeds(rows, (*SIZE, "trainings", "steps", "seconds"))
    comparable = known["recipe"] == PAPER_RECIPE and known["paper_imagenet"] is not None
    return {**known, "difference": ours["accuracy"] - known["paper_imagenet"] if comparable else None, **ours}
