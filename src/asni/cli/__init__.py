"""The command line. Slow imports are deferred to the commands that need them.

Results go to standard output, progress and errors to standard error. Exit status: 0 done, 1 failed, 2 wrong usage,
130 stopped by Ctrl-C. An `AsniError` is printed without a traceback; a traceback is a bug.
"""

import logging
import os
import sys
from typing import NoReturn

import typer

from asni.cli import data, packing, recipes, report, studies, training
from asni.display import on_stderr
from asni.errors import AsniError, ElsewhereError, StoppedError, UsageError, printable
from asni.training.processes import is_lost_peer, rank

app = typer.Typer(
    help="Train sparse networks in one round, and train them again from an initialisation of two numbers per layer.",
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
    """Run a command; user errors print a message and set the exit status, without a traceback."""
    # What a pruner tells the user of a loop, the command line tells in its own way: a stopped run resumes.
    logging.getLogger("asni.pruning").setLevel(logging.ERROR)
    # Process 0 shows for all what is going on.
    on_stderr().console.quiet = rank() > 0
    try:
        app()
    except UsageError as error:
        _fail(error, status=2)
    except StoppedError as stop:
        _fail(stop, status=130)
    except AsniError as error:
        _fail(error, status=1)
    except OSError as error:
        # Such as a full disk or a missing permission: the message of the system is clear enough.
        _fail(AsniError(str(error)), status=1)
    except RuntimeError as error:
        if not is_lost_peer(error):
            raise
        _fail_without_peer()


def _fail(error: AsniError, status: int) -> None:
    if rank() > 0 and isinstance(error, UsageError | StoppedError | ElsewhereError):
        # Process 0 reports the same error, and its status is that of the whole training.
        sys.exit(0)
    print(f"asni: {_who()}{printable(str(error))}", file=sys.stderr)
    sys.exit(status)


def _fail_without_peer() -> NoReturn:
    print(
        f"asni: {_who()}another process of this training was lost. "
        "Run the same command to resume from the last finished epoch.",
        file=sys.stderr,
        flush=True,
    )
    # The threads that still wait for the lost process would abort an orderly exit.
    os._exit(1)


def _who() -> str:
    return f"process {rank()}: " if rank() else ""
