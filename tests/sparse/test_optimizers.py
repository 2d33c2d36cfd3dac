"""Steps on the nonzeros are those of torch's optimisers on masked weights, and the state is theirs."""

import copy
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor, nn
from torch.optim import SGD, Adam, AdamW, Optimizer

from asni.sparse.network.vector import Vector
from asni.sparse.optimizers.nonzeros import Nonzeros
from asni.sparse.steps import UnsupportedError

Make = Callable[[Any], Optimizer]
Masks = dict[str, Tensor]


@dataclass(frozen=True)
class Standin:
    """A network that holds numbers, and does not run."""

    vector: Vector


def network(channels_last: bool = False) -> nn.Sequential:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Conv2d(3, 5, (2, 3)), nn.BatchNorm2d(5), nn.Flatten(), nn.Linear(20, 7))
    return model.to(memory_format=torch.channels_last) if channels_last else model  # type: ignore[call-overload]


def masks_of(model: nn.Module, density: float, seed: int = 0) -> Masks:
    random = torch.Generator().manual_seed(seed)
    matrices = {name: weight for name, weight in model.named_parameters() if weight.ndim > 1}
    return {name: torch.rand(weight.shape, generator=random) < density for name, weight in matrices.items()}


@torch.no_grad()
def sparse(model: nn.Module, masks: Masks) -> nn.Module:
    for name, mask in masks.items():
        model.get_parameter(name).mul_(mask)
    return model


def held_by(model: nn.Module, masks: Masks, threads: int = 2) -> Standin:
    """The numbers of a model, the nonzeros of each layer in some order."""
    random = np.random.default_rng(0)
    orders = {
        name: random.permutation(np.flatnonzero(masks[name].numpy())) if name in masks else None
        for name, _ in model.named_parameters()
    }
    vector = Vector(model, orders, threads)
    vector.load()
    return Standin(vector)


def gradients_of(model: nn.Module, masks: Masks, step: int) -> dict[str, Tensor]:
    random = torch.Generator().manual_seed(100 + step)
    found = {name: torch.randn(each.shape, generator=random) for name, each in model.named_parameters()}
    return {name: each * masks[name] if name in masks else each for name, each in found.items()}


def torch_step(model: nn.Module, optimizer: Optimizer, masks: Masks, step: int) -> None:
    for name, gradient in gradients_of(model, masks, step).items():
        parameter = model.get_parameter(name)
        if parameter.requires_grad:
            parameter.grad = torch.empty_like(parameter).copy_(gradient)
    optimizer.step()


def our_step(network: Standin, optimizer: Nonzeros, model: nn.Module, masks: Masks, step: int) -> None:
    """Each thread has the same part of the gradient in its row."""
    vector = network.vector
    rows = len(vector.gradient)
    for name, gradient in gradients_of(model, masks, step).items():
        where, laid = vector.slices[name], torch.empty_like(vector.parameters[name]).copy_(gradient)
        memory = laid.as_strided((laid.numel(),), (1,)).detach().numpy()
        vector.gradient[:, where.start : where.stop] = (memory if where.index is None else memory[where.index]) / rows
    optimizer.step()


def require_close(ours: Tensor, torchs: Tensor, tolerance: float = 2e-6) -> None:
    largest = float(torchs.detach().abs().max())
    torch.testing.assert_close(ours, torchs, rtol=tolerance, atol=tolerance * largest, check_dtype=False)


def require_same_state(ours: Optimizer, torchs: Optimizer) -> None:
    """The same tensors, of the same kind, with almost the same numbers."""
    for our_group, torch_group in zip(ours.param_groups, torchs.param_groups, strict=True):
        for one, other in zip(our_group["params"], torch_group["params"], strict=True):
            assert (one in ours.state) == (other in torchs.state)
            here, there = ours.state.get(one, {}), torchs.state.get(other, {})
            assert here.keys() == there.keys()
            for key, value in there.items():
                assert (here[key].dtype, here[key].stride(), here[key].device) == (
                    value.dtype,
                    value.stride(),
                    value.device,
                )
                require_close(here[key], value)


