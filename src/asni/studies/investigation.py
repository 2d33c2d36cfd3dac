"""One seed of one recipe, as in the paper's Table 2: dense, ASNI-I, ASNI-II and the original initialisation."""

import tempfile
from pathlib import Path
from typing import Any

from asni.runs.run import Run
from asni.studies.study import Study
from asni.studies.tables import Column, Table, hundredths, percent, tenths

COLUMNS = (
    Column("variant", "variant", str, is_name=True),
    Column("accuracy", "accuracy %", hundredths),
    Column("nonzeros", "nonzeros"),
    Column("sparsity", "sparsity %", percent),
    Column("total_sparsity", "of all %", percent),
    Column("seconds", "seconds", tenths),
)


def table(study: Study) -> Table:
    """One line per run of a study in which all runs are finished."""
    return Table([row(planned.run) for planned in study.runs], COLUMNS)


def row(run: Run) -> dict[str, Any]:
    """One finished run, as recorded."""
    return {"variant": run.result["stage"], **run.result, "directory": str(run.directory)}


def draw_figures(home: Path) -> Path:
    """Draw the figures of an investigation unless they exist; returns their directory."""
    figures = home / "figures"
    if not figures.exists():
        from asni.figures import investigation

        with tempfile.TemporaryDirectory(dir=home, prefix=".figures-") as unfinished:
            investigation(home, Path(unfinished) / "figures")
            (Path(unfinished) / "figures").rename(figures)
    return figures
