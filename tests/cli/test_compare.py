"""`asni compare` as a user types it."""

import csv
import json
from pathlib import Path

import pytest

from tests.cli.calling import Command

SHORT = ["--epochs", "2", "--steps-per-epoch", "3", "--device", "cpu"]


def compare(command: Command, out: Path, *arguments: str) -> str:
    answer = command("compare", "digits-fc", *SHORT, "--out", str(out), *arguments)
    assert answer.status == 0, answer.err
    return answer.out


@pytest.fixture(scope="module")
def out(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("compared")


def test_json_has_a_row_for_each_method_with_the_accuracy_of_each_seed(command: Command, out: Path) -> None:
    rows = json.loads(compare(command, out, "--methods", "snip,dense", "--seeds", "2", "--json"))
    assert [(row["method"], row["seeds"], len(row["accuracies"])) for row in rows] == [("dense", 2, 2), ("snip", 2, 2)]
    assert {row["recipe"] for row in rows} == {"digits-fc--epochs-2--steps-per-epoch-3"}
    assert {row["steps"] for row in rows} == {6}
    for row in rows:
        results = [json.loads((Path(directory) / "result.json").read_text()) for directory in row["directories"]]
        assert [result["seed"] for result in results] == [0, 1]
        assert [result["accuracy"] for result in results] == row["accuracies"]


def test_a_table_for_a_person(command: Command, out: Path) -> None:
    table = compare(command, out, "--methods", "snip,dense", "--seeds", "2")
    heading, dense, snip, *_ = table.splitlines()
    assert heading.split()[:3] == ["method", "task", "accuracy"]
    assert dense.split()[:2] == ["dense", "1"]
    assert snip.split()[:2] == ["snip", "2"]
    assert snip.split()[-1] == "69.29"


def test_files_hold_the_rows_of_json(command: Command, out: Path) -> None:
    files = [str(out / f"table.{suffix}") for suffix in ("csv", "json", "md", "tex")]
    rows = json.loads(compare(command, out, "--methods", "snip", "--json", *(f"--save={file}" for file in files)))
    with (out / "table.csv").open(newline="") as file:
        [read] = csv.DictReader(file)
    single = {key: value for key, value in rows[0].items() if not isinstance(value, list)}
    assert read == {key: "" if value is None else str(value) for key, value in single.items()}
    assert json.loads((out / "table.json").read_text()) == rows
    assert "| snip | 2 |" in (out / "table.md").read_text()
    assert "snip & 2 &" in (out / "table.tex").read_text()


def test_runs_are_those_of_the_other_commands(command: Command, out: Path) -> None:
    compare(command, out, "--methods", "dense")
    assert (out / "digits-fc--epochs-2--steps-per-epoch-3" / "seed-0" / "dense" / "result.json").exists()


def test_a_method_that_does_not_exist_is_refused_before_anything_is_trained(command: Command, tmp_path: Path) -> None:
    answer = command("compare", "digits-fc", "--methods", "dense,snap", "--out", str(tmp_path))
    assert answer.status == 2
    assert "no method 'snap'; did you mean 'snip'?" in answer.err
    assert not list(tmp_path.iterdir())
