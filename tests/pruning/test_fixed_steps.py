"""What a pruner says about the coming steps, and steps that are taken without the optimiser's hooks."""

from collections.abc import Callable
from copy import deepcopy
from typing import Any

import pytest
import torch
from torch import nn

from asni.methods.asni import ASNI
from asni.methods.continuous import Continuous
from asni.methods.early_bird import EarlyBird
from asni.methods.gmp import GMP
from asni.methods.magnitude import Magnitude
from asni.methods.rigl import SET, RigL
from asni.methods.soft_threshold import STR
from asni.pruning.gradual import GradualMagnitude
from asni.pruning.hold import Hold
from asni.pruning.layers import prunable
from asni.pruning.masks import Masks
from asni.pruning.pruner import Pruner
from asni.pruning.schedules import Step
from tests.training.training_by_hand import OPTIMIZERS, small_network, train

STEPS = 24
LENGTH: dict[str, Any] = {"epochs": 6, "steps_per_epoch": 4}
PRUNERS: dict[str, Callable[[nn.Module, torch.optim.Optimizer], Pruner]] = {
    "hold": lambda model, optimizer: Hold(
        model, optimizer, {name: weight.detach() > 0 for name, weight in prunable(model).items()}
    ),
    "asni": lambda model, optimizer: ASNI(model, optimizer, sparsity=0.9, every=4, **LENGTH),
    "gmp": lambda model, optimizer: GMP(model, optimizer, sparsity=0.9, every=3, **LENGTH),
    "magnitude": lambda model, optimizer: Magnitude(model, optimizer, sparsity=0.9, **LENGTH),
    "rigl": lambda model, optimizer: RigL(model, optimizer, sparsity=0.8, every=5, drop=0.9, **LENGTH),
    "set": lambda model, optimizer: SET(model, optimizer, sparsity=0.8, every=5, drop=0.9, **LENGTH),
    "early-bird": lambda model, optimizer: EarlyBird(model, optimizer, keep=20, patience=2, threshold=1.0, **LENGTH),
    "continuous": lambda model, optimizer: Continuous(model, optimizer, sparsity=0.9, **LENGTH),
    "str": lambda model, optimizer: STR(model, optimizer, decay=10.0, start=-8.0),
}

# Before each step: how many steps, that one included, need neither the pruner nor dense gradients.
SAID = {
    "hold": [None] * 24,
    # After each epoch but the last.
    "asni": [4, 3, 2, 1] * 5 + [None] * 4,
    # Every 3 steps from 20 % to 80 % of the way.
    "gmp": [9, 8, 7, 6, 5, 4] + [3, 2, 1] * 4 + [None] * 6,
    # Once, in step 12.
    "magnitude": [*range(12, 0, -1)] + [None] * 12,
    # The steps 0, 5, 10 and 15 are updates.
    "rigl": [0, 4, 3, 2, 1] * 3 + [0] + [None] * 8,
    # Updates follow the steps number 5, 10 and 15.
    "set": [4, 3, 2, 1, 0] * 3 + [None] * 9,
    # It looks after each epoch, and two distances are known after the third.
    "early-bird": [4, 3, 2, 1] * 3 + [None] * 12,
    "continuous": [0] * 12 + [None] * 12,
    "str": [0] * 24,
}


def same(first: Masks, second: Masks) -> bool:
    return all(torch.equal(mask, second[name]) for name, mask in first.items())


@pytest.mark.parametrize("name", PRUNERS)
def test_a_pruner_says_how_many_steps_do_not_need_it_and_keeps_its_word(name: str) -> None:
    model = small_network()
    optimizer = OPTIMIZERS["adam"](model.parameters())
    pruner = PRUNERS[name](model, optimizer)
    said, masks = [pruner.fixed_steps], [deepcopy(pruner.masks)]

    def remember(step: int) -> None:
        said.append(pruner.fixed_steps)
        masks.append(deepcopy(pruner.masks))

    train(model, optimizer, range(STEPS), remember)
    assert said[:STEPS] == SAID[name]
    for step, fixed in enumerate(said[:STEPS]):
        until = STEPS if fixed is None else max(step + fixed - 1, step)
        assert all(same(masks[step], later) for later in masks[step : until + 1])


def test_a_schedule_that_rests_is_fixed_until_it_goes_on() -> None:
    model = small_network()
    pruner = GradualMagnitude(model, OPTIMIZERS["sgd"](model.parameters()), schedule=Step(0.9), steps=40, every=4)
    assert pruner.fixed_steps == 20


@pytest.mark.parametrize("parent", [Hold, GradualMagnitude, RigL, SET, EarlyBird])
@pytest.mark.parametrize("method", ["before_step", "after_step", "settle"])
def test_a_step_of_the_user_s_own_is_never_left_out(parent: type[Pruner], method: str) -> None:
    options: dict[type[Pruner], dict[str, Any]] = {
        Hold: {},
        GradualMagnitude: {"schedule": Step(0.9), "steps": 40, "every": 4},
        EarlyBird: {"keep": 9, **LENGTH},
    }
    own = type("Own", (parent,), {method: lambda self: None})
    model = small_network()
    pruner = own(model, OPTIMIZERS["sgd"](model.parameters()), **options.get(parent, {"sparsity": 0.9, **LENGTH}))
    assert pruner.fixed_steps == 0


@pytest.mark.parametrize("name", [name for name in PRUNERS if name != "str"])
def test_fixed_steps_may_be_taken_in_another_way(name: str) -> None:
    """The same network is trained by a second optimiser, without hooks, where the pruner allows it."""
    models = [small_network(), small_network()]
    optimizers = [OPTIMIZERS["adam"](model.parameters()) for model in models]
    pruners = [PRUNERS[name](*each) for each in zip(models, optimizers, strict=True)]
    elsewhere = 0
    for step in range(STEPS):
        train(models[0], optimizers[0], range(step, step + 1))
        if step < 2 or pruners[1].fixed_steps == 0:
            train(models[1], optimizers[1], range(step, step + 1))
        else:
            without_hooks(models[1], optimizers[1], pruners[1].masks, step)
            pruners[1].stepped()
            elsewhere += 1
    assert elsewhere > 0
    assert [getattr(pruner, "hold", pruner).steps for pruner in pruners] == [STEPS, STEPS]
    assert same(pruners[0].masks, pruners[1].masks)
    for name, value in models[0].state_dict().items():
        assert torch.equal(models[1].state_dict()[name], value)


def without_hooks(model: nn.Module, optimizer: torch.optim.Optimizer, masks: Masks, step: int) -> None:
    twin = deepcopy(model)
    other = OPTIMIZERS["adam"](twin.parameters())
    other.load_state_dict(deepcopy(optimizer.state_dict()))
    hold = Hold(twin, other, masks)
    train(twin, other, range(step, step + 1))
    hold.detach()
    model.load_state_dict(twin.state_dict())
    optimizer.load_state_dict(other.state_dict())


def test_a_first_step_that_a_scaler_skips_is_still_a_beginning(caplog: pytest.LogCaptureFixture) -> None:
    model = nn.Linear(8, 4)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    pruner = ASNI(model, optimizer, sparsity=0.5, epochs=3, steps_per_epoch=2)
    pruner.stepped()
    assert pruner.steps == 1
    assert "ASNI prunes" in caplog.text