def sgds() -> st.SearchStrategy[Make]:
    def make(lr: float, momentum: float, dampening: float, nesterov: bool, **rest: Any) -> Make:
        nesterov = nesterov and momentum > 0
        settings = {"momentum": momentum, "nesterov": nesterov, "dampening": 0 if nesterov else dampening, **rest}
        return lambda parameters: SGD(parameters, lr=lr, **settings)

    return st.builds(
        make,
        lr=st.sampled_from([0.1, 0.003]),
        momentum=st.sampled_from([0.0, 0.9, 0.3]),
        dampening=st.sampled_from([0.0, 0.5]),
        nesterov=st.booleans(),
        weight_decay=st.sampled_from([0.0, 0.01]),
        maximize=st.booleans(),
        fused=st.sampled_from([True, False, None]),
    )


def adams() -> st.SearchStrategy[Make]:
    def make(kind: type[Adam] | type[AdamW], **settings: Any) -> Make:
        return lambda parameters: kind(parameters, **settings)

    return st.builds(
        make,
        kind=st.sampled_from([Adam, AdamW]),
        lr=st.sampled_from([0.1, 0.001]),
        betas=st.sampled_from([(0.9, 0.999), (0.2, 0.6), (0.5, 0.9), (0.0, 0.0)]),
        eps=st.sampled_from([1e-8, 1e-3]),
        weight_decay=st.sampled_from([0.0, 0.01]),
        maximize=st.booleans(),
        fused=st.sampled_from([True, False, None]),
    )


def in_groups(model: nn.Module) -> list[dict[str, Any]]:
    """Matrices and vectors with learning rates of their own, not in the order of the network."""
    parameters = list(model.parameters())
    matrices, vectors = ([each for each in parameters if (each.ndim > 1) == many] for many in (True, False))
    return [{"params": matrices, "lr": 0.02, "weight_decay": 0.1}, {"params": vectors}]


@given(st.one_of(sgds(), adams()), st.sampled_from([0.0, 0.03, 0.5, 1.0]), st.booleans(), st.booleans())
def test_steps_and_state_are_those_of_torch_on_masked_weights(
    make: Make, density: float, channels_last: bool, grouped: bool
) -> None:
    masks = masks_of(network(), density)
    model = sparse(network(channels_last), masks)
    other = copy.deepcopy(model)
    optimizer, torchs = (make(in_groups(each) if grouped else each.parameters()) for each in (model, other))
    held = held_by(model, masks)
    ours = Nonzeros(held, optimizer)
    for step in range(5):
        if step == 3:
            # As a scheduler does.
            for group in (*optimizer.param_groups, *torchs.param_groups):
                group["lr"] /= 3
        our_step(held, ours, model, masks, step)
        torch_step(other, torchs, masks, step)
    held.vector.store()
    ours.store()
    for name, parameter in other.named_parameters():
        require_close(model.get_parameter(name), parameter)
    require_same_state(optimizer, torchs)


@given(st.one_of(sgds(), adams()), st.booleans())
def test_torch_goes_on_where_the_kernel_stops_and_the_other_way_round(make: Make, channels_last: bool) -> None:
    masks = masks_of(network(), 0.3)
    model = sparse(network(channels_last), masks)
    other = copy.deepcopy(model)
    optimizer, torchs = make(model.parameters()), make(other.parameters())
    held = held_by(model, masks)
    ours = Nonzeros(held, optimizer)
    for step in range(6):
        if step % 3 == 1:
            held.vector.load()
            ours.load()
            our_step(held, ours, model, masks, step)
            held.vector.store()
            ours.store()
        else:
            torch_step(model, optimizer, masks, step)
        torch_step(other, torchs, masks, step)
    for name, parameter in other.named_parameters():
        require_close(model.get_parameter(name), parameter)
    require_same_state(optimizer, torchs)


