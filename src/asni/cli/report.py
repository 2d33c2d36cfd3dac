"""The command that writes or serves the report."""

import sys
from pathlib import Path
from typing import Annotated

import typer

from asni.cli.endings import end
from asni.cli.options import OUTPUT, RUNS, a_file, between
from asni.display import on_stderr
from asni.errors import UsageError, printable

DEFAULT = Path("report.html")


def report(
    directory: Annotated[Path, typer.Argument(metavar="DIR", help="The directory to search for runs.")] = RUNS,
    out: Annotated[
        Path | None,
        typer.Option(
            "--out",
            "-o",
            metavar="FILE",
            callback=a_file,
            help="Where to write the report: a file. Default: report.html.",
            rich_help_panel=OUTPUT,
        ),
    ] = None,
    serve: Annotated[
        bool, typer.Option("--serve", help="Serve the page on localhost and follow running trainings.")
    ] = False,
    port: Annotated[
        int, typer.Option(metavar="N", callback=between(0, 65535), help="The port for --serve; 0 chooses a free one.")
    ] = 0,
) -> None:
    """Write an HTML report of all runs below a directory.

    Example: asni report runs -o report.html
    """
    if serve and out is not None:
        raise UsageError("--serve writes no file and cannot be combined with --out. Leave out one of them.")
    if serve:
        _serve(directory, port)
    else:
        _write(directory, out or DEFAULT)


def _write(directory: Path, out: Path) -> None:
    from asni.files import write_text
    from asni.report import collect, fitted, page

    collection = fitted(collect(directory))
    if not collection.runs and not collection.warnings:
        raise UsageError(f"{directory} holds no runs. Train some first, for example with `asni investigate digits-fc`.")
    with on_stderr().status(f"Writing {out}"):
        html = page(collection)
        write_text(out, html)
    for warning in collection.warnings:
        # Indented: a line of a name that a file holds must not look like one of this program.
        print("warning:", printable(warning).replace("\n", "\n  "), file=sys.stderr)
    achieved = f"{out}: {len(collection.runs)} runs, {out.stat().st_size:,} bytes"
    end(achieved, "report", directory, *([] if out == DEFAULT else ["-o", out]), "--open")


def _serve(directory: Path, port: int) -> None:
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
    server.run()
    print("stopped", file=sys.stderr)
