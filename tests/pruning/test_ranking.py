"""What decides which weights live besides their magnitude: a score, and a floor for every layer."""

import math
from typing import Any, get_args

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor, nn
from torch.optim import SGD

from asni.errors import AsniError, UsageError
from asni.methods.asni import ASNI
from asni.pruning.gradual import GradualMagnitude
from asni.pruning.masks import count, floor_counts, keep_largest
from asni.pruning.schedules import Step
from asni.pruning.scores import SCORES, lamp
from asni.recipes.sections import Score as ScoreName
from tests.training.training_by_hand import two_layers, weights

# Few distinct values, so that most examples are full of ties.
values = st.lists(st.sampled_from([-2.0, -1.0, -0.5, 0.0, 0.5, 1.0, 2.0]), min_size=1, max_size=12)


def pruned(model: nn.Module, sparsity: float, **options: Any) -> GradualMagnitude:
    optimizer = SGD(model.parameters(), lr=0.1)
    pruner = GradualMagnitude(model, optimizer, schedule=Step(sparsity), steps=1, every=1, **options)
    pruner.prune(sparsity)
    return pruner


@given(values)
def test_lamp_divides_by_what_is_not_smaller_in_the_layer(layer: list[float]) -> None:
    expected = [
        value**2 / total if (total := sum(other**2 for other in layer if abs(other) >= abs(value))) else 0.0
        for value in layer
    ]
    assert lamp("layer", torch.tensor(layer)).tolist() == pytest.approx(expected)


def test_lamp_keeps_the_largest_weight_of_a_layer_that_magnitude_would_empty() -> None:
    faint, strong = [[0.125, 0.25], [0.375, 0.5]], [[1.0, 2.0], [3.0, 4.0]]
    by_magnitude, by_lamp = two_layers(faint, strong), two_layers(faint, strong)
    pruned(by_magnitude, 0.5)
    pruned(by_lamp, 0.5, score="lamp")
    assert weights(by_magnitude)[0] == [[0.0, 0.0], [0.0, 0.0]]
    assert weights(by_lamp) == [[[0.0, 0.0], [0.375, 0.5]], [[0.0, 0.0], [3.0, 4.0]]]


def test_a_score_of_your_own_sees_each_layer_by_name() -> None:
    model = two_layers([[1.0, 2.0], [3.0, 4.0]], [[5.0, 6.0], [7.0, 8.0]])

    def smallest_of_the_first(name: str, weight: Tensor) -> Tensor:
        return 10 - weight if name.startswith("0") else weight - 10

    pruned(model, 0.5, score=smallest_of_the_first)
    assert weights(model) == [[[1.0, 2.0], [3.0, 4.0]], [[0.0, 0.0], [0.0, 0.0]]]


def test_a_pruned_weight_does_not_come_back_by_another_score() -> None:
    model = two_layers([[1.0, 2.0], [3.0, 4.0]], [[5.0, 6.0], [7.0, 8.0]])
    pruner = pruned(model, 0.5, score=lambda name, weight: -weight)
    pruner.prune(0.75)
    assert weights(model) == [[[1.0, 2.0], [0.0, 0.0]], [[0.0, 0.0], [0.0, 0.0]]]


@pytest.mark.parametrize(
    ("score", "error", "said"),
    [
        ("lamb", UsageError, "'lamb'.*'lamp'"),
        (lambda name, weight: weight.sum(), UsageError, r"'0\.weight'.* \(\).* \(2, 2\)"),
        (lambda name, weight: weight * math.nan, AsniError, r"4 of 4 .*'0\.weight'.*NaN"),
    ],
)
def test_a_score_that_ranks_nothing_is_refused(score: Any, error: type[AsniError], said: str) -> None:
    with pytest.raises(error, match=said):
        pruned(two_layers([[1.0, 2.0], [3.0, 4.0]], [[5.0, 6.0], [7.0, 8.0]]), 0.5, score=score)


def test_a_floor_keeps_the_largest_of_a_layer_that_would_be_emptied() -> None:
    model = two_layers([[0.125, 0.25], [0.375, 0.5]], [[1.0, 2.0], [3.0, 4.0]])
    pruned(model, 0.5, floor=1)
    assert weights(model) == [[[0.0, 0.0], [0.0, 0.5]], [[0.0, 2.0], [3.0, 4.0]]]


@given(st.lists(values, min_size=1, max_size=5), st.data())
def test_under_a_floor_the_count_is_exact_and_every_layer_has_its_share(layers: list[list[float]], data: Any) -> None:
    scores = {str(number): torch.tensor(layer) for number, layer in enumerate(layers)}
    floor = data.draw(st.one_of(st.integers(0, 4), st.floats(0, 1)))
    least = floor_counts({name: score.numel() for name, score in scores.items()}, floor, keep=1000)
    total = sum(map(len, layers))
    keep = data.draw(st.integers(sum(least.values()), total))
    masks = keep_largest(scores, keep, floor=floor)
    assert count(masks) == keep
    assert all(int(masks[name].sum()) >= least[name] for name in masks)
    without = keep_largest(scores, keep)
    if all(int(without[name].sum()) >= least[name] for name in without):
        assert all(torch.equal(masks[name], without[name]) for name in masks), "a floor that binds nothing does nothing"


@given(st.lists(values, min_size=1, max_size=5), st.data())
def test_masks_under_a_floor_are_nested(layers: list[list[float]], data: Any) -> None:
    scores = {str(number): torch.tensor(layer) for number, layer in enumerate(layers)}
    fewest, total = len(layers), sum(map(len, layers))
    few = data.draw(st.integers(fewest, total))
    many = keep_largest(scores, data.draw(st.integers(few, total)), floor=1)
    masks = keep_largest(scores, few, within=many, floor=1)
    assert count(masks) == few
    assert all(bool((many[name] | ~masks[name]).all()) and masks[name].any() for name in masks)


def test_a_fraction_is_rounded_up_but_not_for_a_rounding_error() -> None:
    layers = {"a": 100, "b": 15}
    assert floor_counts(layers, 0.07, keep=50) == {"a": 7, "b": 2}
    assert floor_counts(layers, np.float32(0.5), keep=60) == {"a": 50, "b": 8}  # type: ignore[arg-type]
    assert floor_counts(layers, np.int64(3), keep=60) == {"a": 3, "b": 3}  # type: ignore[arg-type]


def test_a_floor_that_cannot_be_kept_is_refused_with_the_numbers_and_leaves_the_optimiser_alone() -> None:
    model = two_layers([[1.0, 2.0], [3.0, 4.0]], [[5.0, 6.0], [7.0, 8.0]])
    optimizer = SGD(model.parameters(), lr=0.1)
    with pytest.raises(UsageError, match=r"floor = 0\.5 .* 4 .* 2 layers.* 2\b"):
        ASNI(model, optimizer, sparsity=0.75, epochs=4, steps_per_epoch=1, floor=0.5)
    assert not optimizer._optimizer_step_pre_hooks


@pytest.mark.parametrize("floor", [-1, -0.5, 1.5, math.nan, True])
def test_a_floor_that_is_neither_a_fraction_nor_a_number_is_refused(floor: float) -> None:
    with pytest.raises(UsageError, match=f"floor.* {floor}"):
        keep_largest({"a": torch.ones(4)}, 2, floor=floor)


def test_a_recipe_knows_every_score_by_name() -> None:
    assert get_args(ScoreName) == tuple(SCORES)
