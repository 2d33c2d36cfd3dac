"""One seed of one recipe, as in the paper's Table 2: dense, ASNI-I, ASNI-II and the original initialisation."""

import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from filelock import FileLock

from asni.display import on_stderr
from asni.recipes import Recipe
from asni.runs.run import Run
from asni.studies.study import Study
from asni.studies.tables import MAC_DENSITY, MAC_DENSITY_NOTE, Column, Table, hundredths, percent, tenths

EPOCHS = Column("epochs", "epochs")
COLUMNS = (
    Column("variant", "variant", str, is_name=True),
    Column("accuracy", "accuracy %", hundredths),
    Column("nonzeros", "nonzeros"),
    Column("sparsity", "sparsity %", percent, expendable=1),
    Column("total_sparsity", "of all %", percent, expendable=3),
    MAC_DENSITY,
    Column("seconds", "seconds", tenths, expendable=2),
)


def table(study: Study) -> Table:
    """One line per run of a study of one recipe, in which all runs are finished."""
    [recipe] = study.recipes.values()
    return table_of([planned.run for planned in study.runs], recipe)


def table_of(runs: Sequence[Run], recipe: Recipe) -> Table:
    """One line per finished run, with its epochs if one has others than the recipe."""
    rows = [row(run) for run in runs]
    variant, *others = COLUMNS
    shortened = any(each["epochs"] != recipe.training.epochs for each in rows)
    return Table(rows, [variant, *([EPOCHS] if shortened else []), *others], [MAC_DENSITY_NOTE])


def row(run: Run) -> dict[str, Any]:
    """One finished run, as recorded."""
    return {"variant": run.result["stage"], **run.result, "directory": str(run.directory)}


def draw_figures(home: Path) -> Path:
    """Draw the figures of an investigation unless they exist; returns their directory."""
    figures, unfinished = home / "figures", home / ".figures"
    if figures.exists():
        return figures
    with FileLock(home / ".figures.lock"):
        # Another process may have drawn them in between.
        if not figures.exists():
            # A killed process may have left some of them.
            shutil.rmtree(unfinished, ignore_errors=True)
            with on_stderr().status("Drawing 5 figures"):
                from asni.figures import investigation

                investigation(home, unfinished)
            unfinished.rename(figures)
    return figures