@pytest.mark.parametrize(
    "make",
    [
        lambda p: SGD(p, lr=0.01, weight_decay=0.01, momentum=0.9),
        lambda p: Adam(p, lr=0.01, weight_decay=0.01),
        lambda p: AdamW(p, lr=0.01, weight_decay=0.01),
    ],
    ids=["sgd", "adam", "adamw"],
)
def test_many_steps_stay_close_to_those_in_float64(make: Make) -> None:
    masks = masks_of(network(), 0.3)
    model = sparse(network(), masks)
    other = copy.deepcopy(model).double()
    optimizer, torchs = make(model.parameters()), make(other.parameters())
    held = held_by(model, masks)
    ours = Nonzeros(held, optimizer)
    for step in range(100):
        our_step(held, ours, model, masks, step)
        torch_step(other, torchs, masks, step)
    held.vector.store()
    for name, parameter in other.named_parameters():
        require_close(model.get_parameter(name), parameter, 1e-5)


@pytest.mark.parametrize("make", [lambda p: SGD(p, momentum=0.9), Adam, lambda p: AdamW(p, fused=True)])
def test_bringing_the_state_back_and_forth_changes_no_bit(make: Make) -> None:
    masks = masks_of(network(), 0.3)
    model = sparse(network(), masks)
    optimizer = make(model.parameters())
    torch_step(model, optimizer, masks, 0)
    torch_step(model, optimizer, masks, 1)
    before = copy.deepcopy(optimizer.state_dict())
    tensors = [value for state in optimizer.state.values() for value in state.values()]
    ours = Nonzeros(held_by(model, masks), optimizer)
    for _ in range(2):
        ours.store()
        ours.load()
    after = optimizer.state_dict()
    assert before["state"].keys() == after["state"].keys()
    for number, state in before["state"].items():
        for key, value in state.items():
            assert torch.equal(value, after["state"][number][key])
    now = [value for state in optimizer.state.values() for value in state.values()]
    assert all(one is other for one, other in zip(tensors, now, strict=True))


def test_the_state_of_pruned_weights_is_zero_after_store() -> None:
    masks = masks_of(network(), 0.3)
    model = sparse(network(), masks)
    optimizer = Adam(model.parameters())
    torch_step(model, optimizer, {}, 0)
    ours = Nonzeros(held_by(model, masks), optimizer)
    ours.store()
    for name, mask in masks.items():
        for key in ("exp_avg", "exp_avg_sq"):
            state = optimizer.state[model.get_parameter(name)][key]
            assert torch.equal(state != 0, mask)


def test_a_state_may_have_another_memory_format_than_its_parameter() -> None:
    masks = masks_of(network(), 0.3)
    model, other = sparse(network(True), masks), sparse(network(True), masks)
    optimizer, torchs = Adam(model.parameters()), Adam(other.parameters())
    torch_step(model, optimizer, masks, 0)
    torch_step(other, torchs, masks, 0)
    state = optimizer.state[model.get_parameter("0.weight")]
    assert not state["exp_avg"].is_contiguous()
    state["exp_avg"] = state["exp_avg"].contiguous()
    held = held_by(model, masks)
    ours = Nonzeros(held, optimizer)
    our_step(held, ours, model, masks, 1)
    torch_step(other, torchs, masks, 1)
    ours.store()
    there = torchs.state[other.get_parameter("0.weight")]
    require_close(state["exp_avg"], there["exp_avg"])
    require_close(state["exp_avg_sq"], there["exp_avg_sq"])
    assert state["exp_avg"].is_contiguous()


@pytest.mark.parametrize("make", [lambda p: SGD(p), lambda p: SGD(p, momentum=0.9), Adam])
def test_before_the_first_step_there_is_no_state(make: Make) -> None:
    model = network()
    optimizer = make(model.parameters())
    Nonzeros(held_by(model, {}), optimizer).store()
    assert not any(optimizer.state.values())


