"""Any schedule drives the same pruning."""

import pytest
import torch
from torch import nn

from asni.errors import UsageError
from asni.pruning.gradual import GradualMagnitude
from asni.pruning.length import update_interval
from asni.pruning.schedules import Polynomial, Schedule, Sigmoid, Step
from tests.training.training_by_hand import OPTIMIZERS, alive, small_network, train, two_layers, weights


@pytest.mark.parametrize("optimizer_name", OPTIMIZERS)
@pytest.mark.parametrize("schedule", [Sigmoid(0.9), Polynomial(0.9, power=1), Polynomial(0.9), Step(0.9)])
def test_every_schedule_ends_with_exactly_the_weights_asked_for(schedule: Schedule, optimizer_name: str) -> None:
    model = small_network()
    optimizer = OPTIMIZERS[optimizer_name](model.parameters())
    pruner = GradualMagnitude(model, optimizer, schedule=schedule, steps=43, every=4)
    counts: list[int] = []
    train(model, optimizer, range(43), lambda step: counts.append(alive(model)))
    expected = [
        round(98 * (1 - schedule((step + 1) // 4 - 1, 10))) if step >= 3 else 98 for step in range(43)
    ]  # 98 weights, pruned after steps 4, 8, ... 40
    assert counts == expected
    assert counts[-1] == 10
    assert sum(int(mask.sum()) for mask in pruner.masks.values()) == 10


def test_the_largest_weights_over_all_layers_survive() -> None:
    model = two_layers([[0.125, -4.0], [3.0, 0.25]], [[-0.25, 0.375], [5.0, -0.5]])
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    GradualMagnitude(model, optimizer, schedule=Step(0.5), steps=1, every=1).prune(0.5)
    assert weights(model) == [[[0.0, -4.0], [3.0, 0.0]], [[0.0, 0.0], [5.0, -0.5]]]


def test_a_pruned_weight_never_comes_back() -> None:
    model = small_network()
    optimizer = OPTIMIZERS["adam"](model.parameters())
    pruner = GradualMagnitude(model, optimizer, schedule=Polynomial(0.9), steps=40, every=2)
    before = pruner.masks

    def only_shrinks(_: int) -> None:
        nonlocal before
        after = pruner.masks
        assert all(bool((before[name] | ~after[name]).all()) for name in after)
        before = after

    train(model, optimizer, range(40), only_shrinks)


def test_the_interval_is_the_published_one_unless_the_training_is_short() -> None:
    assert [update_interval(steps) for steps in (50_000, 5_000, 1_000, 49, 1)] == [100, 100, 20, 1, 1]


@pytest.mark.parametrize("every", [0, -1, 11])
def test_an_interval_that_does_not_fit_is_refused(every: int) -> None:
    model = nn.Linear(2, 2)
    with pytest.raises(UsageError, match=rf"every.* 10 .* {every}\b"):
        GradualMagnitude(model, torch.optim.SGD(model.parameters()), schedule=Polynomial(0.5), steps=10, every=every)


@pytest.mark.parametrize("final", [0.0, 1.0, -0.5, 90.0, float("nan")])
def test_a_sparsity_that_is_no_fraction_is_refused_and_leaves_the_optimiser_alone(final: float) -> None:
    model = small_network()
    optimizer = OPTIMIZERS["sgd"](model.parameters())
    with pytest.raises(UsageError, match=f"sparsity.* {final}"):
        GradualMagnitude(model, optimizer, schedule=Polynomial(final), steps=2, every=1)
    train(model, optimizer, range(2))
    assert alive(model) == 98


@pytest.mark.parametrize(("sparsity", "left"), [(0.999, 0), (0.98, 2)])
def test_a_sparsity_that_cannot_leave_a_weight_in_each_layer_is_refused(sparsity: float, left: int) -> None:
    model = small_network()
    with pytest.raises(UsageError, match=rf"{sparsity} leaves {left} of the 98 .* 3 layers\. At most 0\.969387755102 "):
        GradualMagnitude(model, OPTIMIZERS["sgd"](model.parameters()), schedule=Polynomial(sparsity), steps=2, every=1)
    GradualMagnitude(
        model, OPTIMIZERS["sgd"](model.parameters()), schedule=Polynomial(0.969387755102), steps=2, every=1
    )
