"""A checkpoint of another training is refused, the order of loading does not matter, and lost masks are noticed."""

from collections.abc import Callable
from copy import deepcopy
from functools import partial
from itertools import permutations
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn.functional import mse_loss
from torch.optim import SGD, Adam

from asni.errors import SparsityWarning, UsageError
from asni.methods.asni import ASNI
from asni.methods.continuous import Continuous
from asni.methods.gmp import GMP
from asni.methods.magnitude import Magnitude
from asni.methods.rigl import SET, RigL
from asni.methods.soft_threshold import STR
from asni.pruning.hold import Hold
from asni.pruning.masks import count
from asni.pruning.pruner import Pruner

STEPS = 40
PRUNERS: dict[str, Callable[..., Pruner]] = {
    **{
        method.__name__: partial(method, sparsity=0.9, total_steps=STEPS)
        for method in (ASNI, GMP, Magnitude, RigL, SET, Continuous)
    },
    "STR": partial(STR, decay=10.0, start=-8.0),
}


def network(seed: int = 0) -> nn.Sequential:
    torch.manual_seed(seed)
    return nn.Sequential(nn.Linear(6, 20), nn.BatchNorm1d(20), nn.ReLU(), nn.Linear(20, 4))


def train(model: nn.Module, optimizer: torch.optim.Optimizer, steps: range) -> None:
    for step in steps:
        generator = torch.Generator().manual_seed(step)
        images, targets = (torch.randn(8, size, generator=generator) for size in (6, 4))
        optimizer.zero_grad()
        mse_loss(model(images), targets).backward()
        optimizer.step()


def stopped(make: Callable[..., Pruner], steps: int) -> tuple[Any, nn.Module]:
    """The states after some steps, and the network at the end."""
    model = network()
    optimizer = Adam(model.parameters(), lr=0.01)
    pruner = make(model, optimizer)
    train(model, optimizer, range(steps))
    states = deepcopy((model.state_dict(), optimizer.state_dict(), pruner.state_dict()))
    train(model, optimizer, range(steps, STEPS))
    return states, model


@pytest.mark.parametrize("name", PRUNERS)
@pytest.mark.parametrize("order", list(permutations(["model", "optimizer", "make"])), ids=lambda order: " ".join(order))
@pytest.mark.parametrize("steps", [9, 31])
def test_the_order_of_making_and_loading_does_not_matter(name: str, order: tuple[str, ...], steps: int) -> None:
    (model_state, optimizer_state, pruner_state), expected = stopped(PRUNERS[name], steps)
    model = network(seed=1)
    optimizer = Adam(model.parameters(), lr=0.01)
    made: list[Pruner] = []
    actions: dict[str, Callable[[], Any]] = {
        "model": lambda: model.load_state_dict(model_state),
        "optimizer": lambda: optimizer.load_state_dict(optimizer_state),
        "make": lambda: made.append(PRUNERS[name](model, optimizer)),
    }
    for action in order:
        actions[action]()
    made[0].load_state_dict(pruner_state)
    train(model, optimizer, range(steps, STEPS))
    assert all(torch.equal(value, model.state_dict()[key]) for key, value in expected.state_dict().items())


def test_the_pruner_may_be_loaded_before_the_others() -> None:
    (model_state, optimizer_state, pruner_state), expected = stopped(PRUNERS["RigL"], 21)
    model = network(seed=1)
    optimizer = Adam(model.parameters(), lr=0.01)
    PRUNERS["RigL"](model, optimizer).load_state_dict(pruner_state)
    model.load_state_dict(model_state)
    optimizer.load_state_dict(optimizer_state)
    train(model, optimizer, range(21, STEPS))
    assert all(torch.equal(value, model.state_dict()[key]) for key, value in expected.state_dict().items())


def asni(**changes: Any) -> Pruner:
    model = network()
    options = {"sparsity": 0.9, "epochs": 4, "steps_per_epoch": 10, **changes}
    return ASNI(model, SGD(model.parameters(), lr=0.1), **options)


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"sparsity": 0.8}, r"sparsity is 0\.8 in the state and 0\.9 here"),
        ({"epochs": 5}, "steps is 50 in the state and 40 here"),
        ({"beta": 0.3}, r"schedule is .*beta=0\.3.* in the state"),
        ({"score": "lamp"}, "score is lamp in the state and magnitude here"),
        ({"floor": 0.01}, r"floor is 0\.01 in the state and None here"),
        ({"exclude": "0"}, r"'0\.weight' is missing in the state and 20x6 here"),
    ],
)
def test_a_state_of_another_training_is_refused_by_the_difference(changes: dict[str, Any], named: str) -> None:
    with pytest.raises(UsageError, match=named):
        asni().load_state_dict(asni(**changes).state_dict())


