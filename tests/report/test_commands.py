"""The command on the page repeats the run."""

from pathlib import Path
from typing import Any

import pytest

from asni.recipes import Recipe, load
from asni.report import collect
from asni.report.commands import command
from tests.report.made_runs import make_run


def command_of(directory: Path, asked: Recipe, stage: str, **request: Any) -> tuple[str | None, str]:
    make_run(directory / "run", asked=asked, stage=stage, seed=2, **request)
    return command(collect(directory).runs[0])


@pytest.mark.parametrize("method", ["asni-1", "asni-2", "dense", "rigl-uniform"])
def test_the_method_that_a_run_is_for(tmp_path: Path, method: str) -> None:
    assert command_of(tmp_path, load("mnist-fc"), method) == (f"asni train mnist-fc --method {method} --seed 2", "")


def test_what_was_changed_in_the_recipe_is_in_the_command(tmp_path: Path) -> None:
    asked = load("mnist-fc").override(epochs=10, batch_size=100, lr=1e-4, sparsity=0.9, steps_per_epoch=7)
    assert command_of(tmp_path, asked, "gmp") == (
        "asni train mnist-fc --method gmp --seed 2"
        " --epochs 10 --batch-size 100 --lr 0.0001 --sparsity 0.9 --steps-per-epoch 7",
        "",
    )


def test_a_round_of_a_method_is_trained_by_the_method(tmp_path: Path) -> None:
    line, note = command_of(tmp_path, load("mnist-fc"), "lottery-rewind-round-3", method="lottery-rewind")
    assert line == "asni train mnist-fc --method lottery-rewind --seed 2"
    assert "lottery-rewind" in note


def test_a_recipe_that_has_changed_is_noted(tmp_path: Path) -> None:
    asked = load("mnist-fc").model_copy(update={"title": "as it was"})
    note = command_of(tmp_path, asked, "asni-1")[1]
    assert "mnist-fc" in note
    assert "changed" in note


def test_a_recipe_of_ones_own_is_a_file_and_its_name_cannot_add_to_the_command(tmp_path: Path) -> None:
    line, note = command_of(tmp_path, load("mnist-fc").model_copy(update={"name": "a; rm -rf b"}), "asni-1")
    assert line == "asni train './a; rm -rf b.toml' --method asni-1 --seed 2"
    assert "path" in note


def test_the_first_steps_that_others_go_back_to_have_no_command(tmp_path: Path) -> None:
    assert command_of(tmp_path, load("mnist-fc"), "dense-until-50", method="dense")[0] is None


def test_the_pruning_of_a_packed_file_is_in_the_file_and_not_in_the_command(tmp_path: Path) -> None:
    asked = load("mnist-fc").override(gamma=4.0, epochs=10)
    line, _ = command_of(tmp_path, asked, "from-0012abcd", settings={"packed_file": "0012abcd"})
    assert line == "asni train --from FILE.asni --seed 2 --epochs 10"


def test_a_training_from_a_packed_file_names_its_content(tmp_path: Path) -> None:
    line, note = command_of(tmp_path, load("mnist-fc"), "from-0012abcd", settings={"packed_file": "0012abcd"})
    assert line == "asni train mnist-fc --from FILE.asni --seed 2"
    assert "0012abcd" in note
