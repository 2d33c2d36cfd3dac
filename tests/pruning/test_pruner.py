"""Every pruner of one round, in a user's own loop."""

from collections.abc import Callable
from copy import deepcopy
from functools import partial
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn.functional import mse_loss

from asni.errors import UsageError
from asni.methods.asni import ASNI
from asni.methods.continuous import Continuous
from asni.methods.gmp import GMP
from asni.methods.magnitude import Magnitude
from asni.methods.rigl import SET, RigL
from asni.methods.soft_threshold import STR
from asni.pruning.pruner import Pruner
from tests.training.training_by_hand import OPTIMIZERS, small_network, train

STEPS = 40
WITH_SPARSITY = {"asni": ASNI, "gmp": GMP, "magnitude": Magnitude, "rigl": RigL, "set": SET, "continuous": Continuous}
PRUNERS: dict[str, Callable[..., Pruner]] = {
    **{name: partial(method, sparsity=0.9, epochs=4, steps_per_epoch=10) for name, method in WITH_SPARSITY.items()},
    "str": partial(STR, decay=10.0, start=-8.0),
}

every_pruner = pytest.mark.parametrize("name", PRUNERS)
every_optimizer = pytest.mark.parametrize("optimizer_name", OPTIMIZERS)


@every_optimizer
@every_pruner
@pytest.mark.parametrize("stop", [7, 20, 33])
def test_a_resumed_checkpoint_ends_with_the_same_bits(name: str, optimizer_name: str, stop: int) -> None:
    model = small_network()
    optimizer = OPTIMIZERS[optimizer_name](model.parameters())
    pruner = PRUNERS[name](model, optimizer)
    train(model, optimizer, range(stop))
    saved = deepcopy((model.state_dict(), optimizer.state_dict(), pruner.state_dict()))
    train(model, optimizer, range(stop, STEPS))

    other = small_network(seed=5)
    other_optimizer = OPTIMIZERS[optimizer_name](other.parameters())
    other_pruner = PRUNERS[name](other, other_optimizer)
    other.load_state_dict(saved[0])
    other_optimizer.load_state_dict(saved[1])
    other_pruner.load_state_dict(saved[2])
    train(other, other_optimizer, range(stop, STEPS))
    assert all(torch.equal(value, other.state_dict()[key]) for key, value in model.state_dict().items())
    assert all(torch.equal(mask, other_pruner.masks[key]) for key, mask in pruner.masks.items())


@every_optimizer
@every_pruner
def test_pruned_weights_are_zero_after_every_step(name: str, optimizer_name: str) -> None:
    model = small_network()
    optimizer = OPTIMIZERS[optimizer_name](model.parameters())
    pruner = PRUNERS[name](model, optimizer)

    def look(_: int) -> None:
        masks = pruner.masks
        assert all(not model.get_parameter(key)[~mask].any() for key, mask in masks.items())

    train(model, optimizer, range(STEPS), look)
    assert name == "str" or sum(int(mask.sum()) for mask in pruner.masks.values()) == 10


@every_pruner
def test_a_closure_gives_the_same_training(name: str) -> None:
    plain, by_closure = small_network(), small_network()
    optimizers = [OPTIMIZERS["adam"](model.parameters()) for model in (plain, by_closure)]
    for model, optimizer in zip((plain, by_closure), optimizers, strict=True):
        PRUNERS[name](model, optimizer)
    for step in range(STEPS):
        images, labels = (torch.randn(16, size, generator=torch.Generator().manual_seed(step)) for size in (6, 2))

        def backward(model: nn.Module, optimizer: torch.optim.Optimizer) -> float:
            optimizer.zero_grad()
            loss = mse_loss(model(images), labels)  # noqa: B023
            torch.autograd.backward(loss)
            return float(loss.detach())

        backward(plain, optimizers[0])
        optimizers[0].step()
        optimizers[1].step(partial(backward, by_closure, optimizers[1]))
    assert all(torch.equal(value, by_closure.state_dict()[key]) for key, value in plain.state_dict().items())


@pytest.mark.parametrize("method", WITH_SPARSITY.values(), ids=list(WITH_SPARSITY))
@pytest.mark.parametrize(
    ("wrong", "named"),
    [
        ({"sparsity": 97}, r"sparsity.* 97\b"),
        ({"sparsity": 0.0}, r"sparsity.* 0\.0\b"),
        ({"epochs": 0}, r"^epochs.* 0\b"),
        ({"steps_per_epoch": -1}, r"steps_per_epoch.* -1\b"),
        ({"steps_per_epoch": 1797 / 50}, r"steps_per_epoch.* 35\.94"),
    ],
)
def test_nonsense_is_refused_by_name(method: Callable[..., Pruner], wrong: dict[str, float], named: str) -> None:
    model = small_network()
    asked = {"sparsity": 0.9, "epochs": 4, "steps_per_epoch": 10, **wrong}
    with pytest.raises(UsageError, match=named):
        method(model, OPTIMIZERS["sgd"](model.parameters()), **asked)


