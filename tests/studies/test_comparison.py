"""Methods side by side, and what they cost."""

import shutil
from pathlib import Path
from typing import Any

import pytest

from asni.errors import AsniError, UsageError
from asni.methods import METHODS, possible_methods
from asni.recipes import load
from asni.studies.comparison import chosen_methods, rows, summary, summary_table
from asni.studies.executors import InProcess, train_missing
from asni.studies.study import Study
from tests.runs.sealing import change

SMALL = load("digits-fc").override(epochs=2, steps_per_epoch=4, sparsity=0.5)


def compared(root: Path, methods: list[str]) -> list[dict[str, Any]]:
    study = Study({"digits-fc": SMALL}, [3], methods, "fp32", root)
    assert not train_missing(study, InProcess("cpu"))
    return rows(study)


def test_a_row_counts_every_training_that_the_method_needed_once(tmp_path: Path) -> None:
    methods = ["lottery", "dense", "magnitude-rewind", "magnitude-retrain", "snip", "asni-2"]
    found = {row["method"]: (row["trainings"], row["steps"]) for row in compared(tmp_path, methods)}
    assert found == {
        "lottery": (5, 5 * 8),
        "dense": (1, 8),
        "magnitude-rewind": (3, 8 + 1 + 7),
        "magnitude-retrain": (2, 8 + 8),
        "snip": (1, 8),
        "asni-2": (2, 8 + 8),
    }


def test_the_records_know_how_many_trainings_a_method_takes(tmp_path: Path) -> None:
    known = [name for name in possible_methods(SMALL) if METHODS[name].trainings is not None]
    assert {row["method"]: row["trainings"] for row in compared(tmp_path, known)} == {
        name: METHODS[name].trainings for name in known
    }


def test_sparse_methods_end_at_the_same_nonzeros(tmp_path: Path) -> None:
    found = compared(tmp_path, ["asni-1", "snip", "random", "early-bird"])
    assert {row["nonzeros"] for row in found} == {410 + 25_100}
    assert {row["seed"] for row in found} == {3}
    assert {row["mac_density"] for row in found} == {0.5}


def test_a_round_of_another_training_is_not_counted(tmp_path: Path) -> None:
    [row] = compared(tmp_path, ["asni-2"])
    other = Study({"digits-fc": SMALL.override(epochs=3)}, [3], ["asni-1"], "fp32", tmp_path / "other")
    train_missing(other, InProcess("cpu"))
    shutil.rmtree(Path(row["directory"]).with_name("asni-1"))
    shutil.copytree(other.runs[0].run.directory, Path(row["directory"]).with_name("asni-1"))
    with pytest.raises(AsniError, match=r"asni-1 holds a different run: .*epochs"):
        compared(tmp_path, ["asni-2"])


def test_a_finished_run_keeps_no_checkpoint_of_a_killed_process(tmp_path: Path) -> None:
    [row] = compared(tmp_path, ["dense"])
    (Path(row["directory"]) / "checkpoint-2.pt").write_text("of no use")
    compared(tmp_path, ["dense"])
    assert not list(tmp_path.rglob("checkpoint*"))


def test_what_is_finished_is_not_done_again(tmp_path: Path) -> None:
    methods = ["dense", "snip", "magnitude-rewind"]
    first = compared(tmp_path, methods)
    written = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*.*") if path.name != ".lock"}
    assert compared(tmp_path, methods) == first
    assert {path: path.stat().st_mtime_ns for path in written} == written


def row(method: str, accuracy: float, seed: int = 0, *, recipe: str = "mnist-fc") -> dict[str, Any]:
    return {
        "recipe": recipe,
        "method": method,
        "directory": f"runs/mnist-fc/seed-{seed}/{method}",
        "task": METHODS[method].task,
        "seed": seed,
        "accuracy": accuracy,
        "nonzeros": 100,
        "sparsity": 0.9,
        "total_sparsity": 0.9,
        "mac_density": 0.1 + 0.02 * seed,
        "trainings": 1,
        "steps": 10,
        "seconds": 2.0 + 2 * seed,
        "paper_imagenet": METHODS[method].imagenet,
    }


def test_the_table_is_sorted_by_task_and_then_by_accuracy() -> None:
    found = [row("snip", 80.0), row("asni-1", 70.0), row("lottery", 90.0), row("dense", 95.0)]
    assert [each["method"] for each in summary(found)] == ["dense", "asni-1", "lottery", "snip"]


