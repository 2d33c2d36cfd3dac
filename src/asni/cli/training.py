"""The command that trains one method."""

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from asni.cli.endings import end, mark, new_file, shrunk
from asni.cli.grouping import with_options
from asni.cli.options import (
    EXECUTION,
    RUNS,
    AsJson,
    Changes,
    Device,
    Devices,
    KernelsName,
    MaxMemory,
    OptionalMethod,
    OptionalRecipe,
    PrecisionName,
    Root,
    Seed,
    TrustCode,
)
from asni.cli.output import print_json, show
from asni.display import on_stderr
from asni.errors import AsniError, UsageError, printable, unknown
from asni.methods import METHODS, default_method, unused, unused_budget
from asni.recipes import Recipe, load
from asni.recipes.sections import PRUNING_OVERRIDES, Pruning
from asni.runs.run import Experiment, Run
from asni.studies import investigation
from asni.training.processes import make_fabric, rank

StartFile = Annotated[
    Path | None,
    typer.Option(
        "--from", metavar="FILE", help="Start from a packed file, with its own recipe unless RECIPE is given."
    ),
]
Wait = Annotated[
    bool,
    typer.Option(
        "--wait",
        help="Wait for a run that another process is training, instead of failing.",
        rich_help_panel=EXECUTION,
    ),
]


@with_options
def train(
    changes: Changes,
    recipe: OptionalRecipe = None,
    method: OptionalMethod = None,
    seed: Seed = 0,
    device: Device = "auto",
    devices: Devices = 1,
    kernels: KernelsName = "auto",
    precision: PrecisionName = "fp32",
    out: Root = RUNS,
    start: StartFile = None,
    wait: Wait = False,
    trust_code: TrustCode = False,
    max_memory: MaxMemory = None,
    as_json: AsJson = False,
) -> None:
    """Train a recipe with one method.

    To resume an interrupted training, run the same command again.

    Examples:
      asni train digits-fc
      asni train mnist-fc --method rigl --seed 1
      asni train --from net.asni
    """
    _require_usable(method, changes, start, max_memory)
    with on_stderr().status("Loading torch"):
        from asni.engine import layer_times
        from asni.packing import train_from
        from asni.sparse.stepper import Stepper
        from asni.training.progress import Progress
        from asni.training.trainer import Trainer
    asked = _recipe(recipe, start, trust_code, max_memory).override(**changes)
    method = method or default_method(asked)
    if start is None:
        _warn_of_unused(asked, method)
    experiment = Experiment(asked, seed, precision, out)
    fabric = make_fabric(device, devices, precision)
    trainer = Trainer(
        experiment, fabric, Progress(), wait=wait, accelerate=Stepper, kernels=kernels, stopwatch=layer_times
    )
    run = METHODS[method].train(trainer) if start is None else train_from(trainer, start, max_memory=max_memory)
    if rank() > 0:
        return
    if as_json:
        print_json({**run.result, "directory": str(run.directory)})
    else:
        show(investigation.table_of([run], asked), [], as_json=False)
        print(printable(f"weights, masks and metrics: {run.directory}"))
        if "got_ms" in run.result:
            print(_in_time(run.result, asked.pruning))
        given = {"--device": (device, "auto"), "--devices": (devices, 1), "--kernels": (kernels, "auto")}
        _end(run, experiment, _same_but_sparse(experiment, recipe, given) if recipe else [])


def _in_time(result: Mapping[str, Any], pruning: Pruning) -> str:
    """How the finished network compares with the time that was asked for."""
    asked, predicted, got, dense = (f"{result[f'{key}_ms']:.3g} ms" for key in ("asked", "predicted", "got", "dense"))
    threads = pruning.threads_per_pass
    setting = f"batch {pruning.images_per_pass}, {threads} thread{'s' * (threads > 1)}"
    return f"one pass in the engine ({setting}): asked for {asked}, predicted {predicted}, got {got}; dense {dense}"


def _end(run: Run, experiment: Experiment, sparse: Sequence[str]) -> None:
    """Suggest to pack the network, or to train it `sparse` if it is dense."""
    result = run.result
    if result["sparsity"]:
        achieved = shrunk(result, _dense_result(experiment))
    else:
        achieved = f"{result['nonzeros']:,} weights, {result['accuracy']:.2f} %"
    trains_next = sparse and not result["sparsity"]
    shortened = mark(experiment.recipe, result["stage"])
    end(achieved + shortened, *(sparse if trains_next else ("pack", run.directory, "-o", new_file())))


def _same_but_sparse(experiment: Experiment, recipe: str, execution: Mapping[str, tuple[object, object]]) -> list[str]:
    """The same command for the method that prunes; `execution` has the value and the default of options."""
    asked = {
        "--seed": (experiment.seed, 0),
        **execution,
        "--precision": (experiment.precision, "fp32"),
        "--out": (experiment.root, RUNS),
    }
    changed = [word for option, (value, default) in asked.items() if value != default for word in (option, str(value))]
    return ["train", recipe, *experiment.recipe.overrides.arguments(), *changed]


def _dense_result(experiment: Experiment) -> dict[str, Any] | None:
    """The dense run of the same seed, if there is one to compare with."""
    dense = experiment.run("dense")
    try:
        return dense.result if dense.finished else None
    except AsniError:
        return None


def _require_usable(method: str | None, changes: Mapping[str, Any], start: Path | None, max_memory: int | None) -> None:
    """Raise an error for options that cannot be combined."""
    if method is not None and method not in METHODS:
        raise unknown("method", method, METHODS)
    if start is not None:
        _require_no_pruning(method, changes)
    elif max_memory is not None:
        raise UsageError("--max-memory is for the file of --from. Leave it out.")


def _warn_of_unused(recipe: Recipe, method: str) -> None:
    # A warning, not an error: a study's settings are for all of its methods, and it trains each by `asni train`.
    for message in (*unused(recipe, [method]), *unused_budget(recipe, [method])) if rank() == 0 else ():
        print(printable(f"asni: warning: {message}"), file=sys.stderr)


def _require_no_pruning(method: str | None, changes: Mapping[str, Any]) -> None:
    """Raise an error for options that have no effect on a training from a packed file."""
    given = [key for key in PRUNING_OVERRIDES if changes[key] is not None]
    if method not in (None, "asni-1") or given:
        words = ["method", *given] if method not in (None, "asni-1") else given
        raise UsageError(
            "--from trains the weights of the file without further pruning: leave out "
            f"{', '.join(f'--{word}'.replace('_', '-') for word in words)}."
        )


def _recipe(name: str | None, start: Path | None, trust_code: bool, max_memory: int | None) -> Recipe:
    from asni.packing import recipe_of

    if name is not None:
        return load(name)
    if start is None:
        raise UsageError("no recipe given. Name one of `asni recipes`, or a packed file with --from.")
    return recipe_of(start, trust_code=trust_code, max_memory=max_memory)
