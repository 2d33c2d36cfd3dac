"""When a recipe prunes, along which curve and within which budget; and what its variants change in that."""

from pathlib import Path
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

from asni.cli.grouping import with_options
from asni.cli.options import Changes
from asni.errors import UsageError
from asni.recipes import Recipe, load, names

RECIPE = """
dataset = "digits"
network = "fc"
[training]
epochs = 4
batch_size = 50
optimizer = "adam"
lr = 1e-3
[pruning]
sparsity = 0.9
"""


def written(directory: Path, more: str) -> Recipe:
    path = directory / "own.toml"
    path.write_text(RECIPE + more)
    return load(str(path))


@pytest.mark.parametrize(
    ("line", "key", "value"),
    [
        ("every = 25", "every", 25),
        ('every = "epoch"', "every", "epoch"),
        ('schedule = "cubic"', "schedule", "cubic"),
        ("macs = 0.15", "macs", 0.15),
        ('latency = "2ms"', "latency", 2.0),
        ('latency = "2.5 ms"', "latency", 2.5),
        ('latency = "300us"', "latency", 0.3),
        ('latency = "1s"', "latency", 1000.0),
        ("latency = 2", "latency", 2.0),
        ("speedup = 4", "speedup", 4),
        ("speedup = 4\nlatency_batch = 64", "latency_batch", 64),
    ],
)
def test_a_recipe_may_say(tmp_path: Path, line: str, key: str, value: object) -> None:
    found = getattr(written(tmp_path, line).pruning, key)
    assert (found, type(found)) == (pytest.approx(value) if isinstance(value, float) else value, type(found))


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        ("every = 0", r"pruning\.every.* = 0: .* 1\b"),
        ('every = "step"', r"pruning\.every.*'step'.*'epoch'"),
        ("every = 2.5", r"pruning\.every.* = 2\.5: "),
        ('schedule = "linear"', r"pruning\.schedule = 'linear': .*'sigmoid' or 'cubic'"),
        ("macs = 0.0", r"pruning\.macs = 0\.0: .* 0\b"),
        ("macs = 15", r"pruning\.macs = 15: .* 1\b"),
        ('latency = "2 m"', r"pruning\.latency: '2 m' is not a time; write it as 2\.5ms, 300us or 1s"),
        ('latency = "ms"', r"pruning\.latency: 'ms' is not a time"),
        ('latency = "a\\nb"', r"pruning\.latency: 'a\\nb' is not a time"),
        ('latency = "-1ms"', r"pruning\.latency = -1\.0: .* 0\b"),
        ('latency = "nan"', r"pruning\.latency = nan: .*finite"),
        (f"latency = 1{'0' * 400}", r"pruning\.latency = inf: .*finite"),
        ("latency = true", r"pruning\.latency = True: "),
        ("speedup = 1.0", r"pruning\.speedup = 1\.0: .* 1\b"),
        ("latency_threads = 0", r"pruning\.latency_threads = 0: .* 1\b"),
        ('macs = 0.15\nlatency = "2ms"', "macs, latency and speedup all set a budget: choose one"),
        ("macs = 0.15\nlatency_batch = 64", "latency_batch and latency_threads need latency or speedup"),
    ],
)
def test_what_a_recipe_may_not_say_is_refused_by_key(tmp_path: Path, lines: str, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        written(tmp_path, lines)


def test_the_papers_recipes_are_pruned_once_an_epoch_whatever_their_length() -> None:
    paper = [load(name) for name in names() if load(name).paper.row is not None]
    assert len(paper) == 13
    assert {recipe.override(epochs=3).pruning.every for recipe in paper} == {"epoch"}
    assert load("mnist-fc").override(prune_every=100).pruning.every == 100


CHANGES: dict[str, Any] = {
    "schedule": "cubic",
    "prune_every": 100,
    "speedup": 4.0,
    "latency_batch": 64,
    "latency_threads": 2,
    "average_last": True,
}


def test_a_variant_is_called_after_what_it_changes_in_the_pruning() -> None:
    assert load("mnist-fc").override(**CHANGES).variant_name == (
        "mnist-fc--schedule-cubic--prune-every-100--speedup-4.0--latency-batch-64--latency-threads-2--average-last"
    )
    assert load("mnist-fc").override(latency="2ms").variant_name == "mnist-fc--latency-2.0"
    assert load("mnist-fc").override(schedule="sigmoid", average_last=False).variant_name == "mnist-fc"


@pytest.mark.parametrize("changes", [CHANGES, {"latency": "1500us"}, {"macs": 0.15}, {"average_last": True}])
def test_the_command_line_reads_the_arguments_of_a_variant(changes: dict[str, Any]) -> None:
    variant = load("digits-fc").override(**changes)
    assert through_the_command_line(variant) == variant


def test_a_variant_may_do_without_the_average_of_its_recipe(tmp_path: Path) -> None:
    recipe = load("digits-fc")
    averaged = recipe.model_copy(update={"training": recipe.training.model_copy(update={"average_last": True})})
    variant = averaged.override(average_last=False)
    assert variant.overrides.arguments() == ["--no-average-last"]
    assert not variant.training.average_last


def through_the_command_line(variant: Recipe) -> Recipe:
    read: list[Recipe] = []
    app = typer.Typer()

    @app.command()
    @with_options
    def command(changes: Changes) -> None:
        read.append(load(variant.name).override(**changes))

    answer = CliRunner().invoke(app, variant.overrides.arguments())
    assert answer.exit_code == 0, answer.output
    return read[0]


@pytest.mark.parametrize("second", [{"latency": "2ms"}, {"speedup": 4.0}, {"macs": 0.3}])
def test_a_later_budget_replaces_an_earlier_one(second: dict[str, Any]) -> None:
    recipe = load("mnist-fc")
    assert recipe.override(macs=0.15).override(**second) == recipe.override(**second)
    assert recipe.override(**second).override(macs=0.15) == recipe.override(macs=0.15)


def test_budgets_exclude_each_other() -> None:
    with pytest.raises(UsageError, match="macs, latency and speedup all set a budget: choose one"):
        load("mnist-fc").override(macs=0.15, speedup=4.0)


@pytest.mark.parametrize("shape", [{"beta": 0.4}, {"gamma": 3.0}, {"least": 0.002}])
def test_what_shapes_the_sigmoid_is_refused_for_the_cubic_in_any_order(shape: dict[str, float]) -> None:
    for first, second in (({"schedule": "cubic"}, shape), (shape, {"schedule": "cubic"})):
        with pytest.raises(UsageError, match="beta, gamma and least shape the sigmoid"):
            load("mnist-fc").override(**first).override(**second)
    assert load("mnist-fc").override(schedule="cubic").schedule().final == load("mnist-fc").schedule().final


def test_the_shape_of_the_sigmoid_is_no_option_of_a_cubic_recipe(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="this recipe's schedule is cubic"):
        written(tmp_path, 'schedule = "cubic"').override(beta=0.2)
