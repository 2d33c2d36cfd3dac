"""The optimiser of a pruner's own is of the user's class, whatever its constructor wants."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.optim import SGD, Adam, Optimizer
from torch.optim.lr_scheduler import StepLR

from asni.errors import UsageError
from asni.methods.soft_threshold import STR
from asni.pruning.inner_optimizer import without_parameters


class Limited(SGD):
    """A user's optimiser, with an argument and an attribute of its own."""

    def __init__(self, parameters: Any, lr: float, *, largest: float):
        super().__init__(parameters, lr=lr)
        self.largest = largest

    def step(self, closure: Callable[[], float] | None = None) -> Any:
        for group in self.param_groups:
            for parameter in group["params"]:
                if parameter.grad is not None:
                    parameter.grad.clamp_(-self.largest, self.largest)
        return super().step(closure)


def stepped(optimizer: Optimizer, parameter: Tensor, gradient: float) -> float:
    settings = {key: value for key, value in optimizer.param_groups[0].items() if key != "params"}
    other = without_parameters(optimizer)
    other.param_groups = [{**settings, "params": [parameter]}]
    parameter.grad = torch.tensor([gradient])
    other.step()
    return parameter.item()


def test_it_has_the_attributes_of_a_class_of_the_users_own() -> None:
    optimizer = Limited([nn.Parameter(torch.ones(1))], 0.5, largest=2.0)
    assert stepped(optimizer, nn.Parameter(torch.zeros(1)), 100.0) == -1.0


def test_it_has_neither_the_hooks_nor_the_parameters_nor_the_state() -> None:
    parameter = nn.Parameter(torch.ones(1))
    optimizer = Adam([parameter], lr=0.5)
    steps = []
    optimizer.register_step_post_hook(lambda *_: steps.append("outer"))
    parameter.grad = torch.ones(1)
    optimizer.step()
    assert stepped(optimizer, nn.Parameter(torch.zeros(1)), 1.0) == pytest.approx(-0.5)
    assert parameter.item() == pytest.approx(0.5)
    assert steps == ["outer"]


def test_a_step_that_a_scheduler_has_wrapped_stays_with_its_optimiser() -> None:
    parameter = nn.Parameter(torch.ones(1))
    optimizer = SGD([parameter], lr=0.5)
    StepLR(optimizer, 1)
    parameter.grad = torch.ones(1)
    assert stepped(optimizer, nn.Parameter(torch.zeros(1)), 1.0) == -0.5
    assert parameter.item() == 1.0


def test_an_optimiser_that_needs_a_closure_is_refused_and_left_as_it_was() -> None:
    model = nn.Linear(2, 2)
    optimizer = torch.optim.LBFGS(model.parameters())
    with pytest.raises(UsageError, match=r"^LBFGS\.step needs 'closure'.*SGD or Adam"):
        STR(model, optimizer, decay=0.1)
    assert not optimizer._optimizer_step_pre_hooks
