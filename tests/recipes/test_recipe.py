"""Variants of a recipe: what changes, what stays, what is refused, and how the variant is called."""

import json
import math
import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from asni.errors import UsageError
from asni.recipes import Recipe, load, names
from asni.recipes.checking import checked


def test_fewer_epochs_scale_gamma_and_keep_the_final_sparsity() -> None:
    recipe = load("mnist-fc")
    shorter = recipe.override(epochs=10)
    assert (shorter.training.epochs, shorter.gamma) == (10, 1.0)
    assert shorter.schedule(266_200).final == recipe.schedule(266_200).final
    assert shorter.variant_name == "mnist-fc--epochs-10"


@given(name=st.sampled_from(names()), epochs=st.integers(1, 500), then=st.integers(1, 500))
def test_other_epochs_stretch_the_curve_and_keep_its_end(name: str, epochs: int, then: int) -> None:
    recipe = load(name)
    variant = recipe.override(epochs=epochs).override(epochs=then)
    assert variant.schedule(10**6).final == recipe.schedule(10**6).final
    assert variant.gamma / then == pytest.approx(recipe.gamma / recipe.training.epochs)
    assert variant.training.warmup_epochs < then


@pytest.mark.parametrize(("epochs", "warmup"), [(90, 10), (45, 5), (9, 1), (3, 1), (2, 1), (1, 0), (180, 20)])
def test_the_warm_up_scales_with_the_epochs(epochs: int, warmup: int) -> None:
    assert load("imagenet-resnet50-80").override(epochs=epochs).training.warmup_epochs == warmup


def test_a_wanted_sparsity_is_the_final_sparsity_and_leaves_the_rest() -> None:
    recipe = load("mnist-fc")
    variant = recipe.override(sparsity=0.8)
    assert variant.schedule().final == 0.8
    assert variant.training == recipe.training
    assert variant.gamma == recipe.gamma
    assert variant.override(epochs=7).schedule().final == 0.8


def test_an_alpha_is_that_of_the_papers_formula_for_the_epochs_that_are_trained() -> None:
    variant = load("mnist-fc").override(alpha=90.0, least=0.0, epochs=10)
    assert variant.schedule().final == pytest.approx(0.9 / (1 + math.exp(-(8 - 5) / 1.0)))
    assert variant.alpha() == 90
    same = load("mnist-fc").override(alpha=98.0, epochs=10)
    assert (same.alpha(), same.overrides.alpha) == (98, 98)
    assert load("mnist-fc").override(epochs=10).override(alpha=98.0) == same


def test_a_gamma_is_the_width_in_the_epochs_that_are_trained() -> None:
    variant = load("mnist-fc").override(gamma=5.0, least=0.0, epochs=10)
    assert variant.gamma == 5
    assert variant.alpha() == 98
    assert variant.schedule().final == pytest.approx(0.98 / (1 + math.exp(-(8 - 5) / 5)))
    assert load("mnist-fc").override(gamma=3.0).gamma == 3


def test_beta_and_gamma_move_the_end_of_a_recipe_with_alpha_but_not_of_one_with_sparsity() -> None:
    by_alpha, by_sparsity = load("mnist-fc"), load("digits-fc")
    assert by_alpha.override(beta=0.9).schedule().final < by_alpha.schedule().final
    assert by_sparsity.override(beta=0.9).schedule().final == by_sparsity.schedule().final == 0.95


CHANGES = {"epochs": 7, "alpha": 90.0, "beta": 0.4, "gamma": 2.5, "least": 0.01, "lottery_rounds": 3}


@given(name=st.sampled_from(names()), order=st.permutations(sorted(CHANGES)))
def test_changes_one_by_one_make_the_variant_of_all_at_once(name: str, order: list[str]) -> None:
    step_by_step = load(name)
    for key in order:
        step_by_step = step_by_step.override(**{key: CHANGES[key]})
    at_once = load(name).override(**CHANGES)
    assert step_by_step.gamma == pytest.approx(at_once.gamma)
    assert step_by_step.schedule().final == pytest.approx(at_once.schedule().final)
    assert step_by_step.overrides == at_once.overrides
    assert step_by_step.lottery == at_once.lottery


def test_a_later_alpha_replaces_a_sparsity_and_the_reverse() -> None:
    recipe = load("mnist-fc")
    assert recipe.override(sparsity=0.5).override(alpha=90.0) == recipe.override(alpha=90.0)
    assert recipe.override(alpha=90.0).override(sparsity=0.5).schedule().final == 0.5


