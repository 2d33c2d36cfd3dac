"""Reproducing the paper's Table 2: rows by number, trained side by side, the paper's numbers beside ours."""

import sys
from pathlib import Path
from typing import Annotated

import typer

from asni.cli.options import RUNS, AsJson, Device, Jobs, PrecisionName, Root, Save, Seeds, StepsPerEpoch
from asni.cli.output import show
from asni.recipes import load
from asni.runs.run import Job
from asni.studies.overview import Overview, standings
from asni.studies.processes import Command, failed, run_all
from asni.studies.reproduction import chosen_rows, jobs_of, length, table
from asni.studies.study import investigated
from asni.studies.tables import check_formats


def reproduce(
    rows: Annotated[
        list[str] | None,
        typer.Argument(metavar="ROWS", help="Such as 1 5-7 mnist-fc, or your own .toml. Else all of MNIST and CIFAR."),
    ] = None,
    seeds: Seeds = 1,
    epochs: Annotated[
        int | None, typer.Option(help="Train every row this long, instead of as long as the paper.")
    ] = None,
    scale: Annotated[float | None, typer.Option(help="Multiply the paper's epochs, such as by 0.2.")] = None,
    steps_per_epoch: StepsPerEpoch = None,
    jobs: Jobs = 1,
    device: Device = "auto",
    precision: PrecisionName = "fp32",
    out: Root = RUNS,
    save: Save = None,
    as_json: AsJson = False,
) -> None:
    """Train rows of the paper's Table 2, all four variants: one table, with the paper's numbers beside ours.

    Finished work is never repeated; stopped or killed, the same command goes on.

    Example: asni reproduce 1 5-7 --scale 0.2 --jobs 2 --save table.md
    """
    check_formats(save or [])
    asked = {
        name: length(load(name), epochs=epochs, scale=scale, steps_per_epoch=steps_per_epoch)
        for name in chosen_rows(rows or [])
    }
    by_name = {name: jobs_of(recipe, seeds, precision, out) for name, recipe in asked.items()}
    failures = _train(by_name, jobs, device, out)
    show(table((load(name), own) for name, own in by_name.items()), save or [], as_json=as_json)
    if failures:
        raise failed(failures)


def _train(by_name: dict[str, list[Job]], at_once: int, device: str, out: Path) -> dict[str, str]:
    """Investigate what is missing, in processes of their own; which failed, and why."""
    missing = [(name, job) for name, jobs in by_name.items() for job in jobs if not investigated(job)]
    if not missing:
        print(f"already done: nothing was trained, this is what {out} holds", file=sys.stderr)
        return {}
    commands = [_command(name, job, device, out) for name, job in missing]
    with Overview(at_once) as overview:

        def watch(running: set[str]) -> None:
            overview.update([each for _, job in missing for each in standings(job)], running)

        return run_all(commands, at_once, watch)


def _command(name: str, job: Job, device: str, out: Path) -> Command:
    training = job.recipe.training
    length = ["--epochs", str(training.epochs)]
    length += [] if training.steps_per_epoch is None else ["--steps-per-epoch", str(training.steps_per_epoch)]
    asked = ["--seed", str(job.seed), *length, "--device", device, "--precision", job.precision, "--out", str(out)]
    return Command(standings(job)[0].job, ("investigate", name, *asked), job.directory_of("log.txt"))
