"""Tables in several formats: unrounded for programs (CSV, JSON), formatted for documents (Markdown, LaTeX)."""

import csv
import io
import json
import os
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from asni.errors import UsageError
from asni.files import write_text


def number(value: float | None) -> str:
    return "-" if value is None else f"{value:,}"


def rounded(value: float | None) -> str:
    return number(None if value is None else round(value))


def tenths(value: float | None) -> str:
    return number(None if value is None else round(value) if value == round(value) else round(value, 1))


def hundredths(value: float | None) -> str:
    return "-" if value is None else f"{value:.2f}"


def percent(value: float | None) -> str:
    return hundredths(None if value is None else 100 * value)


def signed(value: float | None) -> str:
    return "-" if value is None else f"{value:+.2f}"


@dataclass(frozen=True)
class Column:
    """The key of a value, its heading and its format; names are left-aligned, numbers right-aligned.

    On a narrow terminal, columns with the highest `expendable` are left out first; 0 is never left out.
    """

    key: str
    heading: str
    text: Callable[[Any], str] = number
    is_name: bool = False
    expendable: int = 0


MAC_DENSITY = Column("mac_density", "MACs %", percent, expendable=1)
MAC_DENSITY_NOTE = "MACs %: the part of the dense network's multiplications that the living weights take."


@dataclass(frozen=True)
class Table:
    """Unrounded rows, the columns to show, and notes that explain them."""

    rows: Sequence[Mapping[str, Any]]
    columns: Sequence[Column]
    notes: Sequence[str] = ()

    @property
    def headings(self) -> list[str]:
        return [column.heading for column in self.columns]

    @property
    def cells(self) -> list[list[str]]:
        return [[column.text(row[column.key]) for column in self.columns] for row in self.rows]


def save(table: Table, files: Iterable[Path]) -> None:
    """Write the table to each file, in the format of its suffix."""
    for file in files:
        write_text(file, _FORMATS[file.suffix](table))


def check_formats(files: Iterable[Path]) -> None:
    """Raise an error for a file that cannot be written, before hours of training."""
    for file in files:
        if file.suffix not in _FORMATS:
            raise UsageError(f"--save {file}: the name must end with one of {', '.join(_FORMATS)}.")
        if file.is_dir():
            raise UsageError(f"--save {file}: this is a directory. Choose another path.")
        above = next(folder for folder in file.absolute().parents if folder.exists())
        if not (above.is_dir() and os.access(above, os.W_OK | os.X_OK)):
            raise UsageError(f"--save {file}: cannot write to {above}. Choose another path.")


def as_csv(table: Table) -> str:
    """All values of the rows except lists, unrounded."""
    keys = [key for key, value in table.rows[0].items() if not isinstance(value, list)]
    text = io.StringIO()
    writer = csv.DictWriter(text, keys, extrasaction="ignore", lineterminator="\n")
    writer.writeheader()
    writer.writerows(table.rows)
    return text.getvalue()


def as_json(table: Table) -> str:
    """All values of the rows, unrounded."""
    return json.dumps(table.rows, indent=2) + "\n"


def as_markdown(table: Table) -> str:
    r"""A Markdown table; special characters are escaped.

    >>> columns = [Column("name", "name", str, is_name=True), Column("size", "size")]
    >>> print(as_markdown(Table([{"name": "a|b", "size": 1200}], columns)))
    | name | size |
    |:--|--:|
    | a\|b | 1,200 |
    <BLANKLINE>
    """
    rule = [":--" if column.is_name else "--:" for column in table.columns]
    escaped = [[_markdown(cell) for cell in row] for row in [table.headings, *table.cells]]
    lines = [f"| {' | '.join(row)} |" for row in escaped]
    lines.insert(1, f"|{'|'.join(rule)}|")
    return "\n".join([*lines, *(f"\n{_markdown(note)}" for note in table.notes)]) + "\n"


def as_latex(table: Table) -> str:
    r"""A LaTeX tabular for the booktabs package; the notes are comments.

    >>> columns = [Column("name", "name", str, is_name=True), Column("share", "%")]
    >>> print(as_latex(Table([{"name": "a_b", "share": 5}], columns)))
    \begin{tabular}{lr}
    \toprule
    name & \% \\
    \midrule
    a\_b & 5 \\
    \bottomrule
    \end{tabular}
    <BLANKLINE>
    """
    heading, *rows = [" & ".join(map(_latex, row)) + r" \\" for row in [table.headings, *table.cells]]
    places = "".join("l" if column.is_name else "r" for column in table.columns)
    lines = [rf"\begin{{tabular}}{{{places}}}", r"\toprule", heading, r"\midrule", *rows, r"\bottomrule"]
    notes = [f"% {' '.join(note.split())}" for note in table.notes]
    return "\n".join([*lines, r"\end{tabular}", *notes]) + "\n"


def _markdown(text: str) -> str:
    return re.sub(r"([\\`*_|<>\[\]])", r"\\\1", " ".join(text.split()))


_LATEX = {
    **{character: f"\\{character}" for character in "&%$#_{}"},
    **{"\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}"},
    **{"<": r"\textless{}", ">": r"\textgreater{}", "|": r"\textbar{}"},
}


def _latex(text: str) -> str:
    """Escape special characters, and typeset the minus of a number as such."""
    escaped = "".join(_LATEX.get(character, character) for character in " ".join(text.split()))
    return re.sub(r"^-(?=\d)", "$-$", escaped)


_FORMATS = {".csv": as_csv, ".json": as_json, ".md": as_markdown, ".tex": as_latex}
