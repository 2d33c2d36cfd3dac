"""Arguments that several commands share."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, get_type_hints

import typer

from asni.cli.grouping import Group
from asni.errors import UsageError
from asni.recipes.sections import Overrides

_UNITS = {"": 1, "b": 1} | {
    f"{letter}{ending}": base**power
    for power, letter in enumerate("kmgt", 1)
    for ending, base in (("", 1000), ("b", 1000), ("ib", 1024))
}


def size(text: str) -> int:
    """A number of bytes, with a unit if it has one.

    >>> size("8GB"), size("8G"), size("1.5MiB")
    (8000000000, 8000000000, 1572864)
    """
    unit = text.strip("0123456789. ").lower()
    try:
        count = int(float(text.lower().removesuffix(unit)) * _UNITS[unit])
    except (KeyError, ValueError, OverflowError):
        count = 0
    if count < 1:
        raise UsageError(f"'{text}' is not a size of memory; write it as 512MB or 8GB.")
    return count


RUNS = Path("runs")
MOST_SEED = 2**32 - 1
MOST_SEEDS = 10_000
MOST_JOBS = 10_000
MOST_DEVICES = 8 * (os.cpu_count() or 1)
"""One process each: many more of them would bring the machine down."""

RecipeName = Annotated[str, typer.Argument(metavar="RECIPE", help="A name from `asni recipes`, or a .toml file.")]
OptionalRecipe = Annotated[
    str | None,
    typer.Argument(metavar="RECIPE", help="A name from `asni recipes`, or a .toml file. Optional with --from."),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON instead of text.")]
Seed = Annotated[int, typer.Option(min=0, max=MOST_SEED, help="Seed of the initial values and the data order.")]
Seeds = Annotated[int, typer.Option(min=1, max=MOST_SEEDS, help="Number of seeds to train, starting from 0.")]
Device = Annotated[Literal["auto", "cpu", "cuda", "mps"], typer.Option(help="The device to train on.")]
Devices = Annotated[
    int, typer.Option(min=1, max=MOST_DEVICES, help="Number of devices that train one network, one process each.")
]
PrecisionName = Annotated[Literal["fp32", "bf16", "fp16"], typer.Option(help="fp32, or autocast to bf16 or fp16.")]
Root = Annotated[Path, typer.Option("--out", help="The directory for runs and figures.")]
TrustCode = Annotated[bool, typer.Option("--trust-code", help="Allow importing code that the file names.")]
MaxMemory = Annotated[
    int | None,
    typer.Option(
        parser=size,
        metavar="SIZE",
        help="The memory that the file may take, such as 8GB. Default: 256 MiB and 128 times its length.",
    ),
]
Save = Annotated[
    list[Path] | None,
    typer.Option(
        "--save", metavar="FILE", help="Also write the table to this .csv, .json, .md or .tex file. May be repeated."
    ),
]


def _overrides(*names: str) -> Group:
    """Options for the values of a recipe that a variant may change."""
    types, fields = get_type_hints(Overrides), Overrides.model_fields
    helps = {name: fields[name].description or "" for name in names or fields}
    return Group(
        {
            name: (Annotated[types[name], typer.Option(help=f"{text[0].upper()}{text[1:]}.")], None)
            for name, text in helps.items()
        },
        dict,
    )


Changes = Annotated[Mapping[str, Any], _overrides()]
Length = Annotated[Mapping[str, Any], _overrides("epochs", "scale", "steps_per_epoch")]