@every_pruner
def test_the_optimiser_of_another_model_is_refused(name: str) -> None:
    with pytest.raises(UsageError, match=r"optimizer.*model\.parameters\(\)"):
        PRUNERS[name](small_network(), OPTIMIZERS["sgd"](small_network().parameters()))


@every_pruner
def test_a_weight_that_another_optimiser_trains_is_left_to_it(name: str) -> None:
    model = small_network()
    *body, weight, bias = model.parameters()
    optimizer, other = OPTIMIZERS["adam"](body), OPTIMIZERS["sgd"]([weight, bias])
    pruner = PRUNERS[name](model, optimizer)
    train(model, optimizer, range(STEPS), lambda _: other.step())
    assert list(pruner.masks) == ["0.weight", "3.weight"]
    assert weight.all()
    assert all(not model.get_parameter(key)[~mask].any() for key, mask in pruner.masks.items())
    assert name == "str" or sum(int(mask.sum()) for mask in pruner.masks.values()) == 9


class Clipped(torch.optim.Adam):
    """An optimiser of a user's own, on top of one of torch's."""

    def step(self, closure: Callable[[], float] | None = None) -> Any:
        nn.utils.clip_grad_norm_([p for group in self.param_groups for p in group["params"]], 1e9)
        return super().step(closure)


@every_pruner
def test_an_optimiser_that_calls_its_parent_is_seen_to_step_once(name: str) -> None:
    plain, clipped = small_network(), small_network()
    for model, kind in ((plain, torch.optim.Adam), (clipped, Clipped)):
        optimizer = kind(model.parameters(), lr=0.01)
        pruner = PRUNERS[name](model, optimizer)
        train(model, optimizer, range(STEPS))
        assert pruner.steps == STEPS
    assert all(torch.equal(value, clipped.state_dict()[key]) for key, value in plain.state_dict().items())


def test_a_step_that_failed_does_not_hide_the_next_ones() -> None:
    model = small_network()
    optimizer = Clipped(model.parameters(), lr=0.01)
    pruner = PRUNERS["asni"](model, optimizer)

    def fails() -> float:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        optimizer.step(fails)
    train(model, optimizer, range(STEPS))
    assert pruner.steps == STEPS


class Noted(torch.optim.SGD):
    """An optimiser whose step takes more than a closure."""

    def step(self, closure: Callable[[], float], note: str = "") -> str:  # type: ignore[override]
        super().step(closure)
        return note


def test_the_other_arguments_of_a_step_reach_the_optimiser() -> None:
    model = small_network()
    optimizer = Noted(model.parameters(), lr=0.01)
    PRUNERS["asni"](model, optimizer)
    assert optimizer.step(lambda: 0.0, "by place") == "by place"
    assert optimizer.step(lambda: 0.0, note="by name") == "by name"
    assert optimizer.step(closure=lambda: 0.0, note="both by name") == "both by name"


def test_an_interval_of_no_steps_is_refused() -> None:
    model = small_network()
    with pytest.raises(UsageError, match=r"every.* 1\b.* 0\b"):
        SET(model, OPTIMIZERS["sgd"](model.parameters()), sparsity=0.9, epochs=4, steps_per_epoch=10, every=0)


@pytest.mark.parametrize(("epochs", "steps_per_epoch"), [(1, 131), (2, 33)])
def test_gates_that_stay_soft_to_the_end_leave_what_was_asked(epochs: int, steps_per_epoch: int) -> None:
    model = small_network()
    optimizer = OPTIMIZERS["adam"](model.parameters())
    pruner = Continuous(model, optimizer, sparsity=0.9, epochs=epochs, steps_per_epoch=steps_per_epoch, search=1.0)
    train(model, optimizer, range(epochs * steps_per_epoch))
    assert sum(int(mask.sum()) for mask in pruner.masks.values()) == 10


def test_a_pruner_tells_a_person_how_far_it_is() -> None:
    model = nn.Linear(100, 100)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    pruner = ASNI(model, optimizer, sparsity=0.9999, epochs=4, steps_per_epoch=2)
    assert repr(pruner) == "ASNI(epoch 0/4, 0 % pruned, 10,000 alive)"
    for _ in range(7):
        model(torch.randn(1, 100)).square().sum().backward()
        optimizer.step()
    assert repr(pruner) == "ASNI(epoch 3/4, 99.9 % pruned, 1 alive)", "99.99 % is not everything"


@every_pruner
def test_every_pruner_has_a_short_repr(name: str) -> None:
    model = small_network()
    pruner = PRUNERS[name](model, OPTIMIZERS["sgd"](model.parameters()))
    alive = sum(int(mask.sum()) for mask in pruner.masks.values())
    assert repr(pruner).startswith(f"{type(pruner).__name__}(")
    assert repr(pruner).endswith(f" % pruned, {alive} alive)")