def test_the_lotterys_rate_and_rounds_exclude_each_other() -> None:
    recipe = load("mnist-fc").override(lottery_rate=0.5, lottery_rewind=100)
    assert (recipe.lottery.rate, recipe.lottery.rewind) == (0.5, 100)
    assert recipe.override(lottery_rounds=3).lottery.model_dump() == {"rate": None, "rounds": 3, "rewind": 100}
    with pytest.raises(UsageError, match=r"lottery_rate.*lottery_rounds"):
        load("mnist-fc").override(lottery_rate=0.5, lottery_rounds=3)


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
        ({"alpha": 150.0}, r"alpha = 150.0, .*148.5%.* 100 %"),
        ({"alpha": 90.0, "sparsity": 0.9}, "alpha.*sparsity"),
        ({"least": 0.9}, r"least = 0\.9, .* 0\.0%"),
        ({"beta": 1.5}, r"beta = 1\.5: .* 1\b"),
        ({"gamma": 0.0}, r"gamma = 0\.0: .* 0\b"),
        ({"least": 1.0}, r"least = 1\.0: .* 1\b"),
        ({"lottery_rate": 1.0}, r"lottery_rate = 1\.0: .* 1\b"),
        ({"lottery_rate": 1e-17}, r"lottery_rate = 1e-17: .* 0\.001\b"),
        ({"lottery_rounds": 0}, r"lottery_rounds = 0: .* 1\b"),
        ({"lottery_rewind": 0}, r"lottery_rewind = 0: .* 1\b"),
        ({"amenable_epochs": 0.0}, r"amenable_epochs = 0\.0: .* 0\b"),
        ({"amenable_epochs": 1.5}, r"amenable_epochs = 1\.5: .* 1\b"),
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
    changes: dict[str, Any] = {
        "epochs": epochs,
        "lr": lr,
        "sparsity": sparsity,
        "score": "lamp",
        "gamma": 3.5,
        "lottery_rounds": 7,
    }
    variant = load(name).override(**changes)
    words = variant.overrides.arguments()
    read = {key[2:].replace("-", "_"): value for key, value in zip(words[::2], words[1::2], strict=True)}
    assert load(name).override(**{key: type(changes[key])(value) for key, value in read.items()}) == variant


@given(name=st.sampled_from(names()), epochs=st.integers(1, 500), lr=st.floats(1e-6, 10))
def test_a_recipe_comes_back_from_json_the_same(name: str, epochs: int, lr: float) -> None:
    variant = load(name).override(epochs=epochs, lr=lr)
    assert Recipe.model_validate(json.loads(json.dumps(variant.model_dump()))) == variant


@pytest.mark.parametrize(
    "name",
    [
        "../../../x",
        "/abs/x",
        "a/b",
        "a\\b",
        "..",
        ".hidden",
        "",
        "a\nb",
        "a\0b",
        "\x1b[31mred",
        "abc\u202efed",
        "\ud800",
        101 * "x",
        51 * "é",
    ],
)
def test_a_name_that_cannot_be_one_directory_is_refused(name: str) -> None:
    with pytest.raises(UsageError) as refusal:
        checked(Recipe, load("digits-fc").model_dump() | {"name": name}, "evil.asni")
    assert re.match(r"evil\.asni: name\b", message := str(refusal.value))
    assert message.isprintable()
    assert len(message) < 300


@pytest.mark.parametrize("name", ["my net 2", "réseau", 100 * "x", "v1.0_final+new"])
def test_any_other_name_is_a_users_choice(name: str) -> None:
    assert checked(Recipe, load("digits-fc").model_dump() | {"name": name}, "own").variant_name == name


def test_a_variant_whose_directory_no_file_system_could_make_is_refused() -> None:
    long = checked(Recipe, load("digits-fc").model_dump() | {"name": 100 * "x"}, "own")
    third = 1 / 3
    changes = {"epochs": 7, "lr": third, "sparsity": third, "beta": third, "gamma": third, "least": third / 100}
    with pytest.raises(UsageError, match=r"overrides: .* 3\d\d bytes, more than the 255"):
        long.override(**changes, lottery_rate=third, steps_per_epoch=1000, score="lamp")
    assert 200 < len(long.override(**changes).variant_name.encode()) <= 255


@pytest.mark.parametrize(("fraction", "epochs"), [(0.2, 18), (0.001, 1), (0.999, 90), (0.5, 45)])
def test_the_second_round_of_asni_2_alone_may_be_shorter_with_the_same_curve(fraction: float, epochs: int) -> None:
    recipe = load("imagenet-resnet50-80")
    variant = recipe.override(amenable_epochs=fraction)
    assert variant.variant_name == f"imagenet-resnet50-80--amenable-epochs-{fraction}"
    assert variant.training_of("asni-2") == recipe.override(epochs=epochs).training
    for stage in ("dense", "asni-1", "original", "control-signs"):
        assert variant.training_of(stage) == recipe.training
    assert variant.in_full_length == recipe


def test_a_second_round_of_full_length_is_no_variant() -> None:
    recipe = load("mnist-fc")
    assert recipe.override(amenable_epochs=1.0) == recipe
    assert recipe.override(amenable_epochs=0.2).override(amenable_epochs=1.0) == recipe
    assert recipe.training_of("asni-2") == recipe.training
