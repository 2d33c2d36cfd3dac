"""The command line: parses, calls, prints. What takes long to import is imported by the command that needs it."""

import os
import sys
from typing import NoReturn

import typer

from asni.cli import data, packing, recipes, report, studies, training
from asni.errors import AsniError, ElsewhereError, StoppedError, UsageError
from asni.training.processes import is_lost_peer, rank

app = typer.Typer(
    help="Sparse networks in one round of training, and the 2L numbers they can be trained from again.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
app.command()(recipes.recipes)
app.command()(recipes.methods)
app.command()(recipes.plan)
app.add_typer(data.app, name="data")
app.command()(training.train)
app.command()(studies.investigate)
app.command()(studies.reproduce)
app.command()(studies.compare)
app.command()(report.report)
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
    except OSError as error:
        # A disk that is full, a directory that is not ours: the machine's answer says enough.
        _fail(AsniError(str(error)), status=1)
    except RuntimeError as error:
        if not is_lost_peer(error):
            raise
        _fail_without_peer()


def _fail(error: AsniError, status: int) -> None:
    if rank() > 0 and isinstance(error, UsageError | StoppedError | ElsewhereError):
        # Process 0 has the same to say, and its status is that of the whole training.
        sys.exit(0)
    print(f"asni: {_who()}{_printable(str(error))}", file=sys.stderr)
    sys.exit(status)


def _printable(text: str) -> str:
    """A name out of a file may hold characters that command a terminal."""
    return "".join(each if each.isprintable() or each == "\n" else ascii(each)[1:-1] for each in text)


def _fail_without_peer() -> NoReturn:
    print(
        f"asni: {_who()}another process of this training was lost. "
        "The same command resumes from the last finished epoch.",
        file=sys.stderr,
        flush=True,
    )
    # The threads that still wait for the lost process would abort an orderly exit.
    os._exit(1)


def _who() -> str:
    return f"process {rank()}: " if rank() else ""
