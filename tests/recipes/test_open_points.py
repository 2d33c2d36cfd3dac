"""Every row of the paper's Table 2 says what the paper leaves open."""

import pytest

from asni.recipes import SIZES, load, names
from asni.recipes.open_points import open_points
from asni.studies.plan import outline

SCALING = {
    "mnist": "mean 0.1307, deviation 0.3081",
    "cifar10": "mean (0.4914, 0.4822, 0.4465), deviation (0.2023, 0.1994, 0.2010)",
    "imagenet": "mean (0.485, 0.456, 0.406), deviation (0.229, 0.224, 0.225)",
}
ROWS = {name: load(name).paper.row for name in names() if load(name).paper.row}


@pytest.mark.parametrize(("name", "row"), ROWS.items())
def test_every_row_says_where_the_scaling_of_its_images_and_its_last_pruning_come_from(name: str, row: int) -> None:
    points = list(open_points([load(name)]))
    assert all(point.startswith(f"row {row}: ") for point in points)
    assert any("last pruning" in point and "program" in point for point in points)
    assert any("scaling" in point and SCALING[load(name).dataset] in point for point in points)


def test_rows_that_share_a_point_are_named_together() -> None:
    points = list(open_points([load("cifar10-conv4"), load("mnist-fc"), load("cifar10-conv2")]))
    assert sum(point.startswith("rows 1, 5, 6: ") for point in points) == 3
    assert any(point.startswith("rows 5, 6: 1,000 steps") for point in points)
    assert any(point.startswith("row 1: learning rate 1.2e-3") for point in points)


def test_the_eleventh_row_names_the_network_of_the_papers_nonzeros_and_its_own() -> None:
    recipe = load("cifar10-resnet18")
    [point] = [point for point in open_points([recipe]) if "1,000 outputs" in point]
    assert f"{outline(recipe, SIZES[recipe.name])['nonzeros']:,} nonzeros" in point


def test_the_twelfth_row_names_the_misprints() -> None:
    [point] = [point for point in open_points([load("imagenet-resnet50-80")]) if "81.04" in point]
    assert "81.4" in point
    assert "91.5" in point


def test_a_recipe_that_is_no_row_of_the_paper_has_none() -> None:
    assert list(open_points([load("digits-fc")])) == []
    own = load("mnist-fc").model_copy(update={"name": "own"})
    assert list(open_points([own])) == []
    assert list(open_points([load("mnist-fc").override(lr=0.1)])) == []
    assert list(open_points([load("mnist-fc").override(epochs=2)])) != []
