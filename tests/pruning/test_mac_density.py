"""How many of the multiplications are left, and how many can be."""

from typing import Any

import pytest
import torch
from torch import nn

from asni.errors import UsageError
from asni.pruning.layers import prunable
from asni.pruning.mac_density import MacDensity, density_range, macs_goal
from asni.pruning.summary import summary


def network() -> nn.Sequential:
    """16 weights that are multiplied 9 times each, and 40 that are multiplied once."""
    torch.manual_seed(0)
    return nn.Sequential(nn.Conv2d(1, 4, 2), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(4, 10))


DENSE = 16 * 9 + 40
EXAMPLE = (1, 1, 4, 4)


def test_the_density_is_that_of_the_living_weights_and_of_the_summary() -> None:
    model = network()
    density = MacDensity(model, EXAMPLE)
    assert (density.dense, density.now()) == (DENSE, 1.0)
    model.get_parameter("0.weight").data[1:] = 0
    assert density.now() == pytest.approx((4 * 9 + 40) / DENSE) == summary(model, EXAMPLE).mac_density


def test_a_network_that_cannot_run_on_its_example_has_no_density() -> None:
    assert MacDensity(network(), (1, 3, 4, 4)).now() is None


def goal(keep: int, **limits: Any) -> tuple[float, float]:
    model = network()
    return density_range(macs_goal(model, prunable(model), keep, EXAMPLE, **limits))


def test_the_range_goes_from_the_cheapest_weights_to_the_dearest_with_one_in_each_layer() -> None:
    assert goal(20) == pytest.approx(((9 + 19) / DENSE, (16 * 9 + 4) / DENSE))
    assert goal(20, floor=5) == pytest.approx(((5 * 9 + 15) / DENSE, (15 * 9 + 5) / DENSE))
    assert goal(56) == (1.0, 1.0)


def test_layers_that_are_left_out_are_in_the_range_with_their_nonzeros() -> None:
    model = network()
    model.get_parameter("3.weight").data[0] = 0
    weights = prunable(model, exclude="3")
    assert density_range(macs_goal(model, weights, 8, EXAMPLE)) == pytest.approx([(8 * 9 + 36) / DENSE] * 2)


def test_a_budget_below_the_range_is_refused_with_the_numbers() -> None:
    low, _ = goal(20)
    goal(20, macs=low)
    with pytest.raises(UsageError, match=r"20 weights cannot keep to 0\.15 .* from 0\.153 to 0\.804"):
        goal(20, macs=0.15)
