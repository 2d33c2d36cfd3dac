"""SET and RigL against google-research/rigl: which calls step, which update, and with which masks and weights."""

import math
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from asni.methods.rigl import SET, DropAndGrow, RigL
from tests.methods.official.reading import vectors

INPUTS, OUTPUTS = vectors("set")


class SETWithTheirGrowth(SET):
    """Grows where theirs grew, since growth is random; which weights stay and how many grow is left to SET."""

    theirs: list[dict[str, Any]]

    def growth(self, name: str, gradient: Tensor) -> Tensor:
        return torch.tensor(self.theirs[self.steps - 1]["mask"], dtype=torch.float32)


def layer_and_optimizer(optimizer_name: str) -> tuple[nn.Linear, torch.optim.Optimizer]:
    layer = nn.Linear(8, 6)
    layer.bias = nn.Parameter(torch.tensor(INPUTS["bias"]))
    momentum = INPUTS["momentum"][optimizer_name]
    return layer, torch.optim.SGD(layer.parameters(), lr=INPUTS["lr"], momentum=momentum)


def start(pruner: DropAndGrow) -> None:
    pruner.end = math.inf  # the drop fraction of the vectors is constant
    pruner.weights["weight"].data.copy_(torch.tensor(INPUTS["weights"]))
    pruner.masks = {"weight": torch.tensor(INPUTS["mask"]) != 0}


def compare_calls(layer: nn.Linear, pruner: DropAndGrow, theirs: list[dict[str, Any]]) -> None:
    for after in theirs:
        layer.weight.grad = torch.tensor(INPUTS["weight_gradients"][after["call"] - 1])
        layer.bias.grad = torch.tensor(INPUTS["bias_gradients"][after["call"] - 1])
        pruner.optimizer.step()
        mask = torch.tensor(after["mask"])
        assert torch.equal(pruner.masks["weight"], mask != 0)
        # Their dropped weights keep a value behind the mask.
        torch.testing.assert_close(layer.weight.data, mask * torch.tensor(after["weights"]), rtol=5e-7, atol=1e-7)
        torch.testing.assert_close(layer.bias.data, torch.tensor(after["bias"]), rtol=5e-7, atol=1e-7)


SETTINGS: dict[str, Any] = {"sparsity": 0.5, "drop": INPUTS["drop_fraction"], "total_steps": 9 * 100}


@pytest.mark.parametrize("optimizer_name", ["sgd", "momentum"])
def test_set_steps_in_every_call_and_then_ranks_the_stepped_weights(optimizer_name: str) -> None:
    theirs, last_update = OUTPUTS[f"set_{optimizer_name}"], INPUTS["end_step"]
    layer, optimizer = layer_and_optimizer(optimizer_name)
    pruner = SETWithTheirGrowth(layer, optimizer, every=INPUTS["frequency"], **SETTINGS)
    pruner.theirs = theirs
    start(pruner)
    compare_calls(layer, pruner, theirs[:last_update])
    pruner.end = 0
    compare_calls(layer, pruner, theirs[last_update:])
    assert [call["call"] for call in theirs if call["masks_changed"]] == [2, 4, 6]
    assert all(call["gradient_step_taken"] for call in theirs)


@pytest.mark.parametrize("optimizer_name", ["sgd", "momentum"])
def test_rigl_updates_instead_of_a_step(optimizer_name: str) -> None:
    """Their update is not counted, so their 2 steps between updates are an interval of 3; none of theirs is at 0."""
    theirs = OUTPUTS[f"rigl_{optimizer_name}"]
    layer, optimizer = layer_and_optimizer(optimizer_name)
    pruner = RigL(layer, optimizer, every=INPUTS["frequency"] + 1, **SETTINGS)
    start(pruner)
    pruner.steps = 1
    compare_calls(layer, pruner, theirs)
    assert [call["call"] for call in theirs if not call["gradient_step_taken"]] == [3, 6, 9]
