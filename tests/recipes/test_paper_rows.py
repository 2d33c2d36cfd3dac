"""The recipes are the rows of the paper's first two tables, and end at the nonzeros that NOTES.md derives."""

import pytest
import torch
from torch import nn

from asni.networks import build
from asni.recipes import Recipe, load, names

SHAPES = {"digits": (1, 8, 8), "mnist": (1, 28, 28), "cifar10": (3, 32, 32), "imagenet": (3, 224, 224)}
CLASSES = {"digits": 10, "mnist": 10, "cifar10": 10, "imagenet": 1000}
TRAIN_IMAGES = {"mnist": 60_000, "cifar10": 50_000, "imagenet": 1_281_167}
CLOSED_FORM = {
    "mnist-fc": 8_330,
    "mnist-conv2": 86_364,
    "mnist-conv4": 39_827,
    "mnist-conv6": 51_420,
    "cifar10-conv2": 141_363,
    "cifar10-conv4": 134_183,
    "cifar10-conv6": 164_622,
    "cifar10-vgg11": 352_739,
    "cifar10-vgg13": 266_840,
    "cifar10-vgg16": 270_226,
    "cifar10-resnet18": 426_885,
    "imagenet-resnet50-80": 5_166_147,
    "imagenet-resnet50-90": 2_647_480,
}


def counts(recipe: Recipe) -> tuple[int, int]:
    """All parameters, and the prunable ones among them."""
    with torch.device("meta"):
        model = build(recipe.network, SHAPES[recipe.dataset], CLASSES[recipe.dataset], recipe.network_options)
    prunable = sum(m.weight.numel() for m in model.modules() if isinstance(m, nn.Conv2d | nn.Linear))
    return sum(p.numel() for p in model.parameters()), prunable


@pytest.mark.parametrize(("name", "nonzeros"), CLOSED_FORM.items())
@pytest.mark.parametrize("epochs", [None, 1, 8, 333])
def test_the_final_nonzeros_are_the_closed_form_at_any_number_of_epochs(
    name: str, nonzeros: int, epochs: int | None
) -> None:
    recipe = load(name).override(epochs=epochs)
    parameters, prunable = counts(recipe)
    assert parameters - prunable + round(prunable * (1 - recipe.final_sparsity)) == nonzeros


@pytest.mark.parametrize("name", CLOSED_FORM)
def test_the_paper_prints_the_same_parameters_and_nearly_the_same_nonzeros(name: str) -> None:
    recipe = load(name)
    assert recipe.paper.nonzeros is not None
    assert recipe.paper.row is not None
    assert recipe.paper.parameters == counts(recipe)[0]
    difference = abs(CLOSED_FORM[name] - recipe.paper.nonzeros)
    assert difference <= 5 if recipe.paper.row <= 7 else difference / recipe.paper.nonzeros < 0.055


def test_the_steps_of_an_epoch_are_the_papers() -> None:
    recipes = [load(name) for name in CLOSED_FORM]
    steps = [recipe.steps_per_epoch(TRAIN_IMAGES[recipe.dataset]) for recipe in recipes]
    assert steps == 7 * [1000] + 4 * [391] + 2 * [1563]


# To be read beside the tables: E, B, rate, weight decay, alpha, gamma, s %, T1-D, T1-A-I, T1-A-II, T1-S.
TABLES = """
mnist-fc             50  60 1.2e-3 0    98    5  96.87 96.88 96.72 96.93 96.75
mnist-conv2          20  60 2e-4   0    99.2  2  98.18 98.09 98.12 98.14 98.03
mnist-conv4          25  60 3e-4   0    98.5  2  97.94 98.33 98.46 98.52 98.27
mnist-conv6          30  60 3e-4   0    98.5  3  97.15 98.25 98.54 98.53 98.36
cifar10-conv2        20  60 2e-4   0    98.5  2  96.71 76.10 74.61 76.4  75.26
cifar10-conv4        25  60 3e-4   0    95    2  94.47 84.34 84    83.76 83.24
cifar10-conv6        30  60 3e-4   0    94    3  92.72 86.69 86.1  85.72 85.55
cifar10-vgg11        160 128 0.05  5e-4 97    16 96.14 92.40 91.51 91.18 89.94
cifar10-vgg13        160 128 0.05  5e-4 98    16 97.14 94.23 92.98 92.29 91.67
cifar10-vgg16        160 128 0.05  5e-4 99    16 98.15 93.90 93.45 92.13 91.94
cifar10-resnet18     160 128 0.08  5e-4 97    16 96.14 90.11 88.93 88.52 87.95
imagenet-resnet50-80 90  820 0.35  1e-4 81.04 10 80.12 76.08 75.23 75.17 70.91
imagenet-resnet50-90 90  820 0.35  1e-4 91.05 10 90.08 76.08 74.28 73.97 68.41
"""


@pytest.mark.parametrize("line", TABLES.strip().splitlines())
def test_a_recipe_holds_its_line_of_the_tables(line: str) -> None:
    name, *values = line.split()
    recipe = load(name)
    training, pruning, paper = recipe.training, recipe.pruning, recipe.paper
    schedule = [training.epochs, training.batch_size, training.lr, training.weight_decay, pruning.alpha, pruning.gamma]
    printed = [paper.sparsity, paper.dense, paper.asni_1, paper.asni_2, paper.original]
    assert schedule + printed == [float(value) for value in values]
    assert pruning.beta == 0.5


def test_the_small_networks_train_with_adam_at_a_constant_rate_and_the_large_ones_with_sgd_and_cosine() -> None:
    for name in CLOSED_FORM:
        training = load(name).training
        row = load(name).paper.row or 0
        small = ("adam", 0.0, "constant", 0.0, 0)
        large = ("sgd", 0.9, "cosine", 0.05, 0) if row <= 11 else ("sgd", 0.9, "cosine", 0.04, 10)
        policy = (training.optimizer, training.momentum, training.lr_policy, training.delta, training.warmup_epochs)
        assert policy == (small if row <= 7 else large)


def test_images_are_augmented_as_the_notes_say() -> None:
    augment = {"cifar10": "crop-flip", "imagenet": "resized-crop-flip"}
    for name in names():
        assert load(name).training.augment == augment.get(load(name).dataset)
