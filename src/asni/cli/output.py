"""Print results as a table that fits the terminal, as sentences that wrap at words, or as JSON."""

import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from rich.cells import cell_len
from rich.console import Console
from rich.text import Text

from asni.display import wrapped
from asni.errors import printable
from asni.studies.tables import Column, Table, save

LEAST_NAME = 8
"""A name is not shortened below this width."""


def show(table: Table, files: Sequence[Path], *, as_json: bool, rows: object = None) -> None:
    """Print a table, or as JSON its rows (or the `rows` given instead), and save it to `files`.

    It is printed first, so that nothing is lost if a file cannot be written.
    """
    if as_json:
        print_json(table.rows if rows is None else rows)
        save(table, files)
        return
    print_table(table)
    save(table, files)
    for file in files:
        say(f"saved: {file}")


def print_json(value: object) -> None:
    print(json.dumps(value, indent=2))


def print_table(table: Table, sections: Mapping[int, str] | None = None) -> None:
    """Print a table and its notes; `sections` are headings by the number of the row that they stand before.

    A terminal shows as many columns as fit, and names those that it leaves out. Elsewhere all are printed.
    """
    cells = [[one_line(cell) for cell in row] for row in table.cells]
    width = terminal_width()
    shown = list(range(len(table.columns))) if width is None else _columns_that_fit(table.columns, cells, width)
    columns = [table.columns[place] for place in shown]
    rows = [[column.heading for column in columns], *([row[place] for place in shown] for row in cells)]
    widths = _widths(rows)
    if width is not None:
        widths = _shortened(columns, widths, width)
    heading, *lines = [_line(columns, row, widths) for row in rows]
    _print(heading, "bold")
    for number, line in enumerate(lines):
        if sections and number in sections:
            _print("")
            say(sections[number], style="bold")
        _print(line)
    if left_out := [column.heading for place, column in enumerate(table.columns) if place not in shown]:
        say(f"not shown at {width} columns: {', '.join(left_out)}; --json has all", style="dim")
    for note in table.notes:
        if not note.startswith(tuple(f"{heading}:" for heading in left_out)):
            say(note, style="dim")


def terminal_width() -> int | None:
    """The columns of the terminal that reads standard output, or None for a file or a pipe."""
    return Console().width if sys.stdout.isatty() else None


def has_glyphs() -> bool:
    """Whether standard output can show more than ASCII."""
    return (getattr(sys.stdout, "encoding", None) or "ascii").lower().replace("-", "").startswith("utf")


def say(text: str, style: str = "", lead: str = "") -> None:
    """Print a sentence, behind a `lead` such as a dash; a terminal wraps it at words."""
    width, whole = terminal_width(), printable(text)
    lines = [whole] if width is None else wrapped(whole, max(width - len(lead), LEAST_NAME)).split("\n")
    for line in lines:
        _print(lead + line.rstrip(), style)
        lead = " " * len(lead)


def one_line(value: object) -> str:
    """A value in one line, without the control characters that a file may contain."""
    return printable(f"{value:.6g}" if isinstance(value, float) else str(value)).replace("\n", "\\n")


def _columns_that_fit(columns: Sequence[Column], cells: list[list[str]], width: int) -> list[int]:
    """The places of the columns that are left when the most expendable ones are dropped until the others fit.

    Columns that are equally expendable go together.
    """
    widths = _widths([[column.heading for column in columns], *cells])
    shown = list(range(len(columns)))
    for rank in sorted({column.expendable for column in columns} - {0}, reverse=True):
        if _total([widths[place] for place in shown]) <= width:
            break
        shown = [place for place in shown if columns[place].expendable != rank]
    return shown


def _shortened(columns: Sequence[Column], widths: list[int], width: int) -> list[int]:
    """Take what does not fit from the widest names, never from numbers."""
    widths = list(widths)
    names = [place for place, column in enumerate(columns) if column.is_name]
    while (excess := _total(widths) - width) > 0:
        first, *others = sorted(names, key=lambda place: -widths[place])
        floor = max(LEAST_NAME, *(widths[place] for place in others), 0)
        if widths[first] <= LEAST_NAME:
            break
        widths[first] -= min(excess, max(widths[first] - floor, 1))
    return widths


def _widths(rows: list[list[str]]) -> list[int]:
    return [max(map(cell_len, column)) for column in zip(*rows, strict=True)]


def _total(widths: Sequence[int]) -> int:
    return sum(widths) + 2 * (len(widths) - 1)


def _line(columns: Sequence[Column], cells: Sequence[str], widths: Sequence[int]) -> str:
    placed = []
    for column, text, width in zip(columns, cells, widths, strict=True):
        fitting = _ellipsis(text, width) if column.is_name else text
        space = " " * (width - cell_len(fitting))
        placed.append(fitting + space if column.is_name else space + fitting)
    return "  ".join(placed).rstrip()


def _ellipsis(text: str, width: int) -> str:
    """The start and the end of a text that is too long: the end of a layer's name often tells it from others."""
    if cell_len(text) <= width:
        return text
    mark = "…" if has_glyphs() else ".."
    for kept in range(min(len(text) - 1, width), 0, -1):
        end = kept // 2
        shorter = f"{text[: kept - end]}{mark}{text[len(text) - end :]}"
        if cell_len(shorter) <= width:
            return shorter
    return mark


def _print(text: str, style: str = "") -> None:
    # As plain text: a name may look like markup.
    Console(highlight=False).print(Text(text, style), soft_wrap=True)
