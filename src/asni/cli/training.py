"""Training: one method, or the four variants of an investigation."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from asni.cli.options import (
    RUNS,
    AsJson,
    BatchSize,
    Device,
    Devices,
    Epochs,
    LearningRate,
    OptionalRecipe,
    PrecisionName,
    RecipeName,
    Root,
    Seed,
    Sparsity,
    StepsPerEpoch,
    TrustCode,
)
from asni.cli.output import print_json, print_table
from asni.errors import UsageError, unknown
from asni.recipes import Recipe, load
from asni.runs.run import Job, home_of
from asni.studies.study import VARIANTS, drawn, investigated, rows, stage_of, train_variants
from asni.studies.tables import number
from asni.training.processes import make_fabric, rank

if TYPE_CHECKING:
    from asni.training.trainer import Trainer


def train(
    recipe: OptionalRecipe = None,
    method: Annotated[str, typer.Option(help="dense, asni (ASNI-I), asni-2 (ASNI-II), lottery, snip, ...")] = "asni",
    seed: Seed = 0,
    epochs: Epochs = None,
    batch_size: BatchSize = None,
    lr: LearningRate = None,
    sparsity: Sparsity = None,
    steps_per_epoch: StepsPerEpoch = None,
    device: Device = "auto",
    devices: Devices = 1,
    precision: PrecisionName = "fp32",
    out: Annotated[Path | None, typer.Option(help="The run's directory, else one under runs/.")] = None,
    start: Annotated[
        Path | None,
        typer.Option("--from", help="Train what a packed file holds, by its own recipe unless one is named."),
    ] = None,
    trust_code: TrustCode = False,
    as_json: AsJson = False,
) -> None:
    """Train a recipe with one method. Stopped or killed, the same command goes on where it was.

    Example: asni train mnist-fc --method asni --seed 1
    """
    from asni.methods import METHODS
    from asni.packing import train_from

    if method not in METHODS:
        raise unknown("method", method, METHODS)
    if start is not None and (method != "asni" or sparsity is not None):
        raise UsageError("--from trains the weights of the file as they are: leave out --method and --sparsity.")
    asked = _recipe(recipe, start, trust_code).override(
        epochs=epochs, batch_size=batch_size, lr=lr, sparsity=sparsity, steps_per_epoch=steps_per_epoch
    )
    home = home_of(RUNS, asked, seed)
    final = stage_of(method)

    def directory_of(stage: str) -> Path:
        if out is None:
            return home / stage
        return out if stage == final or start is not None else out / stage

    job = Job(asked, seed, precision, directory_of)
    trainer = _trainer(job, device, devices)
    run = METHODS[method](trainer) if start is None else train_from(trainer, start)
    if rank() > 0:
        return
    if as_json:
        print_json({**run.result, "directory": str(run.directory)})
    else:
        _print_rows([{"variant": run.result["stage"], **run.result}])
        print(f"weights, masks and metrics: {run.directory}")


def investigate(
    recipe: RecipeName,
    seed: Seed = 0,
    epochs: Epochs = None,
    batch_size: BatchSize = None,
    lr: LearningRate = None,
    sparsity: Sparsity = None,
    steps_per_epoch: StepsPerEpoch = None,
    device: Device = "auto",
    devices: Devices = 1,
    precision: PrecisionName = "fp32",
    out: Root = RUNS,
    as_json: AsJson = False,
) -> None:
    """Train dense, ASNI-I, ASNI-II and the original-initialisation control: one table, and figures.

    Example: asni investigate digits-fc
    """
    asked = load(recipe).override(
        epochs=epochs, batch_size=batch_size, lr=lr, sparsity=sparsity, steps_per_epoch=steps_per_epoch
    )
    home = home_of(out, asked, seed)
    job = Job(asked, seed, precision, home.joinpath)
    if not investigated(job):
        train_variants(_trainer(job, device, devices))
    elif rank() == 0:
        print(f"already done: nothing was trained, this is what {home} holds", file=sys.stderr)
    if rank() > 0:
        return
    figures = drawn(home)
    if as_json:
        print_json(rows(job, VARIANTS))
        return
    _print_rows(rows(job, VARIANTS))
    print(f"runs:    {home}")
    print(f"figures: {figures}")


def _recipe(name: str | None, start: Path | None, trust_code: bool) -> Recipe:
    from asni.packing import recipe_of

    if name is not None:
        return load(name)
    if start is None:
        raise UsageError("which recipe? Name one of `asni recipes`, or a packed file with --from.")
    return recipe_of(start, trust_code=trust_code)


def _trainer(job: Job, device: str, devices: int) -> "Trainer":
    from asni.training.progress import Progress
    from asni.training.trainer import Trainer

    return Trainer(job, make_fabric(device, devices, job.precision), Progress(quiet=rank() > 0))


def _print_rows(trained: list[dict[str, Any]]) -> None:
    print_table(
        ["variant", "accuracy %", "nonzeros", "sparsity %", "of all %", "seconds"],
        [
            [
                row["variant"],
                f"{row['accuracy']:.2f}",
                number(row["nonzeros"]),
                f"{100 * row['sparsity']:.2f}",
                f"{100 * row['total_sparsity']:.2f}",
                f"{row['seconds']:.1f}",
            ]
            for row in trained
        ],
    )
