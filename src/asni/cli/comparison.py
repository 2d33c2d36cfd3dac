"""Comparing methods: one table for a person, rows for a program."""

import csv
import io
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from asni.cli.options import (
    AsJson,
    BatchSize,
    Device,
    Devices,
    Epochs,
    LearningRate,
    PrecisionName,
    RecipeName,
    Root,
    Sparsity,
    StepsPerEpoch,
)
from asni.cli.output import number, print_json, print_table
from asni.comparison import chosen, summary
from asni.files import write_text
from asni.processes import make_fabric, rank
from asni.progress import Progress
from asni.recipes import Recipe, load
from asni.runs import Job

RUNS = Path("runs")


class CountDone(Progress):
    """Counts the trainings that were done before: a line for each of them would hide those that are not."""

    done = 0

    def already_done(self, stage: str, directory: Path) -> None:
        self.done += 1


def compare(
    recipe: RecipeName,
    methods: Annotated[str | None, typer.Option(help="Names with commas between them, else all of them.")] = None,
    seeds: Annotated[int, typer.Option(min=1, help="How many seeds, from 0 on.")] = 1,
    epochs: Epochs = None,
    batch_size: BatchSize = None,
    lr: LearningRate = None,
    sparsity: Sparsity = None,
    steps_per_epoch: StepsPerEpoch = None,
    device: Device = "auto",
    devices: Devices = 1,
    precision: PrecisionName = "fp32",
    out: Root = RUNS,
    csv_file: Annotated[Path | None, typer.Option("--csv", help="Write a row for each method and seed there.")] = None,
    as_json: AsJson = False,
) -> None:
    """Train a recipe with several methods, down to the same nonzeros: one table. Finished work is never repeated.

    Example: asni compare digits-fc --methods dense,asni,asni-2,snip,random --seeds 3
    """
    from asni.methods import METHODS

    names = chosen(methods, METHODS)
    asked = load(recipe).override(
        epochs=epochs, batch_size=batch_size, lr=lr, sparsity=sparsity, steps_per_epoch=steps_per_epoch
    )
    rows = _train(asked, names, seeds, device, devices, precision, out)
    if rank() > 0:
        return
    if csv_file is not None:
        write_text(csv_file, _csv(rows))
    if as_json:
        print_json(rows)
    else:
        _print_summary(rows)


def _train(
    recipe: Recipe, methods: list[str], seeds: int, device: str, devices: int, precision: str, out: Path
) -> list[dict[str, Any]]:
    from asni.comparison import train
    from asni.training import Trainer

    fabric = make_fabric(device, devices, precision)
    progress = CountDone(quiet=rank() > 0)
    rows = []
    for seed in range(seeds):
        job = Job(recipe, seed, precision, (out / recipe.variant_name / f"seed-{seed}").joinpath)
        rows += train(Trainer(job, fabric, progress), methods)
    if progress.done and rank() == 0:
        print(f"{progress.done} of the trainings were done before, under {out / recipe.variant_name}", file=sys.stderr)
    return rows


def _csv(rows: list[dict[str, Any]]) -> str:
    text = io.StringIO()
    writer = csv.DictWriter(text, fieldnames=list(rows[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue()


def _print_summary(rows: list[dict[str, Any]]) -> None:
    print_table(
        [
            "method",
            "task",
            "accuracy %",
            "spread",
            "seeds",
            "nonzeros",
            "trainings",
            "steps",
            "seconds",
            "ImageNet % *",
        ],
        [
            [
                each["method"],
                number(each["task"]),
                f"{each['accuracy']:.2f}",
                "-" if each["spread"] is None else f"{each['spread']:.2f}",
                number(each["seeds"]),
                number(round(each["nonzeros"])),
                number(each["trainings"]),
                number(round(each["steps"])),
                f"{each['seconds']:.1f}",
                number(each["paper_imagenet"]),
            ]
            for each in summary(rows)
        ],
    )
    print("task 1: an accurate sparse network. task 2: one that can be trained from its start.")
    print("accuracy: mean over seeds; spread: standard deviation. steps, seconds: of all its trainings.")
    print("* the paper's ResNet-50 with 80 % of its parameters pruned")
