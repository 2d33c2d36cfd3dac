"""The sparsity that was asked for is reached, or the user is told: the ways in which trainings end early or late."""

import gc
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn.functional import mse_loss

from asni.errors import SparsityWarning, UsageError
from asni.methods.asni import ASNI
from asni.methods.continuous import Continuous
from asni.methods.gmp import GMP
from asni.methods.magnitude import Magnitude
from asni.methods.rigl import SET, RigL
from asni.pruning.length import length
from asni.pruning.masks import count
from asni.pruning.pruner import Pruner

WITH_SPARSITY: dict[str, Callable[..., Pruner]] = {
    "asni": ASNI,
    "gmp": GMP,
    "magnitude": Magnitude,
    "rigl": RigL,
    "set": SET,
    "continuous": Continuous,
}


def network() -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(6, 20), nn.ReLU(), nn.Linear(20, 4))


def train(model: nn.Module, optimizer: torch.optim.Optimizer, steps: int, accumulate: int = 1) -> None:
    for _ in range(steps):
        optimizer.zero_grad()
        for _ in range(accumulate):
            mse_loss(model(torch.randn(8, 6)), torch.randn(8, 4)).backward()
        optimizer.step()


def setup(method: Callable[..., Pruner] = ASNI, **options: Any) -> tuple[nn.Module, torch.optim.Optimizer, Pruner]:
    model = network()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    return model, optimizer, method(model, optimizer, sparsity=0.9, **options)


@pytest.mark.parametrize("method", WITH_SPARSITY)
@pytest.mark.parametrize(
    "given", [{"total_steps": 40}, {"total_steps": 40, "epochs": 4}, {"epochs": 1, "steps_per_epoch": 40}]
)
def test_every_way_to_give_the_length_ends_at_the_target(method: str, given: dict[str, int]) -> None:
    model, optimizer, pruner = setup(WITH_SPARSITY[method], **given)
    train(model, optimizer, 40)
    assert count(pruner.masks) == pruner.target == 20
    assert pruner.sparsity == 0.9


def test_one_epoch_is_pruned_in_small_steps() -> None:
    model, optimizer, pruner = setup(epochs=1, steps_per_epoch=100)
    counts = []
    for _ in range(100):
        train(model, optimizer, 1)
        counts.append(count(pruner.masks))
    assert counts[0] == 200
    assert counts[-1] == 20
    assert max(before - after for before, after in pairwise(counts)) <= 15


def test_epochs_of_a_counted_training_keep_the_curve_of_the_paper() -> None:
    *_, by_steps = setup(total_steps=40, epochs=10, gamma=1.5)
    *_, by_epochs = setup(steps_per_epoch=4, epochs=10, gamma=1.5)
    assert isinstance(by_steps, ASNI)
    assert isinstance(by_epochs, ASNI)
    assert [by_steps.schedule(e, 10) for e in range(10)] == [by_epochs.schedule(e, 10) for e in range(10)]
    with pytest.raises(UsageError, match=r"gamma.*epochs="):
        setup(total_steps=40, gamma=1.5)


@pytest.mark.parametrize(
    ("given", "named"),
    [
        ({}, "epochs is missing.*total_steps"),
        ({"epochs": 3}, "steps_per_epoch is missing.*len"),
        ({"epochs": 3, "steps_per_epoch": None}, "steps_per_epoch is missing"),
        ({"epochs": 3, "steps_per_epoch": "10"}, "steps_per_epoch must be.*'10'"),
        ({"total_steps": float("inf")}, "total_steps must be.*inf"),
        ({"total_steps": True}, "total_steps must be.*True"),
        ({"epochs": 3, "steps_per_epoch": 5, "total_steps": 14}, "15.*14"),
        ({"steps_per_epoch": 50, "total_steps": 14}, "50.*14"),
    ],
)
def test_a_length_that_is_none_is_refused_in_words(given: dict[str, Any], named: str) -> None:
    with pytest.raises(UsageError, match=named):
        length(**given)


