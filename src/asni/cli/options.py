"""Arguments that several commands share."""

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, get_args, get_type_hints

import typer

from asni.cli.grouping import Group
from asni.errors import UsageError, shown
from asni.methods import METHODS
from asni.recipes import names
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


def between(low: int, high: int) -> Callable[[int | None], int | None]:
    """A check of a number, in place of typer's own, whose help shows every range."""

    def check(value: int | None) -> int | None:
        if value is not None and not low <= value <= high:
            raise typer.BadParameter(f"{value} is not in the range from {low} to {high}.")
        return value

    return check


def a_directory(path: Path | None) -> Path | None:
    """Refuse a file where the command makes a directory."""
    if path is not None and path.exists() and not path.is_dir():
        raise UsageError(f"--out: {shown(path)} is a file, and this command writes a directory. Choose another path.")
    return path


def a_file(path: Path | None) -> Path | None:
    """Refuse a directory where the command writes a file."""
    if path is not None and path.is_dir():
        raise UsageError(f"--out: {shown(path)} is a directory, and this command writes a file. Name a file in it.")
    return path


def several_methods(incomplete: str) -> list[str]:
    """What may follow in a list of methods.

    >>> several_methods("dense,sni"), several_methods("snip,rigl,sn")
    (['dense,snip'], [])
    """
    before, comma, last = incomplete.rpartition(",")
    chosen = before.split(",")
    return [f"{before}{comma}{name}" for name in METHODS if name.startswith(last) and name not in chosen]


RUNS = Path("runs")
MOST_SEED = 2**32 - 1
MOST_SEEDS = 10_000
MOST_JOBS = 10_000
MOST_DEVICES = 8 * (os.cpu_count() or 1)
"""One process each: many more of them would bring the machine down."""

TIMES = ("latency",)
"""Overrides that are times."""

CHANGES, EXECUTION, OUTPUT = "Changes to the recipe", "Execution", "Output"
"""The panels of the help."""

RecipeName = Annotated[
    str,
    typer.Argument(metavar="RECIPE", help="A name from `asni recipes`, or a .toml file.", autocompletion=names),
]
OptionalRecipe = Annotated[
    str | None,
    typer.Argument(
        metavar="RECIPE",
        help="A name from `asni recipes`, or a .toml file. Optional with --from.",
        autocompletion=names,
    ),
]
OptionalMethod = Annotated[
    str | None,
    typer.Option(
        metavar="NAME",
        help="A name from `asni methods`, such as dense. Default: asni-1, with a budget asni-1-macs.",
        autocompletion=lambda: list(METHODS),
    ),
]
MethodNames = Annotated[
    str | None,
    typer.Option(
        metavar="NAMES",
        help="From `asni methods`, comma-separated. Default: all.",
        autocompletion=several_methods,
    ),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON instead of text.", rich_help_panel=OUTPUT)]
_SEED, _SEEDS = between(0, MOST_SEED), between(1, MOST_SEEDS)
Seed = Annotated[
    int, typer.Option(metavar="N", callback=_SEED, help="Seed of the initial values and the order of the data.")
]
OneSeed = Annotated[int | None, typer.Option(metavar="N", callback=_SEED, help="Train only this seed.")]
Seeds = Annotated[int, typer.Option(metavar="N", callback=_SEEDS, help="Number of seeds to train, from 0 on.")]
OptionalSeeds = Annotated[
    int | None, typer.Option(metavar="N", callback=_SEEDS, help="Number of seeds to train, from 0 on. Default: 1.")
]
Device = Annotated[
    Literal["auto", "cpu", "cuda", "mps"],
    typer.Option(metavar="NAME", help="The device to train on: auto, cpu, cuda or mps.", rich_help_panel=EXECUTION),
]
Devices = Annotated[
    int,
    typer.Option(
        metavar="N",
        callback=between(1, MOST_DEVICES),
        help="Devices that train one network, one process each.",
        rich_help_panel=EXECUTION,
    ),
]
KernelsName = Annotated[
    Literal["auto", "sparse", "dense"],
    typer.Option(
        metavar="NAME",
        help="What trains pruned networks on a CPU: sparse kernels, dense ones, or auto, the faster.",
        rich_help_panel=EXECUTION,
    ),
]
PrecisionName = Annotated[
    Literal["fp32", "bf16", "fp16"],
    typer.Option(metavar="NAME", help="fp32, or autocast to bf16 or fp16.", rich_help_panel=EXECUTION),
]


def _out(metavar: str, check: Callable[[Path | None], Path | None], text: str) -> Any:
    return typer.Option("--out", "-o", metavar=metavar, callback=check, help=text, rich_help_panel=OUTPUT)


Root = Annotated[Path, _out("DIR", a_directory, "Where to write runs and figures: a directory.")]
OutFile = Annotated[Path, _out("FILE", a_file, "Where to write the result: a file.")]
ReportFile = Annotated[Path | None, _out("FILE", a_file, "Where to write the report: a file. Default: report.html.")]
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
        "--save",
        metavar="FILE",
        help="Also write the table to this .csv, .json, .md or .tex file. May be repeated.",
        rich_help_panel=OUTPUT,
    ),
]


def _override(name: str, kind: Any, text: str) -> tuple[Any, None]:
    """The option for a value of a recipe; a time is read with its unit by the recipe."""
    kind = str | None if name in TIMES else kind
    metavar = "TIME" if name in TIMES else {int: "N", float: "X"}.get(get_args(kind)[0], "NAME")
    is_flag = bool in get_args(kind)
    option = typer.Option(
        metavar=None if is_flag else metavar,
        help=f"{text[0].upper()}{text[1:]}.",
        rich_help_panel=CHANGES,
    )
    return Annotated[kind, option], None


def _overrides(*names: str) -> Group:
    """Options for the values of a recipe that a variant may change."""
    types, fields = get_type_hints(Overrides), Overrides.model_fields
    helps = {name: fields[name].description or "" for name in names or fields}
    return Group(
        {name: _override(name, types[name], text) for name, text in helps.items()},
        dict,
    )


Changes = Annotated[Mapping[str, Any], _overrides()]
Length = Annotated[Mapping[str, Any], _overrides("epochs", "scale", "steps_per_epoch")]