def test_parameters_with_another_past_have_their_own_count_of_steps() -> None:
    masks = masks_of(network(), 0.3)
    model, other = sparse(network(), masks), sparse(network(), masks)
    optimizers = []
    for each in (model, other):
        each.get_parameter("1.weight").requires_grad = False
        optimizers.append(Adam(each.parameters(), lr=0.1))
        torch_step(each, optimizers[-1], masks, 0)
    optimizer, torchs = optimizers
    held = held_by(model, masks)
    ours = Nonzeros(held, optimizer)
    our_step(held, ours, model, masks, 1)
    torch_step(other, torchs, masks, 1)
    held.vector.store()
    ours.store()
    for each in (model, other):
        each.get_parameter("1.weight").requires_grad = True
    ours.load()
    our_step(held, ours, model, masks, 2)
    torch_step(other, torchs, masks, 2)
    held.vector.store()
    ours.store()
    for name, parameter in other.named_parameters():
        require_close(model.get_parameter(name), parameter)
    require_same_state(optimizer, torchs)
    assert [int(state["step"]) for state in optimizer.state.values()] == [3, 3, 3, 3, 3, 1]


def test_a_momentum_buffer_may_be_none() -> None:
    model, other = network(), network()
    optimizer, torchs = SGD(model.parameters(), momentum=0.9), SGD(other.parameters(), momentum=0.9)
    optimizer.state[model.get_parameter("0.weight")]["momentum_buffer"] = None
    held = held_by(model, {})
    ours = Nonzeros(held, optimizer)
    our_step(held, ours, model, {}, 0)
    torch_step(other, torchs, {}, 0)
    ours.store()
    require_same_state(optimizer, torchs)


def test_what_is_not_in_the_optimiser_is_not_trained() -> None:
    model = network()
    held = held_by(model, {})
    before = held.vector.weights.copy()
    ours = Nonzeros(held, SGD([model.get_parameter("3.bias")], lr=1.0))
    our_step(held, ours, model, {}, 0)
    where = held.vector.slices["3.bias"]
    assert np.flatnonzero(held.vector.weights != before).tolist() == list(range(where.start, where.stop))


@pytest.mark.parametrize(
    ("make", "reason"),
    [
        (lambda p: torch.optim.RMSprop(p), "the optimiser is torch.optim.rmsprop.RMSprop; the kernels have SGD, Adam,"),
        (type("MyAdam", (Adam,), {}), r"the optimiser is tests.sparse.test_optimizers.MyAdam; the kernels have SGD,"),
        (lambda p: Adam(p, amsgrad=True), "Adam with amsgrad=True, which the kernels do not have"),
        (lambda p: AdamW(p, capturable=True), "AdamW with capturable=True, which the kernels do not have"),
        (lambda p: SGD(p, differentiable=True), "SGD with differentiable=True, which the kernels do not have"),
    ],
)
def test_other_optimisers_are_refused_by_name(make: Make, reason: str) -> None:
    model = network()
    with pytest.raises(UnsupportedError, match=reason):
        Nonzeros(held_by(model, {}), make(model.parameters()))


def test_a_parameter_that_is_not_in_the_network_is_refused_once_it_has_a_gradient() -> None:
    model = network()
    temperature = nn.Parameter(torch.ones(1, 2))
    optimizer = SGD([*model.parameters(), temperature])
    Nonzeros(held_by(model, {}), optimizer)
    temperature.grad = torch.ones(1, 2)
    with pytest.raises(UnsupportedError, match=r"also trains a parameter of shape \(1, 2\), which is not in the net"):
        Nonzeros(held_by(model, {}), optimizer)
    named = SGD([*model.named_parameters(), ("temperature", temperature)])
    with pytest.raises(UnsupportedError, match=r"also trains 'temperature'"):
        Nonzeros(held_by(model, {}), named)