@pytest.mark.parametrize("method", ["asni", "gmp", "magnitude", "continuous"])
def test_finish_prunes_to_the_target_and_says_so(method: str, caplog: pytest.LogCaptureFixture) -> None:
    model, optimizer, pruner = setup(WITH_SPARSITY[method], total_steps=400)
    train(model, optimizer, 7)
    caplog.clear()
    with caplog.at_level("INFO", "asni.pruning"):
        pruner.finish()
        pruner.finish()
    assert count(pruner.masks) == sum(int(weight.count_nonzero()) for weight in pruner.weights.values()) == 20
    assert len(caplog.messages) == 1
    assert "finished after step 7 of 400" in caplog.messages[0]
    train(model, optimizer, 3)
    assert sum(int(weight.count_nonzero()) for weight in pruner.weights.values()) == 20


def test_a_with_block_finishes() -> None:
    model, optimizer, pruner = setup(total_steps=400)
    with pruner:
        train(model, optimizer, 7)
    assert count(pruner.masks) == 20
    _, _, failed = setup(total_steps=400)
    with pytest.raises(ZeroDivisionError), failed:
        raise ZeroDivisionError
    assert count(failed.masks) == 200


def test_a_pruner_that_is_dropped_too_early_says_both_numbers(caplog: pytest.LogCaptureFixture) -> None:
    model, optimizer, pruner = setup(epochs=10, steps_per_epoch=40, every=40)
    train(model, optimizer, 100)
    gc.collect()
    caplog.clear()
    del pruner, optimizer
    gc.collect()
    (message,) = caplog.messages
    assert "ASNI ended after step 100 of 400 with 1.5 % of its weights pruned, but 90 % were asked for" in message
    assert "finish()" in message
    assert "len(loader) // n" in message, "a quarter of the steps looks like accumulation"


@pytest.mark.parametrize("steps", [0, 40])
def test_a_pruner_that_never_began_or_reached_its_target_says_nothing(
    steps: int, caplog: pytest.LogCaptureFixture
) -> None:
    model, optimizer, pruner = setup(total_steps=40)
    train(model, optimizer, steps)
    gc.collect()
    caplog.clear()
    pruner.detach()
    del pruner, optimizer
    gc.collect()
    assert not caplog.messages


def test_a_pruner_that_is_detached_too_early_warns() -> None:
    model, optimizer, pruner = setup(total_steps=40)
    train(model, optimizer, 39)
    pruner.detach()
    model, optimizer, pruner = setup(total_steps=40)
    train(model, optimizer, 20)
    with pytest.warns(SparsityWarning, match=r"step 20 of 40 with .* but 90 % were asked"):
        pruner.detach()


@pytest.mark.parametrize("method", WITH_SPARSITY)
def test_more_steps_than_declared_warn_once(method: str) -> None:
    model, optimizer, _ = setup(WITH_SPARSITY[method], total_steps=10)
    train(model, optimizer, 10)
    with pytest.warns(SparsityWarning, match="made for 10 optimiser steps, and more follow.*total_steps") as warned:
        train(model, optimizer, 5)
    assert len(warned) == 1


def test_accumulation_is_noticed_after_three_steps() -> None:
    model, optimizer, _ = setup(epochs=10, steps_per_epoch=40, every=40)
    train(model, optimizer, 2, accumulate=4)
    with pytest.warns(SparsityWarning, match=r"4 backward passes.*400.*ends after 100 steps.*len\(loader\) // 4"):
        train(model, optimizer, 1, accumulate=4)
    train(model, optimizer, 3, accumulate=4)


def test_who_counts_the_optimiser_s_steps_may_accumulate() -> None:
    model, optimizer, pruner = setup(total_steps=40)
    train(model, optimizer, 40, accumulate=4)
    assert count(pruner.masks) == 20
