"""The command that writes or serves the report."""

import sys
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from asni.cli.endings import end
from asni.cli.options import RUNS, ReportFile, between
from asni.cli.output import say
from asni.display import on_stderr
from asni.errors import UsageError, printable

if TYPE_CHECKING:
    from asni.report.notices import Notice

DEFAULT = Path("report.html")
_MOST_DETAILS = 5  # of one cause, in the terminal


def report(
    directory: Annotated[Path, typer.Argument(metavar="DIR", help="The directory to search for runs.")] = RUNS,
    out: ReportFile = None,
    serve: Annotated[
        bool, typer.Option("--serve", help="Serve the page on localhost and follow running trainings.")
    ] = False,
    port: Annotated[
        int, typer.Option(metavar="N", callback=between(0, 65535), help="The port for --serve; 0 chooses a free one.")
    ] = 0,
    show: Annotated[bool, typer.Option("--open", help="Open the page in the browser.")] = False,
) -> None:
    """Write an HTML report of all runs below a directory.

    Example: asni report runs --open
    """
    if serve and out is not None:
        raise UsageError("--serve writes no file and cannot be combined with --out. Leave out one of them.")
    if serve:
        _serve(directory, port, show=show)
        return
    out = out or DEFAULT
    achieved = _write(directory, out)
    if show:
        say(achieved)
        _open(out.absolute().as_uri())
    else:
        end(achieved, "report", directory, *([] if out == DEFAULT else ["-o", out]), "--open")


def _write(directory: Path, out: Path) -> str:
    with on_stderr().status(f"Reading {directory}"):
        from asni.files import write_text
        from asni.report import collect, fitted, page

        collection = fitted(collect(directory))
    if not collection.runs and not collection.notices:
        raise UsageError(f"{directory} holds no runs. Train some first, for example with `asni investigate digits-fc`.")
    with on_stderr().status(f"Writing {out}"):
        html = page(collection)
        write_text(out, html)
    _print_notices(collection.notices, out)
    return f"{out}: {len(collection.runs)} runs, {out.stat().st_size:,} bytes"


def _print_notices(notices: Iterable["Notice"], out: Path) -> None:
    from asni.report import grouped

    for group in grouped(notices):
        kind, lines = ("note", []) if group.is_note else ("warning", group.details[:_MOST_DETAILS])
        more = len(group.details) - len(lines)
        lines = [*lines, *([f"and {more:,} more, named in {out}"] if lines and more else [])]
        # Indented: a line of a name that a file holds must not look like one of this program.
        print(f"{kind}:", printable("\n".join([group.summary, *lines])).replace("\n", "\n  "), file=sys.stderr)


def _serve(directory: Path, port: int, *, show: bool) -> None:
    from threading import Thread

    from asni.report import collect

    try:
        from asni.report.serving import Server
    except ModuleNotFoundError as error:
        raise UsageError(f"--serve needs {error.name}: pip install 'asni[serve]'.") from error

    # The first page then comes at once: the weights of finished runs are counted only once.
    collect(directory)
    server = Server(directory, port)
    # From here on, the page shows what is going on.
    on_stderr().console.quiet = True
    print(f"{server.address}  (Ctrl-C to stop)", flush=True)
    if show:
        # In a thread: a browser in the terminal is waited for, and needs answers meanwhile.
        Thread(target=_open, args=(server.address,), daemon=True).start()
    server.run()
    print("stopped", file=sys.stderr)


def _open(address: str) -> None:
    import webbrowser

    try:
        opened = webbrowser.open(address)
    except (webbrowser.Error, ValueError):
        # What the environment variable BROWSER holds is no command.
        opened = False
    if not opened:
        print(f"No browser could be opened. Open {address} yourself.", file=sys.stderr)
