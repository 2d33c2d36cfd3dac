"""Arguments that several commands share."""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, get_type_hints

import typer

from asni.cli.grouping import Group
from asni.recipes.recipe import Overrides

RUNS = Path("runs")

RecipeName = Annotated[str, typer.Argument(metavar="RECIPE", help="A name from `asni recipes`, or your own .toml.")]
OptionalRecipe = Annotated[
    str | None, typer.Argument(metavar="RECIPE", help="As for `asni plan`; --from brings its own.")
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON for a program to read.")]
Seed = Annotated[int, typer.Option(min=0, max=2**32 - 1, help="Decides the initial values and the order of the data.")]
Seeds = Annotated[int, typer.Option(min=1, help="How many seeds, from 0 on.")]
Device = Annotated[Literal["auto", "cpu", "cuda", "mps"], typer.Option(help="Where to train.")]
Devices = Annotated[int, typer.Option(min=1, help="How many processes train one network, each on its own device.")]
PrecisionName = Annotated[Literal["fp32", "bf16", "fp16"], typer.Option(help="fp32, or autocast to a half format.")]
Root = Annotated[Path, typer.Option("--out", help="The directory for runs and figures.")]
TrustCode = Annotated[bool, typer.Option("--trust-code", help="Import the network that a file names as its own code.")]
Save = Annotated[
    list[Path] | None,
    typer.Option(
        "--save", metavar="FILE", help="Write the table there too: .csv, .json, .md or .tex. May be repeated."
    ),
]


def _overrides(*names: str) -> Group:
    """What a variant may change in its recipe, as options."""
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
