"""Methods side by side: the same network, data and nonzeros; what each reaches and what it costs."""

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from asni.errors import UsageError, unknown
from asni.studies.study import over_seeds
from asni.studies.tables import Column, Table, hundredths, rounded, signed, tenths

if TYPE_CHECKING:
    from asni.runs.run import Run
    from asni.training.trainer import Trainer

FIRST_TASK = ("dense", "asni", "gmp", "str", "rigl", "rigl-uniform", "set", "magnitude", "continuous")
"""Methods that end with an accurate sparse network; the others end with one that can be trained from its start."""

PAPER = {
    "asni": 75.23,
    "gmp": 74.68,
    "str": 74.87,
    "rigl": 74.55,
    "asni-2": 75.17,
    "magnitude-rewind": 73.33,
    "magnitude-retrain": 75.12,
    "snip": 69.29,
    "grasp": 71.56,
}
"""The paper's Tables 3 and 4: top-1 percent of ResNet-50 on ImageNet with 80 % of its parameters pruned."""

PAPER_RECIPE = "imagenet-resnet50-80"
"""Only here is a difference from the paper's numbers one of the methods, and not of the networks and data."""


COLUMNS = (
    Column("method", "method", str, is_name=True),
    Column("task", "task"),
    Column("accuracy", "accuracy %", hundredths),
    Column("spread", "spread", hundredths),
    Column("seeds", "seeds"),
    Column("nonzeros", "nonzeros", rounded),
    Column("trainings", "trainings", tenths),
    Column("steps", "steps", rounded),
    Column("seconds", "seconds", rounded),
    Column("paper_imagenet", "paper's ImageNet %", hundredths),
    Column("difference", "difference", signed),
)
NOTES = (
    "task 1: an accurate sparse network. task 2: one that can be trained from its start.",
    "accuracy: mean over seeds; spread: standard deviation. trainings, steps, seconds: all of a seed's, mean.",
    "paper's ImageNet %: ResNet-50 with 80 % of its parameters pruned.",
)


def chosen(names: str | None, known: Iterable[str]) -> list[str]:
    """The methods of a list with commas, each once; all that are known where nothing is asked.

    >>> chosen("snip, random,snip", ["dense", "snip", "random"])
    ['snip', 'random']
    """
    known = list(known)
    if names is None:
        return known
    asked = list(dict.fromkeys(name.strip() for name in names.split(",")))
    if "" in asked:
        raise UsageError(
            f"--methods '{names}': no method is named where one should be; put one comma between two names "
            f"(known: {', '.join(sorted(known))})"
        )
    for name in asked:
        if name not in known:
            raise unknown("method", name, known)
    return asked


def train(trainer: "Trainer", methods: Iterable[str]) -> Iterator[dict[str, Any]]:
    """One row a method, as soon as it is trained, for one seed; what was trained before is not trained again."""
    from asni.methods import METHODS

    for method in methods:
        trainer.rounds.clear()
        run = METHODS[method](trainer)
        yield {"recipe": trainer.recipe.variant_name, **row(method, run, trainer.rounds.values())}


def row(method: str, run: "Run", rounds: "Iterable[Run]") -> dict[str, Any]:
    """What a method's last run reached; steps and seconds are those of all trainings that led to it."""
    results = [needed.result for needed in rounds]
    return {
        "method": method,
        "task": 1 if method in FIRST_TASK else 2,
        **{key: run.result[key] for key in ("seed", "accuracy", "nonzeros", "sparsity", "total_sparsity")},
        "trainings": len(results),
        "steps": sum(result["steps"] for result in results),
        "seconds": sum(result["seconds"] for result in results),
        "paper_imagenet": PAPER.get(method),
        "directory": str(run.directory),
    }


def table(rows: Iterable[Mapping[str, Any]]) -> Table:
    """The seeds of each method taken together, for a person and in every format."""
    together = summary(rows)
    recipe = together[0]["recipe"]
    columns = [column for column in COLUMNS if column.key != "difference" or recipe == PAPER_RECIPE]
    return Table(together, columns, (f"recipe: {recipe}", *NOTES))


def summary(rows: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """The seeds of each method taken together, by task and then by accuracy.

    >>> known = {"recipe": "mnist-fc", "task": 2, "paper_imagenet": None, "directory": "runs"}
    >>> costs = {"nonzeros": 10, "sparsity": 0.9, "total_sparsity": 0.9, "trainings": 1, "steps": 5, "seconds": 1.0}
    >>> rows = [{"method": "snip", "accuracy": accuracy, **known, **costs} for accuracy in (90.0, 92.0)]
    >>> [(each["method"], each["seeds"], each["accuracy"], round(each["spread"], 2)) for each in summary(rows)]
    [('snip', 2, 91.0, 1.41)]
    """
    by_method: dict[str, list[Mapping[str, Any]]] = {}
    for each in rows:
        by_method.setdefault(each["method"], []).append(each)
    together = [_together(own) for own in by_method.values()]
    return sorted(together, key=lambda method: (method["task"], -method["accuracy"]))


def _together(rows: list[Mapping[str, Any]]) -> dict[str, Any]:
    known = {key: rows[0][key] for key in ("recipe", "method", "task", "paper_imagenet")}
    ours = over_seeds(rows, ("nonzeros", "sparsity", "total_sparsity", "trainings", "steps", "seconds"))
    comparable = known["recipe"] == PAPER_RECIPE and known["paper_imagenet"] is not None
    return {**known, "difference": ours["accuracy"] - known["paper_imagenet"] if comparable else None, **ours}
