"""The command line. Slow imports are deferred to the commands that need them.

Results go to standard output, progress and errors to standard error. Exit status: 0 done, 1 failed, 2 wrong usage,
130 stopped by Ctrl-C. An `AsniError` is printed without a traceback; a traceback is a bug.
"""

import io
import logging
import os
import platform
import sys
from importlib.metadata import version as installed
from typing import Annotated, Any, NoReturn

import typer

from asni.cli import bench, data, doctor, export, packing, recipes, report, studies, training
from asni.cli.help import Group, add, block
from asni.display import on_stderr, wrapped
from asni.errors import AsniError, ElsewhereError, StoppedError, UsageError, printable, shown
from asni.training.processes import is_lost_peer, rank

PANELS = {
    "Look": (recipes.recipes, recipes.methods, recipes.plan, packing.inspect, report.report, doctor.doctor),
    "Train": (training.train, studies.investigate),
    "Study": (studies.reproduce, studies.compare),
    "Files": (packing.pack, packing.unpack, export.export, bench.bench),
}

app = typer.Typer(
    cls=Group,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    epilog=block("Start here", ["asni investigate digits-fc", "asni report runs --open"]),
)
for _panel, _commands in PANELS.items():
    for _command in _commands:
        add(app, _command, _panel)
app.add_typer(data.app, name="data", rich_help_panel="Files")

WrongUsage: type[Exception] = typer.BadParameter.__bases__[0]
"""What typer raises for a command line that it cannot read; it has no public name."""

_TRANSLATED = {
    "Value error, ": "",
    "Input should be a valid integer, unable to parse string as an integer": "not a whole number",
    "Input should be a valid number, unable to parse string as a number": "not a number",
}


def _print_version(asked: bool) -> None:
    if asked:
        # From the metadata: importing torch takes seconds.
        print(f"asni {installed('asni')} (torch {installed('torch')}, Python {platform.python_version()})")
        raise typer.Exit


@app.callback()
def asni(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Show the versions and exit.")
    ] = False,
) -> None:
    """Train sparse networks in one round, and train them again from two numbers per layer."""


def main() -> None:
    """Run a command; user errors print a message and set the exit status, without a traceback."""
    # What a pruner tells the user of a loop, the command line tells in its own way: a stopped run resumes.
    logging.getLogger("asni.pruning").setLevel(logging.ERROR)
    # Process 0 shows for all what is going on.
    on_stderr().console.quiet = rank() > 0
    if isinstance(sys.stdout, io.TextIOWrapper):
        # As standard error does: a name that a terminal cannot show is no reason to fail.
        sys.stdout.reconfigure(errors="backslashreplace")
    try:
        status = app(prog_name="asni", standalone_mode=False)
        if status == 130:
            # Ctrl-C outside a training, which says itself how to resume: typer is silent about it.
            raise StoppedError("stopped.")
        sys.exit(status)
    except WrongUsage as error:
        _fail(UsageError(_one_line(error)), status=2)
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


def _one_line(error: Any) -> str:
    """What typer prints as a box, in the words of our own errors; empty where it has already printed the help."""
    if near := getattr(error, "possibilities", None):
        said = f"no option {shown(error.option_name)}; did you mean {near[0]}?"
    elif said := " ".join(error.format_message().split()):
        for theirs, ours in _TRANSLATED.items():
            said = said.replace(theirs, ours)
        said = said[0].lower() + said[1:] + "." * (said[-1] not in ".?")
    return f"{said} Try `{error.ctx.command_path} --help`." if said and error.ctx else said


def _fail(error: AsniError, status: int) -> None:
    if rank() > 0 and isinstance(error, UsageError | StoppedError | ElsewhereError):
        # Process 0 reports the same error, and its status is that of the whole training.
        sys.exit(0)
    if str(error):
        said, console = f"asni: {_who()}{printable(str(error))}", on_stderr().console
        print(wrapped(said, console.width) if console.is_terminal else said, file=sys.stderr)
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
