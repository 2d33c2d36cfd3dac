"""The command that fetches datasets."""

from pathlib import Path
from typing import Annotated

import typer

from asni.errors import printable

app = typer.Typer(help="Fetch and verify datasets.", no_args_is_help=True)


@app.callback()
def data() -> None:
    """Fetch and verify datasets."""


@app.command()
def get(
    name: Annotated[str, typer.Argument(metavar="NAME", help="digits, mnist, cifar10 or imagenet.")],
    source: Annotated[Path | None, typer.Option("--from", help="A folder that already holds the files.")] = None,
) -> None:
    """Fetch a dataset, verify it, and store it in the cache folder, or in ASNI_DATA if that is set.

    Example: asni data get mnist
    """
    from asni import datasets

    print(printable(f"{name}: verified, in {datasets.get(name, source)}"))
