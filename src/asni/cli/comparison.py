"""Comparing methods: one table for a person, rows for a program."""

from collections.abc import Mapping, Sequence
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
from asni.errors import UsageError
from asni.recipes import load
from asni.runs.run import Job, home_of
from asni.studies.comparison import chosen, table
from asni.studies.overview import Board, Pace
from asni.studies.processes import Command, failed, run_all
from asni.studies.study import stage_of
from asni.studies.tables import check_formats
from asni.training.processes import make_fabric, rank
from asni.training.progress import Progress


class CountDone(Progress):
    """Counts the trainings that were finished before: a line for each of them would hide those that were not."""

    def __init__(self, runs: Path):
        super().__init__(quiet=rank() > 0)
        self._runs, self._before = runs, {result.parent for result in runs.glob("*/*/result.json")}
        self._found = 0

    def already_done(self, stage: str, directory: Path) -> None:
        self._found += directory in self._before

    def tell(self, line: str) -> None:
        self.console.print(line, highlight=False, markup=False, soft_wrap=True)

    def tell_found(self) -> None:
        if self._found:
            self.tell(f"{self._found} of the trainings were found finished under {self._runs}")


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
    chosen_seeds = range(seeds) if seed is None else [seed]
    asked_jobs = [Job(asked, each, precision, home_of(out, asked, each).joinpath) for each in chosen_seeds]
    progress = CountDone(out / asked.variant_name)
    pace = Pace([job.directory_of(stage_of(name)) / "result.json" for job in asked_jobs for name in names])
    failures: dict[str, str] = {}
    if jobs > 1:
        options = {"methods": ",".join(names), **changes, "device": device, "precision": precision, "out": out}
        failures = _train_side_by_side(recipe, options, asked_jobs, jobs, pace)
    if sound := [job for job in asked_jobs if _name(job) not in failures]:
        rows = _train(sound, names, device, devices, progress, pace)
        if rank() > 0:
            return
        show(table(rows), save or [], as_json=as_json, rows=rows)
    if failures:
        raise failed(failures)


def _name(job: Job) -> str:
    return f"seed {job.seed}"


def _train_side_by_side(
    recipe: str, options: Mapping[str, Any], jobs: Sequence[Job], at_once: int, pace: Pace
) -> dict[str, str]:
    """Each seed in a process of its own; the runs they leave are then found finished. Which failed, and why."""
    given = [f"--{key.replace('_', '-')}={value}" for key, value in options.items() if value is not None]
    commands = [
        Command(_name(job), ("compare", recipe, *given, f"--seed={job.seed}"), job.directory_of("log.txt"))
        for job in jobs
    ]
    with Board() as board:

        def watch(running: set[str]) -> None:
            lines = [f"{command.name}: {command.last_line}" for command in commands if command.name in running]
            if told := pace.news():
                board.print(told)
            overall = str(pace)
            board.show(Text("\n".join([*lines, overall])), [f"{line}  [{overall}]" for line in lines])

        return run_all(commands, at_once, watch)


def _train(
    jobs: Sequence[Job], methods: Sequence[str], device: str, devices: int, progress: CountDone, pace: Pace
) -> list[dict[str, Any]]:
    from asni.studies.comparison import train
    from asni.training.trainer import Trainer

    _require_whole_results(jobs, methods)
    fabric = make_fabric(device, devices, jobs[0].precision)
    rows = []
    for job in jobs:
        for row in train(Trainer(job, fabric, progress), methods):
            rows.append(row)
            if told := pace.news():
                progress.tell(told)
    progress.tell_found()
    return rows


def _require_whole_results(jobs: Sequence[Job], methods: Sequence[str]) -> None:
    """Name a damaged one now, and not after the hours of training that may come before it."""
    for run in (job.run(stage_of(method)) for job in jobs for method in methods):
        if (run.directory / "result.json").exists():
            _ = run.result
