"""What a recipe will do: sizes, and what is refused before anything is trained."""

import math
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from torch import Tensor, nn

from asni.errors import UsageError
from asni.recipes import SIZES, load, names
from asni.studies.plan import outline, plan
from tests.methods.small_recipe import small_recipe


@pytest.mark.parametrize("name", names())
def test_the_sizes_that_are_listed_are_those_of_the_networks(name: str) -> None:
    planned = plan(load(name))
    assert (planned["parameters"], planned["prunable"]) == SIZES[name]
    assert outline(load(name), SIZES[name]).items() <= planned.items()


def test_what_a_recipe_excludes_is_not_prunable() -> None:
    whole, part = plan(small_recipe()), plan(small_recipe(exclude=["5"]))
    assert whole["prunable"] - part["prunable"] == 12 * 10
    assert part["nonzeros"] == whole["parameters"] - round(0.6 * 64 * 12)


def test_only_what_a_recipe_includes_is_prunable() -> None:
    part = plan(small_recipe(include=["5"]))
    assert part["prunable"] == 12 * 10
    assert part["nonzeros"] == part["parameters"] - round(0.6 * 12 * 10)


def test_a_layer_that_does_not_exist_is_named_with_the_nearest_one() -> None:
    with pytest.raises(UsageError, match=r"'5\.weigth'.*'5\.weight'"):
        plan(small_recipe(exclude=["5.weigth"]))


def test_a_floor_that_cannot_be_kept_is_refused_with_the_numbers() -> None:
    with pytest.raises(UsageError, match=r"floor = 0\.5 .*444 .*355"):
        plan(small_recipe(floor=0.5))


@pytest.mark.parametrize(("sparsity", "left"), [(0.99999999, 0), (0.99999, 1), (1 - 2 / 50_200, 2)])
def test_a_sparsity_that_cannot_leave_a_weight_in_each_layer_is_refused(sparsity: float, left: int) -> None:
    with pytest.raises(UsageError, match=rf"leaves {left} of the 50,200 .* 3 layers\. At most 0\.99994\d* "):
        plan(load("digits-fc").override(sparsity=sparsity))
    assert plan(load("digits-fc").override(sparsity=1 - 3 / 50_200))["nonzeros"] == 410 + 3


def test_multiplications_are_those_of_one_image_in_the_dense_network() -> None:
    planned = plan(load("mnist-fc"))
    assert (planned["macs"], planned["mac_budget"]) == (266_200, None)
    assert planned["mac_density_range"] == pytest.approx([7_925 / 266_200] * 2)
    assert plan(load("cifar10-conv2"))["mac_density_range"] == pytest.approx([0.00326, 0.905], rel=1e-2)


def test_layers_that_a_recipe_leaves_out_are_multiplied_too() -> None:
    part = plan(small_recipe(exclude=["5"]))
    assert part["macs"] == plan(small_recipe())["macs"] == 64 * 12 + 12 * 10
    assert part["mac_density_range"] == pytest.approx([(round(0.4 * 64 * 12) + 120) / (64 * 12 + 120)] * 2)


def test_a_network_that_is_not_known_to_multiply_has_a_plan_without_multiplications() -> None:
    recipe = load("digits-fc").model_copy(update={"network": "tests.studies.test_plan:unknown_layer"})
    planned = plan(recipe)
    assert (planned["macs"], planned["mac_density_range"]) == (None, None)
    with pytest.raises(UsageError, match=r"not multiplied when the example passes"):
        plan(recipe.override(macs=0.5))


class Unknown(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.own = nn.Linear(64, 10)

    def forward(self, images: Tensor) -> Tensor:
        return images.flatten(1) @ self.own.weight.T


def unknown_layer(shape: tuple[int, int, int], classes: int) -> nn.Module:
    return Unknown()


def test_a_budget_falls_with_the_sparsity_to_its_end() -> None:
    planned = plan(load("cifar10-conv2").override(macs=0.2))
    final = planned["schedule"][-1]["sparsity"]
    assert planned["schedule"][-1]["mac_density"] == pytest.approx(0.2)
    for row in planned["schedule"]:
        assert row["mac_density"] == pytest.approx(1 - 0.8 * row["sparsity"] / final, abs=1e-5)
    assert "mac_density" not in plan(load("cifar10-conv2"))["schedule"][0]


def test_a_budget_that_so_many_weights_cannot_meet_is_refused() -> None:
    with pytest.raises(UsageError, match=r"cannot keep to 0\.001 of the dense multiplications"):
        plan(load("cifar10-vgg11").override(macs=0.001))


EXTREMES = st.sampled_from([5e-324, 1e-300, 1e-12, 1e-9, 1e-3, 0.5, 0.999999, 1.0, 98.0, 1e9, 1e12, 1e308, -0.0, 0.0])
NUMBERS = EXTREMES | st.floats(0, 1) | st.floats(0, 1e15)


@given(
    name=st.sampled_from(["digits-fc", "mnist-fc"]),
    changes=st.fixed_dictionaries(
        {}, optional=dict.fromkeys(("alpha", "beta", "gamma", "least", "lr", "scale", "lottery_rate"), NUMBERS)
    ),
    epochs=st.sampled_from([None, 1, 2, 3, 50]),
    sparsity=st.none() | NUMBERS,
)
@example("digits-fc", {"beta": 1.0, "gamma": 5e-324}, None, None)
@example("digits-fc", {"gamma": 1e308}, None, None)
@example("digits-fc", {"beta": 1.0, "gamma": 1e-12}, 50, 0.9)
def test_every_number_of_a_plan_is_finite(
    name: str, changes: dict[str, float], epochs: int | None, sparsity: float | None
) -> None:
    try:
        planned = plan(load(name).override(**changes, epochs=epochs, sparsity=sparsity))
    except UsageError:
        return
    assert all(math.isfinite(number) for number in numbers(planned))
    assert 410 < planned["nonzeros"] <= planned["parameters"]
    alive = [row["nonzeros"] for row in planned["schedule"]]
    assert alive == sorted(alive, reverse=True)


def numbers(value: Any) -> Iterator[float]:
    if isinstance(value, dict | list):
        for each in value.values() if isinstance(value, dict) else value:
            yield from numbers(each)
    elif isinstance(value, float | int):
        yield value
