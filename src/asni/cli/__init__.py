"""The command line: parses, calls, prints. What takes long to import is imported by the command that needs it."""

import sys

import typer

from asni.cli import data, packing, recipes, training
from asni.errors import AsniError, StoppedError, UsageError

app = typer.Typer(
    help="Sparse networks in one round of training, and the 2L numbers they can be trained from again.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
app.command()(recipes.recipes)
app.command()(recipes.plan)
app.add_typer(data.app, name="data")
app.command()(training.train)
app.command()(training.investigate)
app.command()(packing.pack)
app.command()(packing.unpack)
app.command()(packing.inspect)


def main() -> None:
    """Run a command; a user's mistake is a message and a status, never a traceback."""
    try:
        app()
    except UsageError as error:
        _fail(error, status=2)
    except StoppedError as stop:
        _fail(stop, status=130)
    except AsniError as error:
        _fail(error, status=1)


def _fail(error: AsniError, status: int) -> None:
    print(f"asni: {error}", file=sys.stderr)
    sys.exit(status)
