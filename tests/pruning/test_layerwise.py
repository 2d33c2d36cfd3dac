"""Layer counts are exact in total, and no layer gets more weights than it has."""

from math import prod

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from asni.pruning.layerwise import Distribution, erk, random_masks, uniform

networks = st.lists(st.lists(st.integers(1, 9), min_size=2, max_size=4), min_size=1, max_size=6).map(
    lambda layers: {f"layer{number}": torch.Size(shape) for number, shape in enumerate(layers)}
)


@pytest.mark.parametrize("distribution", [erk, uniform])
@given(networks, st.floats(0, 1))
def test_the_counts_sum_exactly_within_the_layers(
    distribution: Distribution, shapes: dict[str, torch.Size], density: float
) -> None:
    keep = round(density * sum(prod(shape) for shape in shapes.values()))
    counts = distribution(shapes, keep)
    assert sum(counts.values()) == keep
    assert counts.keys() == shapes.keys()
    assert all(0 <= counts[name] <= prod(shape) for name, shape in shapes.items())


def test_erk_follows_the_sum_of_the_dimensions() -> None:
    shapes = {"linear": torch.Size([30, 50]), "conv": torch.Size([20, 14, 3, 3])}
    assert erk(shapes, 300) == {"linear": 200, "conv": 100}


def test_erk_is_solved_again_where_a_layer_is_full() -> None:
    # By the sums 20, 80 and 80 the small layer would get 156 of 1,400 weights; it has 100, the others share 1,300.
    shapes = {"small": torch.Size([10, 10]), "wide": torch.Size([40, 40]), "long": torch.Size([20, 60])}
    assert erk(shapes, 1400) == {"small": 100, "wide": 650, "long": 650}


def test_random_masks_come_from_the_seed() -> None:
    weights = {"a": torch.zeros(20, 20), "b": torch.zeros(10, 3, 3, 3)}
    once, again, other = (random_masks(weights, {"a": 100, "b": 50}, seed) for seed in (1, 1, 2))
    assert {name: int(mask.sum()) for name, mask in once.items()} == {"a": 100, "b": 50}
    assert all(torch.equal(once[name], again[name]) for name in once)
    assert not torch.equal(once["a"], other["a"])
