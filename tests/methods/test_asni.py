import copy
from itertools import pairwise
from typing import Any

import pytest
import torch
from torch import nn

from asni.errors import AsniError, SparsityWarning, UsageError
from asni.methods.asni import ASNI
from asni.pruning.layers import prunable
from asni.pruning.masks import count
from asni.pruning.schedules import Sigmoid, kept

STEPS = 4


def network() -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(6, 20), nn.ReLU(), nn.Linear(20, 3))


def train(model: nn.Module, optimizer: torch.optim.Optimizer, steps: range) -> None:
    for number in steps:
        torch.manual_seed(number)
        loss = model(torch.randn(8, 6)).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


def asni(model: nn.Module, optimizer: torch.optim.Optimizer, **changes: Any) -> ASNI:
    return ASNI(model, optimizer, **{"sparsity": 0.9, "epochs": 10, "steps_per_epoch": STEPS, **changes})


def alive(model: nn.Module) -> int:
    return sum(int(weight.count_nonzero()) for weight in prunable(model).values())


def test_pruned_once_an_epoch_the_schedule_s_count_lives_after_each() -> None:
    model = network()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    asni(model, optimizer, every=STEPS)
    for epoch in range(10):
        train(model, optimizer, range(epoch * STEPS, (epoch + 1) * STEPS))
        assert alive(model) == kept(180, Sigmoid(0.9)(epoch, 10))
    assert alive(model) == 18


@pytest.mark.parametrize("epochs", [2, 10, 40])
def test_with_small_prunings_left_out_the_asked_count_lives_at_the_end(epochs: int) -> None:
    model = network()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    asni(model, optimizer, epochs=epochs, every=STEPS, least=0.02)
    lived = [180]
    for epoch in range(epochs):
        train(model, optimizer, range(epoch * STEPS, (epoch + 1) * STEPS))
        lived.append(alive(model))
    assert lived[-1] == lived[-2] == 18
    # Both counts are rounded to whole weights.
    assert all(before - after > 0.02 * before - 1 for before, after in pairwise(lived) if after < before)
    assert epochs < 40 or lived[1:6] == [180] * 5


def test_nothing_is_pruned_inside_an_epoch_nor_after_the_last() -> None:
    model = network()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    pruner = asni(model, optimizer, every=STEPS)
    train(model, optimizer, range(STEPS - 1))
    assert count(pruner.masks) == 180
    train(model, optimizer, range(9 * STEPS + 1))
    masks = pruner.masks
    with pytest.warns(SparsityWarning, match="made for 40 optimiser steps, and more follow"):
        train(model, optimizer, range(STEPS * 20))
    assert all(torch.equal(mask, masks[name]) for name, mask in pruner.masks.items())


@pytest.mark.parametrize("epochs", [1, 2, 3, 7])
def test_the_shortest_trainings_end_at_the_asked_count_too(epochs: int) -> None:
    model = network()
    optimizer = torch.optim.Adam(model.parameters(), fused=True)
    asni(model, optimizer, epochs=epochs)
    train(model, optimizer, range(epochs * STEPS))
    assert alive(model) == 18


def test_a_pruned_weight_never_comes_back() -> None:
    model = network()
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.05)
    pruner = asni(model, optimizer)
    before = pruner.masks
    for epoch in range(10):
        train(model, optimizer, range(epoch * STEPS, (epoch + 1) * STEPS))
        assert not any((mask & ~before[name]).any() for name, mask in pruner.masks.items())
        before = pruner.masks


def test_a_resumed_checkpoint_ends_with_the_same_weights() -> None:
    model = network()
    optimizer = torch.optim.Adam(model.parameters(), lr=0.05)
    pruner = asni(model, optimizer)
    train(model, optimizer, range(22))
    checkpoint = copy.deepcopy((model.state_dict(), optimizer.state_dict(), pruner.state_dict()))
    train(model, optimizer, range(22, 10 * STEPS))

    resumed = network()
    optimizer = torch.optim.Adam(resumed.parameters(), lr=0.05)
    pruner = asni(resumed, optimizer)
    resumed.load_state_dict(checkpoint[0])
    optimizer.load_state_dict(checkpoint[1])
    pruner.load_state_dict(checkpoint[2])
    train(resumed, optimizer, range(22, 10 * STEPS))
    assert all(torch.equal(a, b) for a, b in zip(model.parameters(), resumed.parameters(), strict=True))


def test_weights_that_diverged_are_refused_by_layer() -> None:
    model = network()
    pruner = asni(model, torch.optim.SGD(model.parameters(), lr=0.1))
    prunable(model)["2.weight"].data[0, 0] = float("nan")
    with pytest.raises(AsniError, match=r"1 of 60 .*'2\.weight'"):
        pruner.prune(0.5)


@pytest.mark.parametrize("sparsity", [0, 1, 1.2, -0.1, 97])
def test_a_sparsity_that_is_no_fraction_is_refused(sparsity: float) -> None:
    model = network()
    with pytest.raises(UsageError, match=f"sparsity.* {sparsity}"):
        asni(model, torch.optim.SGD(model.parameters(), lr=0.1), sparsity=sparsity)


def test_zero_epochs_are_refused() -> None:
    model = network()
    with pytest.raises(UsageError, match=r"^epochs.* 0\b"):
        asni(model, torch.optim.SGD(model.parameters(), lr=0.1), epochs=0)
