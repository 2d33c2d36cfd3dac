"""What a recipe will do: sizes, and what is refused before anything is trained."""

import pytest

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
