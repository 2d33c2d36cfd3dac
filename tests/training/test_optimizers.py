"""Optimisers of a user's own, by import path."""

from typing import Any

import pytest
import torch
from torch import nn

from asni.errors import UsageError
from asni.recipes.sections import Training
from asni.training.optimizers import own_optimizer


def own(name: str, **more: Any) -> torch.optim.Optimizer:
    training = Training(epochs=1, batch_size=1, optimizer=name, lr=0.25, **more)
    return own_optimizer([nn.Parameter(torch.ones(2, 2))], training)


class Plain:
    def __init__(self, parameters: object, lr: float) -> None:
        pass


class Needy(torch.optim.SGD):
    def step(self, closure: Any) -> None:  # type: ignore[override]
        closure()


def test_a_class_gets_the_rate_and_its_options() -> None:
    optimizer = own("torch.optim:RMSprop", optimizer_options={"alpha": 0.5})
    assert isinstance(optimizer, torch.optim.RMSprop)
    assert (optimizer.defaults["lr"], optimizer.defaults["alpha"]) == (0.25, 0.5)


@pytest.mark.parametrize(
    ("more", "decay"),
    [
        ({}, 0.01),
        ({"weight_decay": 0.5}, 0.5),
        ({"optimizer_options": {"weight_decay": 0.0}}, 0.0),
    ],
)
def test_weight_decay_is_passed_only_if_it_is_set(more: dict[str, Any], decay: float) -> None:
    assert own("torch.optim:AdamW", **more).defaults["weight_decay"] == decay


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("torch.optim:RMSporp", {}, "no optimiser in module 'torch.optim' called 'RMSporp'; did you mean 'RMSprop'"),
        ("no_such_module:Lion", {}, "cannot import 'no_such_module' for optimiser"),
        ("torch.optim:RMSprop", {"alfa": 1}, r"'torch\.optim:RMSprop' failed .*lr=0\.25, alfa=1.*unexpected keyword"),
        ("torch.optim:RMSprop", {"alpha": -1.0}, "Invalid alpha value"),
        ("torch:__version__", {}, "'torch:__version__' is a TorchVersion; it must be a class"),
        ("tests.training.test_optimizers:Plain", {}, r":Plain' is a Plain; it must be a torch\.optim\.Optimizer"),
        ("tests.training.test_optimizers:Needy", {}, ":Needy' needs a closure"),
        ("torch.optim:LBFGS", {}, ":LBFGS' needs a closure"),
    ],
)
def test_what_cannot_train_is_refused_by_name(name: str, options: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        own(name, optimizer_options=options)
