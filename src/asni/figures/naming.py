"""Which runs a figure draws, and under which names."""

from collections.abc import Iterable, Mapping
from pathlib import Path

from asni.errors import AsniError
from asni.methods import METHODS
from asni.runs import names

Runs = str | Path | Iterable[str | Path] | Mapping[str, str | Path]
"""A run, a directory of runs, several runs, or runs by name."""


def named(runs: Runs) -> dict[str, Path]:
    """The runs by name; runs without a name are called by their directory.

    >>> list(named({"mine": "runs/digits-fc/seed-0/asni-1"})), list(named(["seed-0/gmp", "seed-0/str"]))
    (['mine'], ['gmp', 'str'])
    >>> list(named(["seed-0/gmp", "seed-1/gmp"]))
    ['seed-0/gmp', 'seed-1/gmp']
    """
    if isinstance(runs, str | Path):
        return _of_directory(Path(runs))
    if isinstance(runs, Mapping):
        return {name: Path(run) for name, run in runs.items()}
    paths = [Path(run) for run in runs]
    unique = len({path.name for path in paths}) == len(paths)
    return {path.name if unique else str(path): path for path in paths}


def _of_directory(directory: Path) -> dict[str, Path]:
    """The run in a directory, or the runs of methods in its subdirectories, without the rounds that led to them."""
    if (directory / names.REQUEST).exists():
        return {directory.name: directory}
    runs = {method: directory / method for method in METHODS if (directory / method / names.REQUEST).exists()}
    if not runs:
        raise AsniError(
            f"{directory} is no run and holds none: give the directory of a run, such as "
            "runs/digits-fc/seed-0/asni-1, or the one above it."
        )
    return runs
