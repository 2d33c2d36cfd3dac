"""A run that is shortened, diverged, at chance or unfinished says so in its marks."""

import json
import math
from pathlib import Path
from typing import Any

import pytest

from asni.recipes import Recipe, load
from asni.report import collect
from asni.report.marks import marks
from tests.report.made_runs import make_run
from tests.runs.sealing import seal

WHOLE = load("mnist-fc")


def marks_of(root: Path, **made: Any) -> list[str]:
    make_run(root / "run", **{"asked": WHOLE, **made})
    (run,) = collect(root).runs
    return marks(run)


def own(**training: Any) -> Recipe:
    """A recipe of one's own, whose epochs can be changed but not looked up."""
    asked = WHOLE.model_copy(update={"name": "mine"})
    return asked.override(**training) if training else asked


@pytest.mark.parametrize("changes", [{}, {"epochs": 80}, {"batch_size": 100}, {"sparsity": 0.5, "lr": 0.1}])
def test_a_whole_training_has_no_mark(tmp_path: Path, changes: dict[str, Any]) -> None:
    assert marks_of(tmp_path, asked=WHOLE.override(**changes)) == []


@pytest.mark.parametrize("changes", [{"epochs": 10}, {"scale": 0.2}, {"steps_per_epoch": 7}])
def test_fewer_epochs_or_steps_than_those_of_the_recipe_are_shortened(tmp_path: Path, changes: dict[str, Any]) -> None:
    assert marks_of(tmp_path, asked=WHOLE.override(**changes)) == ["shortened"]


@pytest.mark.parametrize(("stage", "expected"), [("asni-1", []), ("original", []), ("asni-2", ["shortened"])])
def test_a_shorter_second_round_is_shortened_alone(tmp_path: Path, stage: str, expected: list[str]) -> None:
    assert marks_of(tmp_path, asked=WHOLE.override(amenable_epochs=0.2), stage=stage) == expected


@pytest.mark.parametrize(("asked", "expected"), [(own(), []), (own(epochs=10), ["shortened"]), (own(epochs=80), [])])
def test_a_recipe_of_ones_own_is_compared_with_the_epochs_it_had(
    tmp_path: Path, asked: Recipe, expected: list[str]
) -> None:
    assert marks_of(tmp_path, asked=asked) == expected


def test_an_accuracy_that_is_nan_has_diverged(tmp_path: Path) -> None:
    assert marks_of(tmp_path, result={"accuracy": math.nan}) == ["diverged"]


def test_a_loss_that_ends_as_nan_has_diverged_and_its_accuracy_is_no_chance(tmp_path: Path) -> None:
    directory = make_run(tmp_path / "run", asked=WHOLE, accuracy=9.8)
    *rows, last = (directory / "metrics.jsonl").read_text().splitlines()
    (directory / "metrics.jsonl").write_text("\n".join([*rows, json.dumps(json.loads(last) | {"loss": None})]))
    seal(directory)
    assert marks(collect(tmp_path).runs[0]) == ["diverged"]


@pytest.mark.parametrize(("accuracy", "expected"), [(11.35, ["at chance"]), (15.0, ["at chance"]), (15.1, [])])
def test_one_guess_in_ten_classes_is_at_chance(tmp_path: Path, accuracy: float, expected: list[str]) -> None:
    assert marks_of(tmp_path, accuracy=accuracy) == expected


@pytest.mark.parametrize(("accuracy", "expected"), [(52.0, ["at chance"]), (70.0, [])])
def test_own_data_is_judged_by_its_classes(tmp_path: Path, accuracy: float, expected: list[str]) -> None:
    directory = make_run(tmp_path / "run", asked=own().model_copy(update={"dataset": "./mine"}), accuracy=accuracy)
    request = json.loads((directory / "request.json").read_text())
    request["data"] = {"shape": [1, 2, 2], "classes": 2, "checksum": "00"}
    (directory / "request.json").write_text(json.dumps(request))
    seal(directory)
    assert marks(collect(tmp_path).runs[0]) == expected


def test_a_training_that_goes_on_is_unfinished_and_its_accuracy_not_judged(tmp_path: Path) -> None:
    (make_run(tmp_path / "run", asked=WHOLE, accuracy=10.0) / "result.json").unlink()
    assert marks(collect(tmp_path).runs[0]) == ["unfinished"]
