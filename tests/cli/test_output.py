"""What a file holds cannot take over the terminal that it is shown on."""

import pytest

from asni.cli.output import print_table
from asni.errors import printable
from asni.studies.tables import Column, Table


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
