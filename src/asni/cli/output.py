"""Print results as a table or as JSON."""

import json
from collections.abc import Sequence
from itertools import zip_longest
from pathlib import Path

from rich.console import Console
from rich.table import Table
from rich.text import Text

from asni.errors import printable
from asni.studies.tables import Table as AnyTable
from asni.studies.tables import save


def show(table: AnyTable, files: Sequence[Path], *, as_json: bool, rows: object = None) -> None:
    """Print a table, or as JSON its rows (or the `rows` given instead), and save it to `files`.

    It is printed first, so that nothing is lost if a file cannot be written.
    """
    if as_json:
        print_json(table.rows if rows is None else rows)
        save(table, files)
        return
    print_table(table.headings, table.cells, names=[column.is_name for column in table.columns])
    for note in table.notes:
        print(printable(note))
    save(table, files)
    for file in files:
        print(printable(f"saved: {file}"))


def print_json(value: object) -> None:
    print(json.dumps(value, indent=2))


def print_table(headings: list[str], rows: list[list[str]], names: Sequence[bool] = (True,)) -> None:
    """Print a table; `names` marks the columns of names, which are left-aligned (default: only the first)."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    for heading, name in zip_longest(headings, names, fillvalue=False):
        table.add_column(str(heading), justify="left" if name else "right", no_wrap=True)
    for row in rows:
        # As plain text: a name may look like markup.
        table.add_row(*(Text(one_line(cell)) for cell in row))
    # A narrow terminal wraps long lines, but numbers are never truncated.
    wide = Console(width=1000)
    Console(width=wide.measure(table).maximum, highlight=False).print(table)


def one_line(value: object) -> str:
    """A value in one line, without the control characters that a file may contain."""
    return printable(f"{value:.6g}" if isinstance(value, float) else str(value)).replace("\n", "\\n")
