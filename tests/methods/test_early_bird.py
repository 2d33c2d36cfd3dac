"""Early-bird draws its mask when the mask stays the same, and not before."""

from typing import Any

import pytest
import torch
from torch import nn

from asni.methods.early_bird import EarlyBird, distance
from asni.pruning.masks import count


def watched(weights: list[list[float]], **settings: int) -> list[int]:
    """How many weights live after each epoch, when the weights at its end are those given."""
    model = nn.Linear(len(weights[0]), 1, bias=False)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.0)
    options: dict[str, Any] = {"keep": 2, "epochs": 20, "patience": 3, **settings}
    bird = EarlyBird(model, optimizer, steps_per_epoch=1, **options)
    alive = []
    for values in weights:
        with torch.no_grad():
            model.weight.copy_(torch.tensor([values]))
        model(torch.ones(1, len(values))).sum().backward()
        optimizer.step()
        alive.append(count(bird.masks))
    return alive


LEFT, RIGHT = [4.0, 3.0, 2.0, 1.0], [1.0, 2.0, 3.0, 4.0]


def test_drawn_when_the_mask_has_not_changed_over_the_patience() -> None:
    assert watched([LEFT] * 6) == [4, 4, 4, 2, 2, 2]


def test_a_change_starts_the_wait_again() -> None:
    assert watched([LEFT, LEFT, LEFT, RIGHT, RIGHT, RIGHT, RIGHT, RIGHT]) == [4, 4, 4, 4, 4, 4, 2, 2]


def test_values_may_change_while_their_order_does_not() -> None:
    assert watched([[4.0 + epoch, -3.0 - epoch, 2.0, 1.0] for epoch in range(5)]) == [4, 4, 4, 2, 2]


def test_a_mask_that_never_settles_is_drawn_after_the_last_epoch_but_one() -> None:
    assert watched([LEFT, RIGHT] * 4, epochs=8) == [4] * 6 + [2, 2]


def test_the_drawn_mask_stays() -> None:
    assert watched([LEFT] * 4 + [RIGHT] * 2) == [4, 4, 4, 2, 2, 2]


def test_where_half_is_pruned_the_distance_is_the_share_of_places_that_differ() -> None:
    generator = torch.Generator().manual_seed(0)
    one, other = (torch.randperm(100, generator=generator).view(10, 10) < 50 for _ in range(2))
    assert distance({"a": one}, {"a": other}) == pytest.approx(float((one != other).float().mean()))


def test_a_copy_from_a_checkpoint_waits_as_long_as_the_first_would_have() -> None:
    model = nn.Linear(4, 1, bias=False)
    nn.init.constant_(model.weight, 1.0)
    drawn_after = []
    for stop in range(5):
        settings: dict[str, Any] = {"keep": 2, "epochs": 20, "steps_per_epoch": 1, "patience": 3}
        bird = EarlyBird(model, torch.optim.SGD(model.parameters()), **settings)
        for _ in range(stop):
            bird.after_step()
        again = EarlyBird(model, torch.optim.SGD(model.parameters()), **settings)
        again.load_state_dict(bird.state_dict())
        while count(again.masks) == 4:
            again.after_step()
        drawn_after.append(again.steps)
    assert drawn_after == [4] * 5
