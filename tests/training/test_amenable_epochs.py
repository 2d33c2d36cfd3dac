"""A shorter second round of ASNI-II, beside trainings of full length."""

import json
from pathlib import Path

import pytest
from rich.console import Console

from asni.methods import METHODS, VARIANTS
from asni.recipes import Recipe, lr_at
from asni.runs.run import Run
from asni.training.progress import Progress
from tests.methods.small_recipe import small_recipe
from tests.training.test_training import equal
from tests.training.training_setup import experiment, trainer


def full() -> Recipe:
    return small_recipe(optimizer="sgd", epochs=6)


def short() -> Recipe:
    return full().override(amenable_epochs=0.5)


def rates(run: Run) -> list[float]:
    return [json.loads(line)["lr"] for line in (run.directory / "metrics.jsonl").read_text().splitlines()]


def test_the_second_round_alone_is_shorter_and_its_learning_rate_falls_as_far(tmp_path: Path) -> None:
    for method in VARIANTS:
        METHODS[method].train(trainer(tmp_path, short()))
    runs = {stage: experiment(tmp_path, short()).run(stage) for stage in VARIANTS}
    assert {stage: run.result["epochs"] for stage, run in runs.items()} == {
        "dense": 6,
        "asni-1": 6,
        "asni-2": 3,
        "original": 6,
    }
    assert runs["asni-2"].result["steps"] == 9
    assert rates(runs["asni-2"]) == [lr_at(full().override(epochs=3).training, epoch) for epoch in range(3)]


def test_rounds_that_it_does_not_change_are_copied_from_the_training_of_full_length(tmp_path: Path) -> None:
    METHODS["asni-2"].train(trainer(tmp_path, full()))
    console = Console(record=True, width=200)
    asni_2 = METHODS["asni-2"].train(trainer(tmp_path, short(), progress=Progress(console)))
    there, here = (experiment(tmp_path, recipe) for recipe in (full(), short()))
    assert f"asni-1: copied from {there.home}" in console.export_text()
    assert here.run("asni-1").finished
    assert here.run("asni-1").result == there.run("asni-1").result
    assert equal(here.run("asni-1").weights, there.run("asni-1").weights)
    assert equal(asni_2.initial, there.run("asni-2").initial), "only the length differs"
    assert not equal(asni_2.weights, there.run("asni-2").weights)


@pytest.mark.parametrize("other", [{"title": "another"}, {"title": ""}], ids=["another run", "an unfinished run"])
def test_nothing_is_copied_from_what_is_not_the_same_finished_training(tmp_path: Path, other: dict[str, str]) -> None:
    METHODS["asni-1"].train(trainer(tmp_path, full().model_copy(update=other)))
    if not other["title"]:
        (experiment(tmp_path, full()).home / "asni-1" / "result.json").unlink()
    console = Console(record=True, width=200)
    METHODS["asni-1"].train(trainer(tmp_path, short(), progress=Progress(console)))
    assert "copied" not in console.export_text()
