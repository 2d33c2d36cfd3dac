"""Every recipe whose data fits in memory trains a step of its own batch size and ends at its own nonzeros."""

from pathlib import Path

import numpy as np
import pytest

from asni import datasets, recipes
from asni.datasets import INFO, Info
from asni.datasets.memory import Arrays, InMemory
from asni.datasets.normalisation import Normalisation
from asni.methods import METHODS
from asni.studies.plan import plan
from tests.training.training_setup import trainer

IN_MEMORY = [name for name in recipes.names() if recipes.load(name).dataset != "imagenet"]


def noise(info: Info) -> InMemory:
    """As many pictures as two batches need, of the dataset's shape and with its number of classes."""
    random = np.random.default_rng(0)
    parts = []
    for count in (256, 20):
        parts += [random.integers(0, 256, (count, *info.shape), np.uint8), random.integers(0, info.classes, count)]
    train_images, train_labels, test_images, test_labels = (part.astype(np.uint8) for part in parts)
    arrays = Arrays(train_images, train_labels, test_images, test_labels)
    channels = info.shape[0]
    return InMemory(arrays, info.classes, Normalisation([0.5] * channels, [0.25] * channels, white=255))


@pytest.mark.parametrize("name", IN_MEMORY)
def test_a_recipe_trains_and_ends_at_its_nonzeros(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    recipe = recipes.load(name)
    monkeypatch.setattr(datasets, "load", lambda dataset, options: noise(INFO[dataset]))
    run = METHODS["asni-1"].train(trainer(tmp_path, recipe.override(epochs=1, steps_per_epoch=1)))
    assert run.result["nonzeros"] == plan(recipe)["nonzeros"]
    assert run.result["steps"] == 1
