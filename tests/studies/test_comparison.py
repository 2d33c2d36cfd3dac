"""Methods side by side, and what they cost."""

from pathlib import Path
from typing import Any

import pytest

from asni.errors import UsageError
from asni.methods import METHODS
from asni.recipes import load
from asni.studies.comparison import FIRST_TASK, PAPER, chosen, summary, table, train
from asni.studies.study import stage_of
from asni.training.trainer import Trainer
from tests.training.training_setup import trainer


def small_trainer(home: Path) -> Trainer:
    return trainer(home, load("digits-fc").override(epochs=2, steps_per_epoch=4, sparsity=0.5), seed=3)


def test_a_row_counts_every_training_that_the_method_needed_once(tmp_path: Path) -> None:
    methods = ["lottery", "dense", "magnitude-rewind", "magnitude-retrain", "snip"]
    rows = {row["method"]: row for row in train(small_trainer(tmp_path), methods)}
    assert {method: rows[method]["steps"] for method in methods} == {
        "lottery": 5 * 8,
        "dense": 8,
        "magnitude-rewind": 8 + 1 + 7,
        "magnitude-retrain": 8 + 8,
        "snip": 8,
    }
    assert {method: rows[method]["trainings"] for method in methods} == {
        "lottery": 5,
        "dense": 1,
        "magnitude-rewind": 3,
        "magnitude-retrain": 2,
        "snip": 1,
    }


def test_sparse_methods_end_at_the_same_nonzeros(tmp_path: Path) -> None:
    rows = list(train(small_trainer(tmp_path), ["asni", "snip", "random", "early-bird"]))
    assert {row["nonzeros"] for row in rows} == {410 + 25_100}
    assert {row["seed"] for row in rows} == {3}


def test_what_is_finished_is_not_done_again(tmp_path: Path) -> None:
    methods = ["dense", "snip", "magnitude-rewind"]
    first = list(train(small_trainer(tmp_path), methods))
    written = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*.*") if path.name != ".lock"}
    assert list(train(small_trainer(tmp_path), methods)) == first
    assert {path: path.stat().st_mtime_ns for path in written} == written


def row(method: str, accuracy: float, seed: int = 0, *, recipe: str = "mnist-fc") -> dict[str, Any]:
    return {
        "recipe": recipe,
        "method": method,
        "directory": f"runs/mnist-fc/seed-{seed}/{method}",
        "task": 1 if method in FIRST_TASK else 2,
        "seed": seed,
        "accuracy": accuracy,
        "nonzeros": 100,
        "sparsity": 0.9,
        "total_sparsity": 0.9,
        "trainings": 1,
        "steps": 10,
        "seconds": 2.0 + 2 * seed,
        "paper_imagenet": PAPER.get(method),
    }


def test_the_table_is_sorted_by_task_and_then_by_accuracy() -> None:
    rows = [row("snip", 80.0), row("asni", 70.0), row("lottery", 90.0), row("dense", 95.0)]
    assert [each["method"] for each in summary(rows)] == ["dense", "asni", "lottery", "snip"]


def test_seeds_are_taken_together() -> None:
    [together] = summary([row("snip", 80.0, 0), row("snip", 82.0, 1), row("snip", 84.0, 2)])
    assert (together["accuracy"], together["spread"], together["seeds"]) == (82.0, 2.0, 3)
    assert together["seconds"] == 4.0


def test_a_search_that_takes_another_number_of_trainings_with_each_seed_is_shown_by_their_mean() -> None:
    searched = [{**row("str", 80.0, seed), "trainings": trainings} for seed, trainings in enumerate((3, 4, 3))]
    shown = table([*searched, row("gmp", 70.0, 0), row("gmp", 70.0, 1)])
    column = shown.headings.index("trainings")
    assert [cells[column] for cells in shown.cells] == ["3.3", "1"]


def test_one_seed_has_no_spread() -> None:
    [together] = summary([row("snip", 80.0)])
    assert together["spread"] is None


def test_a_difference_from_the_paper_is_told_on_the_papers_recipe_alone() -> None:
    here = table([row("snip", 70.0, recipe="imagenet-resnet50-80"), row("set", 70.0, recipe="imagenet-resnet50-80")])
    assert here.headings[-2:] == ["paper's ImageNet %", "difference"]
    assert [cells[-2:] for cells in here.cells] == [["-", "-"], ["69.29", "+0.71"]]
    elsewhere = table([row("snip", 70.0)])
    assert "difference" not in elsewhere.headings
    assert elsewhere.rows[0]["difference"] is None
    assert elsewhere.notes[0] == "recipe: mnist-fc"


def test_all_methods_are_compared_where_none_is_named() -> None:
    assert chosen(None, METHODS) == list(METHODS)


@pytest.mark.parametrize("names", ["snap", "dense,snap"])
def test_methods_that_do_not_exist_are_refused_by_name(names: str) -> None:
    with pytest.raises(UsageError, match=r"no method 'snap'; did you mean 'snip'\?"):
        chosen(names, METHODS)


@pytest.mark.parametrize("names", ["", " , ", "dense,,snip", "dense,snip,", ",dense"])
def test_a_name_that_was_left_out_is_not_passed_over(names: str) -> None:
    with pytest.raises(UsageError, match=f"--methods '{names}': no method is named where one should be"):
        chosen(names, METHODS)


def test_a_method_ends_with_the_training_of_its_name_or_the_papers_variant(tmp_path: Path) -> None:
    methods = ["asni", "asni-2", "lottery", "magnitude-rewind", "str"]
    for row in train(small_trainer(tmp_path), methods):
        assert Path(row["directory"]).name == stage_of(row["method"])


def test_the_papers_tables() -> None:
    """Table 3 and Table 4, as printed."""
    assert PAPER == {
        **{"gmp": 74.68, "str": 74.87, "rigl": 74.55, "asni": 75.23},
        **{"magnitude-rewind": 73.33, "magnitude-retrain": 75.12, "snip": 69.29, "grasp": 71.56, "asni-2": 75.17},
    }
