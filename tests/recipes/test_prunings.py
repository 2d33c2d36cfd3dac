"""The sparsity after each epoch that plans, figures and reports show is the one that a training has."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from asni.errors import UsageError
from asni.methods import METHODS, default_method
from asni.pruning.schedules import kept
from asni.recipes import load, names
from asni.recipes.prunings import prunings
from asni.runs import reading
from asni.studies.plan import plan
from tests.methods.small_recipe import small_recipe
from tests.training.training_setup import trainer

PRUNINGS: list[dict[str, Any]] = [
    {},
    {"epochs": 1},
    {"epochs": 31},
    {"every": "epoch"},
    {"every": 2, "least": 0.02},
    {"every": 1, "epochs": 8, "least": 0.1},
    {"every": 5},
    {"every": 12},
    {"gamma": 0.7, "beta": 0.4},
    {"schedule": "cubic"},
    {"schedule": "cubic", "every": "epoch"},
    {"macs": 0.7},
    {"macs": 0.7, "every": 2},
]


@pytest.mark.parametrize("settings", PRUNINGS)
def test_a_training_follows_what_is_planned(settings: dict[str, Any], tmp_path: Path) -> None:
    recipe = small_recipe(**settings)
    planned = plan(recipe)
    run = METHODS[default_method(recipe)].train(trainer(tmp_path, recipe))
    measured = reading.metrics(run.directory)
    assert [row["nonzeros"] for row in planned["schedule"]] == measured["nonzeros"].tolist()
    expected = [1 - kept(planned["prunable"], share) / planned["prunable"] for share in prunings(recipe, 3).sparsities]
    np.testing.assert_allclose(measured["sparsity"], expected)
    if "macs" in settings:
        limits = np.array([row["mac_density"] for row in planned["schedule"]])
        assert (measured["mac_density"] <= limits + 1e-9).all()
        assert limits[-1] == pytest.approx(0.7)


def test_a_short_training_is_pruned_within_its_epochs_and_a_long_one_after_them() -> None:
    short, long = (prunings(load("digits-fc").override(epochs=epochs), 30) for epochs in (10, 30))
    assert (short.every, short.count, short.done[:2]) == (6, 50, (5, 10))
    assert (long.every, long.count, long.done[:2]) == (30, 30, (1, 2))


@pytest.mark.parametrize("name", [name for name in names() if name != "digits-fc"])
def test_the_papers_rows_are_pruned_once_an_epoch_however_few_there_are(name: str) -> None:
    recipe = load(name).override(epochs=8)
    assert prunings(recipe, 100).sparsities == [recipe.schedule()(epoch, 8) for epoch in range(8)]
    assert prunings(recipe, 100).alpha == recipe.alpha()


def test_prunings_that_are_further_apart_than_the_training_is_long_are_refused() -> None:
    with pytest.raises(UsageError, match=r"every must be from 1 to the 12 steps of the training, not 13\."):
        plan(small_recipe(every=13))
