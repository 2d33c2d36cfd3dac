"""One table, five formats."""

import csv
import io
import json
import os
import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from asni.errors import UsageError
from asni.studies.tables import (
    Column,
    Table,
    as_csv,
    as_json,
    as_latex,
    as_markdown,
    check_formats,
    hundredths,
    save,
    signed,
)

COLUMNS = [
    Column("recipe", "recipe", str, is_name=True),
    Column("accuracy", "accuracy %", hundredths),
    Column("difference", "difference", signed),
    Column("nonzeros", "nonzeros"),
]
ROWS: list[dict[str, Any]] = [
    {"recipe": "my_net", "accuracy": 96.754, "difference": -0.126, "nonzeros": 8330, "accuracies": [96.7, 96.808]},
    {"recipe": "a, b", "accuracy": None, "difference": None, "nonzeros": None, "accuracies": []},
]
TABLE = Table(ROWS, COLUMNS, ["100 % is best"])


def test_json_holds_all_that_was_measured_unrounded() -> None:
    assert json.loads(as_json(TABLE)) == ROWS


def test_csv_holds_single_values_unrounded_and_nothing_where_nothing_was_measured() -> None:
    read = list(csv.DictReader(io.StringIO(as_csv(TABLE))))
    assert read == [
        {"recipe": "my_net", "accuracy": "96.754", "difference": "-0.126", "nonzeros": "8330"},
        {"recipe": "a, b", "accuracy": "", "difference": "", "nonzeros": ""},
    ]


def test_markdown_as_written() -> None:
    assert as_markdown(TABLE) == (
        "| recipe | accuracy % | difference | nonzeros |\n"
        "|:--|--:|--:|--:|\n"
        "| my\\_net | 96.75 | -0.13 | 8,330 |\n"
        "| a, b | - | - | - |\n"
        "\n"
        "100 % is best\n"
    )


def test_latex_as_written() -> None:
    assert as_latex(TABLE).splitlines() == [
        r"\begin{tabular}{lrrr}",
        r"\toprule",
        r"recipe & accuracy \% & difference & nonzeros \\",
        r"\midrule",
        r"my\_net & 96.75 & $-$0.13 & 8,330 \\",
        r"a, b & - & - & - \\",
        r"\bottomrule",
        r"\end{tabular}",
        "% 100 % is best",
    ]


def named(name: str) -> Table:
    return Table(
        [{"recipe": name, "seeds": 1}], [Column("recipe", "recipe", str, is_name=True), Column("seeds", "seeds")]
    )


@given(st.text())
def test_no_name_breaks_a_latex_row(name: str) -> None:
    row = as_latex(named(name)).split("\\midrule\n")[1].split("\n\\bottomrule")[0]
    assert row.endswith(r" & 1 \\")
    assert "\n" not in row
    plain = re.sub(r"\\text[a-z]+\{\}|\\[&%$#_{}]|^\$-\$", "", row.removesuffix(r" & 1 \\"))
    assert not re.search(r"[\\&%$#_{}~^]", plain)


@given(st.text())
def test_no_name_breaks_a_markdown_row(name: str) -> None:
    row = as_markdown(named(name)).split("|:--|--:|\n")[1]
    assert len(re.findall(r"(?<!\\)(?:\\\\)*\|", row)) == 3
    assert row.count("\n") == 1


def test_a_file_gets_the_format_of_its_name(tmp_path: Path) -> None:
    files = [tmp_path / f"table{suffix}" for suffix in (".csv", ".json", ".md", ".tex")]
    check_formats(files)
    save(TABLE, files)
    assert [file.read_text() for file in files] == [form(TABLE) for form in (as_csv, as_json, as_markdown, as_latex)]


@pytest.mark.parametrize("name", ["table.xls", "table", ".md"])
def test_a_format_that_does_not_exist_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(UsageError, match=r"--save .*\.csv, \.json, \.md, \.tex"):
        check_formats([tmp_path / name])


def test_a_directory_is_refused_as_a_file(tmp_path: Path) -> None:
    (tmp_path / "table.md").mkdir()
    with pytest.raises(UsageError, match=r"table\.md.* directory"):
        check_formats([tmp_path / "table.md"])


def test_a_place_below_a_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "notes").touch()
    with pytest.raises(UsageError, match=rf"write .*{tmp_path}/notes\."):
        check_formats([tmp_path / "notes" / "new" / "table.md"])


def test_a_directory_that_may_not_be_written_is_refused_and_one_that_can_be_made_is_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "locked").mkdir()
    # A test may run as root, who may write everywhere.
    monkeypatch.setattr(os, "access", lambda path, mode: Path(path).name != "locked")
    check_formats([tmp_path / "new" / "table.md"])
    with pytest.raises(UsageError, match=r"write .*/locked\."):
        check_formats([tmp_path / "locked" / "new" / "table.md"])
