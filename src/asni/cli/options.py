"""Arguments that several commands share."""

from pathlib import Path
from typing import Annotated, Literal

import typer

RUNS = Path("runs")

RecipeName = Annotated[str, typer.Argument(metavar="RECIPE", help="A name from `asni recipes`, or your own .toml.")]
OptionalRecipe = Annotated[
    str | None, typer.Argument(metavar="RECIPE", help="As for `asni plan`; --from brings its own.")
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON for a program to read.")]
Seed = Annotated[int, typer.Option(min=0, max=2**32 - 1, help="Decides the initial values and the order of the data.")]
Seeds = Annotated[int, typer.Option(min=1, help="How many seeds, from 0 on.")]
Jobs = Annotated[int, typer.Option(min=1, help="How many seeds, of any row, train side by side; they share the cores.")]
Epochs = Annotated[int | None, typer.Option(help="Train this many; gamma scales with them, the nonzeros stay.")]
BatchSize = Annotated[int | None, typer.Option(help="Images per step, over all processes.")]
LearningRate = Annotated[float | None, typer.Option("--lr", help="The highest learning rate.")]
Sparsity = Annotated[float | None, typer.Option(help="Fraction of the prunable weights to prune, such as 0.97.")]
StepsPerEpoch = Annotated[int | None, typer.Option(help="Instead of the recipe's own number.")]
Device = Annotated[Literal["auto", "cpu", "cuda", "mps"], typer.Option(help="Where to train.")]
Devices = Annotated[int, typer.Option(min=1, help="How many processes train, each on a device of its own.")]
PrecisionName = Annotated[Literal["fp32", "bf16", "fp16"], typer.Option(help="fp32, or autocast to a half format.")]
Root = Annotated[Path, typer.Option("--out", help="The directory for runs and figures.")]
TrustCode = Annotated[bool, typer.Option("--trust-code", help="Import the network that a file names as its own code.")]
Save = Annotated[
    list[Path] | None,
    typer.Option(
        "--save", metavar="FILE", help="Write the table there too: .csv, .json, .md or .tex. May be repeated."
    ),
]
