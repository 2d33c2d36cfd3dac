"""Comparing methods: one table for a person, rows for a program."""

import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from asni.cli.options import (
    RUNS,
    AsJson,
    BatchSize,
    Device,
    Devices,
    Epochs,
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
from asni.processes import make_fabric, rank
from asni.progress import Progress
from asni.recipes import Recipe, load
from asni.runs import Job, home_of
from asni.tables import check_formats


class CountDone(Progress):
    """Counts the trainings that were done before: a line for each of them would hide those that are not."""

    done = 0

    def already_done(self, stage: str, directory: Path) -> None:
        self.done += 1


def compare(
    recipe: RecipeName,
    methods: Annotated[str | None, typer.Option(help="Names with commas between them, else all of them.")] = None,
    seeds: Seeds = 1,
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
    asked = load(recipe).override(
        epochs=epochs, batch_size=batch_size, lr=lr, sparsity=sparsity, steps_per_epoch=steps_per_epoch
    )
    rows = _train(asked, names, seeds, device, devices, precision, out)
    if rank() > 0:
        return
    show(table(rows), save or [], as_json=as_json, rows=rows)


def _train(
    recipe: Recipe, methods: list[str], seeds: int, device: str, devices: int, precision: str, out: Path
) -> list[dict[str, Any]]:
    from asni.comparison import train
    from asni.training import Trainer

    fabric = make_fabric(device, devices, precision)
    progress = CountDone(quiet=rank() > 0)
    rows = []
    for seed in range(seeds):
        job = Job(recipe, seed, precision, home_of(out, recipe, seed).joinpath)
        rows += train(Trainer(job, fabric, progress), methods)
    if progress.done and rank() == 0:
        print(f"{progress.done} of the trainings were done before, under {out / recipe.variant_name}", file=sys.stderr)
    return rows
