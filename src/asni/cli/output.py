"""What a command prints: a table for a person, JSON for a program."""

import json

from rich.console import Console
from rich.table import Table
from rich.text import Text


def print_json(value: object) -> None:
    print(json.dumps(value, indent=2))


def print_table(headings: list[str], rows: list[list[str]]) -> None:
    """The first column is names, the others are numbers."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    for number, heading in enumerate(headings):
        table.add_column(heading, justify="right" if number else "left", no_wrap=True)
    for row in rows:
        # As plain text: a name may look like markup.
        table.add_row(*map(Text, row))
    # A narrow window may wrap a long line, but no number is ever cut.
    wide = Console(width=1000)
    Console(width=wide.measure(table).maximum, highlight=False).print(table)


def number(value: float | None) -> str:
    return "-" if value is None else f"{value:,}"