def test_a_state_of_another_method_is_refused() -> None:
    model = network()
    held = Hold(model, SGD(model.parameters(), lr=0.1)).state_dict()
    with pytest.raises(UsageError, match="the state is that of Hold, but this pruner is ASNI"):
        asni().load_state_dict(held)
    for nonsense in ({}, {"steps": 3}, model.state_dict(), None):
        with pytest.raises(UsageError, match="no state of a pruner"):
            asni().load_state_dict(nonsense)  # type: ignore[arg-type]


def test_a_refused_state_changes_nothing() -> None:
    pruner = asni()
    before = deepcopy(pruner.state_dict())
    with pytest.raises(UsageError):
        pruner.load_state_dict({**asni(sparsity=0.5).state_dict(), "steps": 30})
    assert pruner.steps == 0
    assert all(torch.equal(mask, before["masks"][name]) for name, mask in pruner.masks.items())


class Wrapped(nn.Module):
    """Has the names of DDP, torch.compile or FSDP around a network."""

    def __init__(self, name: str, model: nn.Module) -> None:
        super().__init__()
        self.add_module(name, model)
        self._name = name

    def forward(self, x: torch.Tensor) -> Any:
        return getattr(self, self._name)(x)


@pytest.mark.parametrize("wrapper", ["module", "_orig_mod", "_fsdp_wrapped_module"])
def test_names_are_compared_without_those_of_wrappers(wrapper: str) -> None:
    (_, _, state), _ = stopped(PRUNERS["ASNI"], 31)
    model = Wrapped(wrapper, network())
    pruner = PRUNERS["ASNI"](model, Adam(model.parameters()))
    pruner.load_state_dict(state)
    assert count(pruner.masks) == count(state["masks"])
    assert list(pruner.state_dict()["masks"]) == ["0.weight", "3.weight"]
    inner = network()
    Hold(inner, Adam(inner.parameters()), pruner.masks)
    assert sum(int(inner.get_parameter(name).count_nonzero()) for name in state["masks"]) == pruner.alive


@pytest.mark.parametrize("name", ["ASNI", "GMP", "Magnitude", "RigL", "SET"])
@pytest.mark.parametrize("made_first", [True, False])
def test_a_sparse_network_without_the_pruner_s_state_is_noticed(name: str, made_first: bool) -> None:
    (model_state, optimizer_state, _), _ = stopped(PRUNERS[name], 31)
    model = network()
    if made_first:
        optimizer = Adam(model.parameters(), lr=0.01)
        PRUNERS[name](model, optimizer)
    model.load_state_dict(model_state)
    if not made_first:
        optimizer = Adam(model.parameters(), lr=0.01)
        PRUNERS[name](model, optimizer)
    optimizer.load_state_dict(optimizer_state)
    with pytest.warns(
        SparsityWarning, match=rf"% of the weights are already zero, but {name} is at step 0.*state_dict"
    ):
        train(model, optimizer, range(31, 32))


def test_rigl_kills_no_living_weight_of_a_network_that_was_loaded_before() -> None:
    (model_state, _, _), _ = stopped(PRUNERS["RigL"], 31)
    model = network()
    model.load_state_dict(model_state)
    alive = int(model.get_parameter("0.weight").count_nonzero())
    pruner = PRUNERS["RigL"](model, Adam(model.parameters()))
    assert int(model.get_parameter("0.weight").count_nonzero()) == alive
    assert pruner.alive == pruner.target


@pytest.mark.filterwarnings("error")
def test_layers_that_start_at_zero_are_no_pruned_network() -> None:
    model = network()
    nn.init.zeros_(model.get_parameter("3.weight"))
    optimizer = Adam(model.parameters(), lr=0.01)
    ASNI(model, optimizer, sparsity=0.5, total_steps=40)
    train(model, optimizer, range(1))
