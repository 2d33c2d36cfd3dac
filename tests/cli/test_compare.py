"""`asni compare` as a user types it."""

import csv
import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.calling import Command
from tests.runs.sealing import change

SHORT = ["--epochs", "2", "--steps-per-epoch", "3", "--device", "cpu"]


def compare(command: Command, out: Path, *arguments: str) -> str:
    answer = command("compare", "digits-fc", *SHORT, "--out", str(out), *arguments)
    assert answer.status == 0, answer.err
    return answer.out


@pytest.fixture(scope="module")
def out(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("compared")


def test_json_has_a_row_for_each_method_and_seed(command: Command, out: Path) -> None:
    rows = json.loads(compare(command, out, "--methods", "snip,dense", "--seeds", "2", "--json"))
    assert [(row["method"], row["seed"]) for row in rows] == [("snip", 0), ("dense", 0), ("snip", 1), ("dense", 1)]
    for row in rows:
        result = json.loads((Path(row["directory"]) / "result.json").read_text())
        assert {key: row[key] for key in ("seed", "accuracy", "nonzeros", "steps", "seconds")} == {
            key: result[key] for key in ("seed", "accuracy", "nonzeros", "steps", "seconds")
        }
        assert row["steps"] == 6


def test_each_run_trained_in_this_call_says_how_many_are_left(command: Command, tmp_path: Path) -> None:
    asked = ["compare", "digits-fc", *SHORT, "--out", str(tmp_path), "--methods"]
    command(*asked, "dense", "--seed", "0")
    answer = command(*asked, "dense,asni-2,asni-1", "--seeds", "2")
    done = re.findall(r"^(?:.*): accuracy .*\[(\d) of 6 runs done(?:, about \d+ s left)?\]$", answer.err, re.MULTILINE)
    # ASNI-II begins with ASNI-I, so that both are finished together.
    assert done == ["3", "3", "4", "6", "6"]
    again = command(*asked, "dense,asni-2,asni-1", "--seeds", "2")
    assert "already done" in again.err
    assert "runs done" not in again.err


def test_a_damaged_result_is_named_before_anything_is_trained(command: Command, tmp_path: Path) -> None:
    asked = ["compare", "digits-fc", *SHORT, "--out", str(tmp_path), "--methods"]
    command(*asked, "snip")
    home = tmp_path / "digits-fc--epochs-2--steps-per-epoch-3" / "seed-0"
    change(home / "snip" / "result.json", {"accuracy": None})
    answer = command(*asked, "dense,snip")
    assert answer.status == 1
    assert "snip/result.json: accuracy" in answer.err
    assert not (home / "dense").exists()


def test_a_table_for_a_person(command: Command, out: Path) -> None:
    table = compare(command, out, "--methods", "snip,dense", "--seeds", "2")
    heading, dense, snip, *_ = table.splitlines()
    assert heading.split()[:3] == ["method", "task", "accuracy"]
    assert dense.split()[:2] == ["dense", "1"]
    assert snip.split()[:2] == ["snip", "2"]
    assert snip.split()[-1] == "69.29"


def test_files_hold_the_table(command: Command, out: Path) -> None:
    files = [str(out / f"table.{suffix}") for suffix in ("csv", "json", "md", "tex")]
    compare(command, out, "--methods", "snip", *(f"--save={file}" for file in files))
    [row] = json.loads((out / "table.json").read_text())
    with (out / "table.csv").open(newline="") as file:
        [read] = csv.DictReader(file)
    single = {key: value for key, value in row.items() if not isinstance(value, list)}
    assert read == {key: "" if value is None else str(value) for key, value in single.items()}
    assert "| snip | 2 |" in (out / "table.md").read_text()
    assert "snip & 2 &" in (out / "table.tex").read_text()


def test_runs_are_those_of_the_other_commands(command: Command, out: Path) -> None:
    compare(command, out, "--methods", "dense")
    assert (out / "digits-fc--epochs-2--steps-per-epoch-3" / "seed-0" / "dense" / "result.json").exists()


def test_seeds_side_by_side_are_the_seeds_one_after_another(command: Command, out: Path, tmp_path: Path) -> None:
    asked = ["--methods", "snip,dense", "--seeds", "2", "--json"]
    answer = command("compare", "digits-fc", *SHORT, *asked, "--jobs", "2", "--out", str(tmp_path))
    assert "[4 of 4 runs done]" in answer.err
    together = json.loads(answer.out)
    alone = json.loads(compare(command, out, *asked))
    costs = {"seconds", "directory"}
    assert [{key: row[key] for key in row.keys() - costs} for row in together] == [
        {key: row[key] for key in row.keys() - costs} for row in alone
    ]


def test_one_seed_of_several_can_be_asked_for(command: Command, out: Path) -> None:
    rows = json.loads(compare(command, out, "--methods", "snip", "--seed", "1", "--json"))
    assert [(row["method"], row["seed"]) for row in rows] == [("snip", 1)]


@pytest.mark.parametrize("jobs", ["1", "2"])
@pytest.mark.parametrize("failing", [[1], [0, 1]])
def test_a_seed_that_fails_is_named_and_the_others_are_shown(
    command: Command, tmp_path: Path, failing: list[int], jobs: str
) -> None:
    for seed in failing:
        directory = tmp_path / "digits-fc--epochs-2--steps-per-epoch-3" / f"seed-{seed}" / "dense"
        (directory / ".lock").mkdir(parents=True)
    arguments = ["--methods", "dense", "--seeds", "2", "--jobs", jobs, "--json", "--out", str(tmp_path)]
    answer = command("compare", "digits-fc", *SHORT, *arguments)
    assert answer.status == 1
    assert re.search(rf"^asni: {len(failing)} .*failed", answer.err, re.MULTILINE)
    assert re.search(r"seed 1 dense: .*seed-1/dense", answer.err)
    shown = json.loads(answer.out) if answer.out else []
    assert [row["seed"] for row in shown] == [seed for seed in (0, 1) if seed not in failing]


def test_a_finished_comparison_is_shown_without_torch(command: Command, out: Path) -> None:
    asked = ["compare", "digits-fc", *SHORT, "--methods", "snip,dense", "--out", str(out)]
    assert command(*asked).status == 0
    program = f"import sys; from asni.cli import main; sys.argv = {['asni', *asked]!r}\n"
    program += "try: main()\nfinally: assert not {'torch', 'PIL', 'matplotlib'} & set(sys.modules)"
    answer = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert "snip" in answer.stdout


def test_a_method_that_does_not_exist_is_refused_before_anything_is_trained(command: Command, tmp_path: Path) -> None:
    answer = command("compare", "digits-fc", "--methods", "dense,snap", "--out", str(tmp_path))
    assert answer.status == 2
    assert re.search("'snap'.*'snip'", answer.err)
    assert not list(tmp_path.iterdir())


def test_jobs_and_devices_exclude_each_other(command: Command, tmp_path: Path) -> None:
    answer = command("compare", "digits-fc", *SHORT, "--jobs", "2", "--devices", "2", "--out", str(tmp_path / "runs"))
    assert answer.status == 2
    assert "--devices" in answer.err
    assert not (tmp_path / "runs").exists()


def test_a_setting_of_one_method_goes_with_methods_that_do_not_use_it(command: Command, tmp_path: Path) -> None:
    settings = ("--lottery-rounds", "1", "--epochs", "1", "--steps-per-epoch", "2", "--out", str(tmp_path))
    answer = command("compare", "digits-fc", "--methods", "dense,lottery", *settings, "--jobs", "2", "--json")
    assert answer.status == 0
    assert [row["trainings"] for row in json.loads(answer.out)] == [1, 2]
    again = command("train", "digits-fc", "--method", "dense", *settings)
    assert "already done" in again.err
    assert "warning: --lottery-rounds changes nothing for dense" in again.err
