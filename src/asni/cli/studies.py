"""The commands that train several runs and show them in one table."""

import sys
from typing import Annotated

import typer

from asni.cli.endings import beside_paper, best, end, shrunk
from asni.cli.executor_options import Execution
from asni.cli.grouping import with_options
from asni.cli.options import (
    RUNS,
    AsJson,
    Changes,
    Length,
    MethodNames,
    OneSeed,
    OptionalSeeds,
    PrecisionName,
    RecipeName,
    Root,
    Save,
    Seed,
    Seeds,
)
from asni.cli.output import show
from asni.errors import UsageError, printable
from asni.methods import VARIANTS, unused_budget
from asni.recipes import load, names
from asni.studies import comparison, investigation, reproduction
from asni.studies.executors import Executor, Failures, failure, train_missing
from asni.studies.study import Study
from asni.studies.tables import check_formats
from asni.training.processes import rank


@with_options
def investigate(
    recipe: RecipeName,
    changes: Changes,
    execution: Execution,
    seed: Seed = 0,
    precision: PrecisionName = "fp32",
    out: Root = RUNS,
    as_json: AsJson = False,
) -> None:
    """Train one seed four ways, as in the paper, and draw figures.

    Dense, ASNI-I, ASNI-II, and ASNI-I's mask from its original values. Finished runs are not repeated.

    Example: asni investigate digits-fc
    """
    study = Study({recipe: load(recipe).override(**changes)}, [seed], VARIANTS, precision, out)
    failures = _train(study, execution.executor_for(out))
    if rank() > 0:
        return
    if failures:
        raise failure(failures)
    [experiment] = study.experiments(recipe)
    figures = investigation.draw_figures(experiment.home)
    show(investigation.table(study), [], as_json=as_json)
    if not as_json:
        print(printable(f"runs:    {experiment.home}"))
        print(printable(f"figures: {figures}"))
        dense, sparse = (experiment.run(variant).result for variant in ("dense", "asni-1"))
        end(shrunk(sparse, dense), "report", out, "--open")


@with_options
def reproduce(
    changes: Length,
    execution: Execution,
    rows: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="ROWS",
            help="Rows, recipes or .toml files, such as 1 5-7 mnist-fc. Default: all MNIST and CIFAR rows.",
            autocompletion=names,
        ),
    ] = None,
    seeds: Seeds = 1,
    precision: PrecisionName = "fp32",
    out: Root = RUNS,
    save: Save = None,
    as_json: AsJson = False,
) -> None:
    """Train rows of the paper's Table 2 and compare with it.

    Each row is trained in all four variants. Finished runs are not repeated. To resume an interrupted study, run the
    same command again.

    Example: asni reproduce 1 5-7 --scale 0.2 --jobs 2 --save table.md
    """
    check_formats(save or [])
    recipes = {name: load(name).override(**changes) for name in reproduction.chosen_rows(rows or [])}
    study = Study(recipes, range(seeds), VARIANTS, precision, out)
    failures = _train(study, execution.executor_for(out))
    if rank() > 0:
        return
    table = reproduction.table(study)
    show(table, save or [], as_json=as_json)
    if failures:
        raise failure(failures)
    if not as_json:
        end(beside_paper(table.rows), "report", out, "--open")


@with_options
def compare(
    recipe: RecipeName,
    changes: Changes,
    execution: Execution,
    methods: MethodNames = None,
    seeds: OptionalSeeds = None,
    seed: OneSeed = None,
    precision: PrecisionName = "fp32",
    out: Root = RUNS,
    save: Save = None,
    as_json: AsJson = False,
) -> None:
    """Train a recipe with several methods to the same nonzeros.

    Finished runs are not repeated. To resume an interrupted study, run the same command again.

    Example: asni compare digits-fc --methods dense,asni-1,snip --seeds 3
    """
    check_formats(save or [])
    asked = {recipe: load(recipe).override(**changes)}
    if None not in (seed, seeds):
        raise UsageError("--seed and --seeds cannot be combined. Leave out one of them.")
    chosen_seeds = range(seeds or 1) if seed is None else [seed]
    study = Study(asked, chosen_seeds, comparison.chosen_methods(methods, asked[recipe]), precision, out)
    failures = _train(study, execution.executor_for(out))
    if rank() > 0:
        return
    if rows := comparison.rows(study):
        show(comparison.table(study), save or [], as_json=as_json, rows=rows)
    if failures:
        raise failure(failures)
    if not as_json:
        end(best(comparison.summary(rows)), "report", out, "--open")


def _train(study: Study, executor: Executor) -> Failures:
    for recipe in study.recipes.values() if rank() == 0 else ():
        for message in unused_budget(recipe, study.methods):
            print(printable(f"asni: warning: {message}"), file=sys.stderr)
    failures = train_missing(study, executor)
    if failures is None and rank() == 0:
        print(printable(f"already done: nothing to train, showing the results in {study.root}"), file=sys.stderr)
    return failures or {}
