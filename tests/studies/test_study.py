"""What a study consists of, what is missing, and what happens to the others when a run fails."""

from pathlib import Path
from typing import Any

import pytest

from asni.errors import AsniError, UsageError
from asni.methods import METHODS
from asni.recipes import Recipe, load
from asni.studies.executors import InProcess, train_missing
from asni.studies.study import Study

SHORT = load("digits-fc").override(epochs=1, steps_per_epoch=3)


def study(root: Path, *methods: str, recipe: Recipe = SHORT, seeds: int = 1) -> Study:
    return Study({"digits-fc": recipe}, range(seeds), methods, "fp32", root)


def test_it_is_every_method_on_every_seed_of_every_recipe(tmp_path: Path) -> None:
    recipes = {"digits-fc": SHORT, "mnist-fc": load("mnist-fc")}
    asked = Study(recipes, [0, 4], ["dense", "snip"], "bf16", tmp_path)
    assert [str(planned.run.directory.relative_to(tmp_path)) for planned in asked.runs] == [
        f"{recipe}/seed-{seed}/{method}"
        for recipe in ("digits-fc--epochs-1--steps-per-epoch-3", "mnist-fc")
        for seed in (0, 4)
        for method in ("dense", "snip")
    ]
    assert {planned.run.request["precision"] for planned in asked.runs} == {"bf16"}


def test_only_what_is_missing_is_trained(tmp_path: Path) -> None:
    assert train_missing(study(tmp_path, "dense"), InProcess("cpu")) == {}
    both = study(tmp_path, "dense", "snip")
    assert [planned.method.name for planned in both.missing()] == ["snip"]
    assert train_missing(both, InProcess("cpu")) == {}
    assert both.missing() == []
    assert train_missing(both, InProcess("cpu")) is None


def test_two_recipes_of_one_name_would_share_directories(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"b/own\.toml and a/own\.toml"):
        Study({"a/own.toml": SHORT, "b/own.toml": SHORT}, [0], ["dense"], "fp32", tmp_path)


def test_a_run_that_fails_is_named_and_the_others_are_trained_but_for_those_that_need_it(tmp_path: Path) -> None:
    asked = study(tmp_path, "dense", "magnitude-retrain", "snip")
    with asked.runs[0].run.locked():
        failures = train_missing(asked, InProcess("cpu"))
    assert failures is not None
    assert [str(planned) for planned in failures] == [
        "digits-fc--epochs-1--steps-per-epoch-3 seed 0 dense",
        "digits-fc--epochs-1--steps-per-epoch-3 seed 0 magnitude-retrain",
    ]
    dense, retrained = failures.values()
    assert str(asked.runs[0].run.directory) in dense
    assert "needs dense" in retrained
    assert asked.runs[2].run.finished


def test_a_run_that_is_alone_fails_with_its_own_error(tmp_path: Path) -> None:
    asked = study(tmp_path, "dense")
    run = asked.runs[0].run
    with run.locked(), pytest.raises(AsniError, match=f"another process .*{run.directory}"):
        train_missing(asked, InProcess("cpu"))


def test_a_request_that_cannot_be_fulfilled_ends_the_study_at_once(tmp_path: Path) -> None:
    asked = study(tmp_path, "dense", "snip", recipe=SHORT.override(batch_size=1501))
    with pytest.raises(UsageError, match="1501"):
        train_missing(asked, InProcess("cpu"))


@pytest.mark.parametrize("name", METHODS)
def test_what_a_method_needs_is_a_method(name: str) -> None:
    assert all(needed in METHODS for needed in METHODS[name].needs)


@pytest.mark.parametrize("pruning", [{"exclude": ["linear4"]}, {"floor": 0.5}])
def test_a_pruning_that_cannot_be_done_is_refused_before_anything_is_trained(
    tmp_path: Path, pruning: dict[str, Any]
) -> None:
    wrong = SHORT.model_copy(update={"pruning": SHORT.pruning.model_copy(update=pruning)})
    asked = study(tmp_path, "dense", "asni-1", recipe=wrong)
    with pytest.raises(UsageError):
        train_missing(asked, InProcess("cpu"))
    assert not any(tmp_path.rglob("request.json"))
