"""The command that fetches datasets."""

from pathlib import Path
from typing import Annotated

import typer

from asni.cli.help import Group, add
from asni.datasets import INFO
from asni.errors import printable

app = typer.Typer(cls=Group, help="Fetch and verify datasets.", no_args_is_help=True)


def get(
    name: Annotated[
        str,
        typer.Argument(metavar="NAME", help="digits, mnist, cifar10 or imagenet.", autocompletion=lambda: list(INFO)),
    ],
    source: Annotated[
        Path | None, typer.Option("--from", metavar="DIR", help="A folder that already holds the files.")
    ] = None,
) -> None:
    """Fetch a dataset and verify it.

    It is stored in the cache folder, or in ASNI_DATA if that is set.

    Example: asni data get mnist
    """
    from asni import datasets

    print(printable(f"{name}: verified, in {datasets.get(name, source)}"))


add(app, get)
