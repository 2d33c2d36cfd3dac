"""A table fits the terminal that it is shown on, and what a file holds cannot take that over."""

import io
import re
import sys

import pytest

from asni.cli.output import print_table
from asni.errors import printable
from asni.studies.tables import Column, Table
from tests.cli.calling import Terminal


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("\x1b]0;title\x07", r"\x1b]0;title\x07"),
        ("back\rspace\x08\x7f", r"back\rspace\x08\x7f"),
        ("abc\u202efed", r"abc\u202efed"),
        ("a\udc80b", r"a\udc80b"),
        ("\x9b31m", r"\x9b31m"),
        ("\u2028\u2029\x85", r"\u2028\u2029\x85"),
        ("\u200e\u200f\u061c\u2066\u2069", r"\u200e\u200f\u061c\u2066\u2069"),
        ("two\nlines, réseau 网", "two\nlines, réseau 网"),
        ("数字\u3000実験, 👩\u200d💻, می\u200cخ", "数字\u3000実験, 👩\u200d💻, می\u200cخ"),
        ("10\u00a0%, 10\u202fAM, Zeilen\u00adende", "10\u00a0%, 10\u202fAM, Zeilen\u00adende"),
    ],
)
def test_control_characters_are_shown_and_not_obeyed(text: str, shown: str) -> None:
    assert printable(text) == shown


def test_a_name_in_a_table_is_one_line_without_escape_sequences(capsys: pytest.CaptureFixture[str]) -> None:
    columns = [Column("layer", "layer", str, is_name=True), Column("size", "size")]
    print_table(Table([{"layer": "a\nfake  1\x1b[2J", "size": 2}], columns))
    assert capsys.readouterr().out.splitlines() == [
        "layer              size",
        r"a\nfake  1\x1b[2J     2",
    ]


@pytest.mark.parametrize(
    ("width", "shown"),
    [
        (31, ["layer           min  max   size", "encoder.weight   -1    1  2,048"]),
        (
            30,
            ["layer            size", "encoder.weight  2,048", "not shown at 30 columns: min,", "max; --json has all"],
        ),
        (19, ["layer          size", "encode…eight  2,048", "not shown at 19", "columns: min, max;", "--json has all"]),
    ],
)
def test_equally_expendable_columns_go_together_and_then_names_are_shortened(
    monkeypatch: pytest.MonkeyPatch, width: int, shown: list[str]
) -> None:
    columns = [
        Column("layer", "layer", str, is_name=True),
        *(Column(key, key, expendable=1) for key in ("min", "max")),
        Column("size", "size"),
    ]
    screen = io.BytesIO()
    monkeypatch.setenv("COLUMNS", str(width))
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr(sys, "stdout", terminal := Terminal(screen, encoding="utf-8"))
    print_table(Table([{"layer": "encoder.weight", "min": -1, "max": 1, "size": 2048}], columns))
    terminal.flush()
    assert re.sub(r"\x1b\[\d+m", "", screen.getvalue().decode()).splitlines() == shown