def test_a_line_is_the_mean_of_its_seeds() -> None:
    [line] = summary([row("snip", 80.0, 0), row("snip", 82.0, 1), row("snip", 84.0, 2)])
    assert (line["accuracy"], line["spread"], line["seeds"]) == (82.0, 2.0, 3)
    assert line["seconds"] == 4.0
    assert line["mac_density"] == pytest.approx(0.12)


def test_a_search_that_takes_another_number_of_trainings_with_each_seed_is_shown_by_their_mean() -> None:
    searched = [{**row("str", 80.0, seed), "trainings": trainings} for seed, trainings in enumerate((3, 4, 3))]
    shown = summary_table([*searched, row("gmp", 70.0, 0), row("gmp", 70.0, 1)])
    column = shown.headings.index("trainings")
    assert [cells[column] for cells in shown.cells] == ["3.3", "1"]


def test_multiplications_are_unknown_where_a_seed_was_recorded_without_them() -> None:
    shown = summary_table([row("snip", 80.0, 0), row("gmp", 70.0, 0), {**row("gmp", 70.0, 1), "mac_density": None}])
    column = shown.headings.index("MACs %")
    assert [cells[column] for cells in shown.cells] == ["-", "10.00"]
    assert any(note.startswith("MACs %: ") for note in shown.notes)


def test_one_seed_has_no_spread() -> None:
    [line] = summary([row("snip", 80.0)])
    assert line["spread"] is None


def test_a_difference_from_the_paper_is_shown_on_the_papers_recipe_alone() -> None:
    here = summary_table(
        [row("snip", 70.0, recipe="imagenet-resnet50-80"), row("set", 70.0, recipe="imagenet-resnet50-80")]
    )
    assert here.headings[-2:] == ["paper's ImageNet %", "difference"]
    assert [cells[-2:] for cells in here.cells] == [["-", "-"], ["69.29", "+0.71"]]
    elsewhere = summary_table([row("snip", 70.0)])
    assert "difference" not in elsewhere.headings
    assert elsewhere.rows[0]["difference"] is None
    assert elsewhere.notes[0] == "recipe: mnist-fc"


def test_all_methods_are_compared_where_none_is_named() -> None:
    assert chosen_methods(None, SMALL.override(macs=0.5)) == list(METHODS)


def test_without_a_budget_the_method_that_needs_one_is_left_out_or_refused_before_anything_is_trained(
    tmp_path: Path,
) -> None:
    assert chosen_methods(None, SMALL) == [name for name in METHODS if name != "asni-1-macs"]
    with pytest.raises(UsageError, match=r"asni-1-macs needs a budget: --macs 0\.15"):
        Study({"digits-fc": SMALL}, [0], ["dense", "asni-1-macs"], "fp32", tmp_path)


@pytest.mark.parametrize("names", ["snap", "dense,snap"])
def test_methods_that_do_not_exist_are_refused_by_name(names: str) -> None:
    with pytest.raises(UsageError, match=r"'snap'.*'snip'"):
        chosen_methods(names, SMALL)


@pytest.mark.parametrize("names", ["", " , ", "dense,,snip", "dense,snip,", ",dense"])
def test_a_name_that_was_left_out_is_not_passed_over(names: str) -> None:
    with pytest.raises(UsageError, match=f"--methods '{names}'"):
        chosen_methods(names, SMALL)


def test_a_method_ends_with_the_run_of_its_name(tmp_path: Path) -> None:
    for each in compared(tmp_path, ["asni-1", "asni-2", "lottery", "magnitude-rewind", "str"]):
        assert Path(each["directory"]).name == each["method"]


def test_the_papers_tables() -> None:
    """Table 3 and Table 4, as printed."""
    printed = {name: method.imagenet for name, method in METHODS.items() if method.imagenet is not None}
    assert printed == {
        **{"gmp": 74.68, "str": 74.87, "rigl": 74.55, "asni-1": 75.23},
        **{"magnitude-rewind": 73.33, "magnitude-retrain": 75.12, "snip": 69.29, "grasp": 71.56, "asni-2": 75.17},
    }


def test_a_damaged_list_of_rounds_is_named(tmp_path: Path) -> None:
    [found] = compared(tmp_path, ["dense"])
    file = Path(found["directory"]) / "result.json"
    change(file, {"rounds": [1, "dense"]})
    with pytest.raises(AsniError, match=r"dense/result\.json: rounds"):
        compared(tmp_path, ["dense"])
