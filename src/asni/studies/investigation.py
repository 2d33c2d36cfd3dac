"""One seed of one recipe, as in the paper's Table 2: dense, ASNI-I, ASNI-II and the original initialisation."""

import tempfile
from pathlib import Path
from typing import Any

from asni.methods import VARIANTS
from asni.runs.run import Experiment
from asni.studies.tables import Column, Table, hundredths, percent, tenths

COLUMNS = (
    Column("variant", "variant", str, is_name=True),
    Column("accuracy", "accuracy %", hundredths),
    Column("nonzeros", "nonzeros"),
    Column("sparsity", "sparsity %", percent),
    Column("total_sparsity", "of all %", percent),
    Column("seconds", "seconds", tenths),
)


def table(experiment: Experiment, stages: tuple[str, ...] = VARIANTS) -> Table:
    """One line per stage, from the result of its finished run."""
    return Table([row(experiment, stage) for stage in stages], COLUMNS)


def row(experiment: Experiment, stage: str) -> dict[str, Any]:
    run = experiment.run(stage)
    return {"variant": stage, **run.result, "directory": str(run.directory)}


def draw_figures(home: Path) -> Path:
    """Draw the figures of an investigation unless they exist; returns their directory."""
    figures = home / "figures"
    if not figures.exists():
        from asni.figures import investigation

        with tempfile.TemporaryDirectory(dir=home, prefix=".figures-") as unfinished:
            investigation(home, Path(unfinished) / "figures")
            (Path(unfinished) / "figures").rename(figures)
    return figures
