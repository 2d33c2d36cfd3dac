"""Comparing methods: one table for a person, rows for a program."""

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.text import Text

from asni.cli.options import (
    RUNS,
    AsJson,
    BatchSize,
    Device,
    Devices,
    Epochs,
    Jobs,
    LearningRate,
    PrecisionName,
    RecipeName,
    Root,
    Save,
    Seeds,
    Sparsity,
    StepsPerEpoch,
)
from asni.cli.output import show
from asni.comparison import chosen, table
from asni.errors import UsageError
from asni.overview import Board
from asni.processes import make_fabric, rank
from asni.progress import Progress
from asni.recipes import Recipe, load
from asni.runs import Job, home_of
from asni.side_by_side import Command, failed, run_all
from asni.tables import check_formats


class CountDone(Progress):
    """Counts the trainings that are found finished: a line for each of them would hide those that are not."""

    done = 0

    def already_done(self, stage: str, directory: Path) -> None:
        self.done += 1


def compare(
    recipe: RecipeName,
    methods: Annotated[str | None, typer.Option(help="Names with commas between them, else all of them.")] = None,
    seeds: Seeds = 1,
    seed: Annotated[int | None, typer.Option(min=0, help="This one alone, instead of --seeds from 0 on.")] = None,
    jobs: Jobs = 1,
    epochs: Epochs = None,
    batch_size: BatchSize = None,
    lr: LearningRate = None,
    sparsity: Sparsity = None,
    steps_per_epoch: StepsPerEpoch = None,
    device: Device = "auto",
    devices: Devices = 1,
    precision: PrecisionName = "fp32",
    out: Root = RUNS,
    save: Save = None,
    as_json: AsJson = False,
) -> None:
    """Train a recipe with several methods, down to the same nonzeros: one table. Finished work is never repeated.

    Example: asni compare digits-fc --methods dense,asni,asni-2,snip,random --seeds 3
    """
    from asni.methods import METHODS

    names = chosen(methods, METHODS)
    check_formats(save or [])
    if jobs > 1 and devices > 1:
        raise UsageError("--jobs trains seeds side by side, --devices one network in several processes: choose one.")
    changes: dict[str, Any] = {
        "epochs": epochs,
        "batch_size": batch_size,
        "lr": lr,
        "sparsity": sparsity,
        "steps_per_epoch": steps_per_epoch,
    }
    asked = load(recipe).override(**changes)
    chosen_seeds = range(seeds) if seed is None else range(seed, seed + 1)
    homes = {each: home_of(out, asked, each) for each in chosen_seeds}
    if jobs > 1:
        options = {"methods": ",".join(names), **changes, "device": device, "precision": precision, "out": out}
        _train_side_by_side(recipe, options, homes, jobs)
    rows = _train(asked, names, homes, device, devices, precision)
    if rank() > 0:
        return
    show(table(rows), save or [], as_json=as_json, rows=rows)


def _train_side_by_side(recipe: str, options: Mapping[str, Any], homes: Mapping[int, Path], at_once: int) -> None:
    """Each seed in a process of its own; the runs they leave are then found finished."""
    given = [f"--{key.replace('_', '-')}={value}" for key, value in options.items() if value is not None]
    commands = [
        Command(f"seed {seed}", ("compare", recipe, *given, f"--seed={seed}"), home / "log.txt")
        for seed, home in homes.items()
    ]
    with Board() as board:

        def watch(running: set[str]) -> None:
            lines = [f"{command.name}: {command.last_line}" for command in commands if command.name in running]
            board.show(Text("\n".join(lines)), lines)

        failures = run_all(commands, at_once, watch)
    if failures:
        raise failed(failures)


def _train(
    recipe: Recipe, methods: list[str], homes: Mapping[int, Path], device: str, devices: int, precision: str
) -> list[dict[str, Any]]:
    from asni.comparison import train
    from asni.training import Trainer

    fabric = make_fabric(device, devices, precision)
    progress = CountDone(quiet=rank() > 0)
    rows = []
    for seed, home in homes.items():
        rows += train(Trainer(Job(recipe, seed, precision, home.joinpath), fabric, progress), methods)
    if progress.done and rank() == 0:
        runs = next(iter(homes.values())).parent
        print(f"{progress.done} of the trainings were found finished under {runs}", file=sys.stderr)
    return rows
