"""Variants of a recipe: what changes, what stays, what is refused, and how the variant is called."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from asni.errors import UsageError
from asni.recipes import Recipe, load, names


def test_fewer_epochs_scale_gamma_and_keep_the_final_sparsity() -> None:
    recipe = load("mnist-fc")
    shorter = recipe.override(epochs=10)
    assert (shorter.training.epochs, shorter.gamma) == (10, 1.0)
    assert shorter.final_sparsity == recipe.final_sparsity
    assert shorter.variant_name == "mnist-fc--epochs-10"


@given(name=st.sampled_from(names()), epochs=st.integers(1, 500), then=st.integers(1, 500))
def test_other_epochs_stretch_the_curve_and_keep_its_end(name: str, epochs: int, then: int) -> None:
    recipe = load(name)
    variant = recipe.override(epochs=epochs).override(epochs=then)
    assert variant.final_sparsity == recipe.final_sparsity
    assert variant.gamma / then == pytest.approx(recipe.gamma / recipe.training.epochs)
    assert variant.training.warmup_epochs < then


@pytest.mark.parametrize(("epochs", "warmup"), [(90, 10), (45, 5), (9, 1), (3, 1), (2, 1), (1, 0), (180, 20)])
def test_the_warm_up_scales_with_the_epochs(epochs: int, warmup: int) -> None:
    assert load("imagenet-resnet50-80").override(epochs=epochs).training.warmup_epochs == warmup


def test_a_wanted_sparsity_is_the_final_sparsity_and_leaves_the_rest() -> None:
    recipe = load("mnist-fc")
    variant = recipe.override(sparsity=0.8)
    assert variant.final_sparsity == 0.8
    assert variant.training == recipe.training
    assert variant.gamma == recipe.gamma
    assert variant.override(epochs=7).final_sparsity == 0.8


def test_a_variant_is_called_after_what_it_changes() -> None:
    recipe = load("mnist-fc")
    assert recipe.variant_name == "mnist-fc"
    assert recipe.override(epochs=50, lr=1.2e-3).variant_name == "mnist-fc"
    variant = recipe.override(steps_per_epoch=20, lr=0.01, batch_size=128, sparsity=0.9, epochs=2)
    assert variant.variant_name == "mnist-fc--epochs-2--batch-size-128--lr-0.01--sparsity-0.9--steps-per-epoch-20"
    assert recipe.override(lr=0.01).override(epochs=2) == recipe.override(epochs=2).override(lr=0.01)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"epochs": 0}, r"epochs = 0: .* 1\b"),
        ({"batch_size": 0}, r"batch_size = 0: .* 1\b"),
        ({"steps_per_epoch": -1}, r"steps_per_epoch = -1: .* 1\b"),
        ({"lr": 0.0}, r"lr = 0\.0: .* 0\b"),
        ({"lr": float("nan")}, "lr = nan: .*finite"),
        ({"sparsity": 0.0}, r"sparsity = 0\.0: .* 0 .*fraction"),
        ({"sparsity": 1.0}, r"sparsity = 1\.0: .* 1\b"),
        ({"sparsity": 120}, r"sparsity = 120: .* 1\b"),
    ],
)
def test_a_change_out_of_range_is_refused_by_name(change: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        load("mnist-fc").override(**change)


@pytest.mark.parametrize(("scale", "epochs"), [(0.2, 10), (0.001, 2), (1.0, 50), (2.0, 100), (0.53, 26)])
def test_scale_multiplies_the_epochs_down_to_two(scale: float, epochs: int) -> None:
    assert load("mnist-fc").override(scale=scale) == load("mnist-fc").override(epochs=epochs)


@pytest.mark.parametrize("scale", [0.0, -1.0, float("nan"), float("inf"), 1e308])
def test_a_scale_that_is_no_length_is_refused(scale: float) -> None:
    with pytest.raises(UsageError, match="scale = "):
        load("mnist-fc").override(scale=scale)


def test_epochs_and_scale_exclude_each_other() -> None:
    with pytest.raises(UsageError, match=r"epochs.*scale"):
        load("mnist-fc").override(epochs=2, scale=0.2)


@given(name=st.sampled_from(names()), epochs=st.integers(1, 500), lr=st.floats(1e-6, 10), sparsity=st.floats(0.1, 0.99))
def test_the_arguments_of_a_variant_make_the_same_variant(name: str, epochs: int, lr: float, sparsity: float) -> None:
    variant = load(name).override(epochs=epochs, lr=lr, sparsity=sparsity, score="lamp")
    words = variant.overrides.arguments()
    read = {key.removeprefix("--"): value for key, value in zip(words[::2], words[1::2], strict=True)}
    kinds = {"epochs": int, "lr": float, "sparsity": float, "score": str}
    assert load(name).override(**{key: kinds[key](value) for key, value in read.items()}) == variant


@given(name=st.sampled_from(names()), epochs=st.integers(1, 500), lr=st.floats(1e-6, 10))
def test_a_recipe_comes_back_from_json_the_same(name: str, epochs: int, lr: float) -> None:
    variant = load(name).override(epochs=epochs, lr=lr)
    assert Recipe.model_validate(json.loads(json.dumps(variant.model_dump()))) == variant
