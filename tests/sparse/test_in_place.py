"""Steps on torch's own tensors are those of torch, and leave pruned weights and foreign parameters alone."""

import copy

import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn
from torch.optim import SGD, Adam, Optimizer

from asni.sparse.optimizers.in_place import InPlace
from asni.sparse.optimizers.nonzeros import NUMBERS_PER_THREAD, Nonzeros
from tests.sparse.test_optimizers import (
    Make,
    Masks,
    adams,
    gradients_of,
    held_by,
    in_groups,
    masks_of,
    network,
    our_step,
    require_close,
    require_same_state,
    sgds,
    sparse,
    torch_step,
)


def step_in_place(model: nn.Module, optimizer: Optimizer, kernels: InPlace, masks: Masks, step: int) -> None:
    for name, gradient in gradients_of(model, masks, step).items():
        parameter = model.get_parameter(name)
        parameter.grad = torch.empty_like(parameter).copy_(gradient)
    stepped = kernels.step()
    assert stepped.keys() == set(model.parameters())
    assert all(gradient is parameter.grad for parameter, gradient in stepped.items())


@given(st.one_of(sgds(), adams()), st.sampled_from([0.0, 0.02, 0.5, 1.0]), st.booleans(), st.booleans())
def test_steps_and_state_are_those_of_torch(make: Make, density: float, channels_last: bool, grouped: bool) -> None:
    masks = masks_of(network(), density)
    model = sparse(network(channels_last), masks)
    other = copy.deepcopy(model)
    optimizer, torchs = (make(in_groups(each) if grouped else each.parameters()) for each in (model, other))
    kernels = InPlace(optimizer, held_by(model, masks).vector, 2)
    for step in range(4):
        if step == 2:
            torch_step(model, optimizer, masks, step)
        else:
            step_in_place(model, optimizer, kernels, masks, step)
        torch_step(other, torchs, masks, step)
    for name, parameter in other.named_parameters():
        require_close(model.get_parameter(name), parameter)
    require_same_state(optimizer, torchs)


@settings(max_examples=6)
@given(st.one_of(sgds(), adams()), st.sampled_from([0.03, 1.0]))
def test_threads_divide_the_work_and_change_nothing(make: Make, density: float) -> None:
    ends = []
    for threads in (1, 4):
        torch.manual_seed(0)
        size = round((3 * NUMBERS_PER_THREAD / density) ** 0.5)
        model = nn.Linear(size, size)
        masks = masks_of(model, density)
        held = held_by(sparse(model, masks), masks, threads=threads)
        ours = Nonzeros(held, make(model.parameters()))
        our_step(held, ours, model, masks, 0)
        found = torch.from_numpy(held.vector.weights.copy())
        optimizer = make(model.parameters())
        step_in_place(model, optimizer, InPlace(optimizer, held.vector, threads), masks, 0)
        ends.append((found, model.weight.detach()))
    for one, other in zip(*ends, strict=True):
        require_close(one, other, 1e-7)


def test_what_is_in_another_form_is_left_to_torch() -> None:
    model = network(channels_last=True)
    optimizer = Adam(model.parameters())
    kernels = InPlace(optimizer, held_by(model, {}).vector, 1)
    for parameter in model.parameters():
        parameter.grad = torch.ones_like(parameter)
    weight, bias, norm = (model.get_parameter(name) for name in ("0.weight", "0.bias", "1.weight"))
    weight.grad = torch.ones(weight.shape)
    bias.grad = None
    optimizer.state[norm] = {
        "step": torch.tensor(1.0),
        "exp_avg": torch.ones(5, 2)[:, 0],
        "exp_avg_sq": torch.ones(5),
    }
    stepped = kernels.step()
    assert set(model.parameters()) - stepped.keys() == {weight, bias, norm}
    assert weight not in optimizer.state
    assert float(optimizer.state[norm]["step"]) == 1


def test_a_parameter_that_is_not_in_the_network_is_left_to_torch() -> None:
    model, other = network(), nn.Parameter(torch.ones(2))
    optimizer = SGD([*model.parameters(), other], lr=0.1)
    other.grad = torch.ones(2)
    assert not InPlace(optimizer, held_by(model, {}).vector, 1).step()
    assert torch.equal(other, torch.ones(2))
