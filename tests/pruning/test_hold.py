import copy
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from asni.errors import AsniError
from asni.pruning.hold import Hold
from asni.pruning.layers import prunable
from asni.pruning.masks import Masks, count, keep_largest

Optimizer = torch.optim.Optimizer
SGD, Adam, AdamW = torch.optim.SGD, torch.optim.Adam, torch.optim.AdamW

OPTIMIZERS: dict[str, Callable[[Any], Optimizer]] = {
    "sgd": lambda p: SGD(p, lr=0.1),
    "momentum, weight decay": lambda p: SGD(p, lr=0.1, momentum=0.9, weight_decay=0.1),
    "nesterov foreach": lambda p: SGD(p, lr=0.1, momentum=0.9, nesterov=True, weight_decay=0.1, foreach=True),
    "nesterov fused": lambda p: SGD(p, lr=0.1, momentum=0.9, nesterov=True, weight_decay=0.1, fused=True),
    "adam": lambda p: Adam(p, lr=0.1, weight_decay=0.1),
    "adam foreach": lambda p: Adam(p, lr=0.1, foreach=True),
    "adam fused": lambda p: Adam(p, lr=0.1, weight_decay=0.1, fused=True),
    "amsgrad": lambda p: Adam(p, lr=0.1, amsgrad=True),
    "adamw": lambda p: AdamW(p, lr=0.1, weight_decay=0.1),
    "adamw foreach": lambda p: AdamW(p, lr=0.1, foreach=True),
    "adamw fused": lambda p: AdamW(p, lr=0.1, weight_decay=0.1, fused=True),
    "one that hold does not know": lambda p: torch.optim.RMSprop(p, lr=0.1, momentum=0.9, weight_decay=0.1),
}


def network() -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(nn.Conv2d(1, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.Flatten(), nn.Linear(4 * 36, 3))


def step(model: nn.Module, optimizer: Optimizer) -> None:
    loss = model(torch.randn(5, 1, 8, 8)).square().sum()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()


def half(model: nn.Module) -> Masks:
    weights = prunable(model)
    return keep_largest(weights, sum(weight.numel() for weight in weights.values()) // 2)


def require_zero(model: nn.Module, optimizer: Optimizer, masks: Masks) -> None:
    for name, weight in prunable(model).items():
        for value in [weight, *optimizer.state[weight].values()]:
            if isinstance(value, Tensor) and value.shape == weight.shape:
                pruned = value.detach()[~masks[name]]
                assert torch.equal(pruned.view(torch.int32), torch.zeros_like(pruned, dtype=torch.int32))
                assert value[masks[name]].any()


@pytest.mark.parametrize("make", OPTIMIZERS.values(), ids=OPTIMIZERS)
def test_pruned_weights_and_their_state_are_zero_after_every_step(make: Callable[[Any], Optimizer]) -> None:
    model = network()
    optimizer = make(model.parameters())
    hold = Hold(model, optimizer)
    for _ in range(3):
        step(model, optimizer)
    masks = half(model)
    hold.masks = masks
    for _ in range(4):
        require_zero(model, optimizer, masks)
        step(model, optimizer)
    require_zero(model, optimizer, masks)


def test_living_weights_train_as_if_nothing_were_held() -> None:
    model = network()
    free = copy.deepcopy(model)
    held_optimizer, free_optimizer = (AdamW(m.parameters(), lr=0.1) for m in (model, free))
    Hold(model, held_optimizer)
    for _ in range(3):
        torch.manual_seed(1)
        step(model, held_optimizer)
        torch.manual_seed(1)
        step(free, free_optimizer)
    assert all(torch.equal(a, b) for a, b in zip(model.parameters(), free.parameters(), strict=True))


def test_a_gradient_that_overflows_does_not_reach_a_pruned_weight() -> None:
    model = nn.Linear(2, 1, bias=False)
    optimizer = Adam(model.parameters())
    Hold(model, optimizer, {"weight": torch.tensor([[True, False]])})
    model.weight.grad = torch.tensor([[1.0, float("inf")]])
    optimizer.step()
    assert model.weight[0, 1].item() == 0.0
    assert optimizer.state[model.weight]["exp_avg"][0, 1].item() == 0.0


def test_a_step_with_a_closure_is_held_too() -> None:
    model = nn.Linear(2, 1, bias=False)
    optimizer = SGD(model.parameters(), lr=0.1)
    Hold(model, optimizer, {"weight": torch.tensor([[True, False]])})

    def closure() -> float:
        optimizer.zero_grad()
        loss = model(torch.ones(1, 2)).sum()
        loss.backward()
        return float(loss.detach())

    before = model.weight[0, 0].item()
    assert optimizer.step(closure) == pytest.approx(before)
    assert model.weight.tolist() == [[pytest.approx(before - 0.1), 0.0]]


def test_the_model_stays_what_the_user_wrote() -> None:
    model = network()
    keys, kind = list(model.state_dict()), type(model)
    optimizer = SGD(model.parameters(), lr=0.1, momentum=0.9)
    Hold(model, optimizer, half(model))
    step(model, optimizer)
    copied = copy.deepcopy(model)
    assert (list(model.state_dict()), type(model)) == (keys, kind)
    assert torch.equal(copied(torch.ones(1, 1, 8, 8)), model(torch.ones(1, 1, 8, 8)))


def test_the_zeros_of_a_sparse_model_are_held_when_no_mask_is_given() -> None:
    model = nn.Linear(3, 1)
    model.weight.data.copy_(torch.tensor([[1.0, 0.0, -2.0]]))
    optimizer = SGD(model.parameters(), lr=0.1)
    hold = Hold(model, optimizer)
    model(torch.ones(1, 3)).sum().backward()
    optimizer.step()
    assert model.weight[0, 1].item() == 0.0
    assert hold.masks["weight"].tolist() == [[True, False, True]]


def test_after_detach_the_optimiser_is_free() -> None:
    model = nn.Linear(2, 1, bias=False)
    optimizer = SGD(model.parameters(), lr=0.1)
    Hold(model, optimizer, {"weight": torch.tensor([[True, False]])}).detach()
    model(torch.ones(1, 2)).sum().backward()
    optimizer.step()
    assert model.weight[0, 1].item() == pytest.approx(-0.1)


def test_the_state_dict_brings_the_masks_back() -> None:
    model = network()
    hold = Hold(model, SGD(model.parameters(), lr=0.1), half(model))
    other = network()
    restored = Hold(other, SGD(other.parameters(), lr=0.1))
    restored.load_state_dict(hold.state_dict())
    assert count(restored.masks) == count(hold.masks)
    assert all(torch.equal(mask, hold.masks[name]) for name, mask in restored.masks.items())
    assert all((weight[~hold.masks[name]] == 0).all() for name, weight in prunable(other).items())


def test_masks_of_another_network_are_refused_by_layer() -> None:
    model = nn.Linear(2, 1)
    with pytest.raises(AsniError, match=r"'weight'.*1x2.*1x3"):
        Hold(model, SGD(model.parameters(), lr=0.1), {"weight": torch.ones(1, 3, dtype=torch.bool)})
    masks = {"weight": torch.ones(1, 2, dtype=torch.bool), "head": torch.ones(1, dtype=torch.bool)}
    with pytest.raises(AsniError, match=r"'head'.*missing"):
        Hold(model, SGD(model.parameters(), lr=0.1), masks)


def test_the_gradients_of_one_layer_are_masked_alone() -> None:
    model = network()
    masks = half(model)
    hold = Hold(model, SGD(model.parameters(), lr=0.1), masks)
    for weight in hold.weights.values():
        weight.grad = torch.ones_like(weight)
    first, *others = hold.weights
    hold.mask_gradient(first)
    gradients = {name: weight.grad for name, weight in hold.weights.items() if weight.grad is not None}
    assert torch.equal(gradients[first] != 0, masks[first])
    assert all((gradients[name] == 1).all() for name in others)


def test_channels_last_weights_are_masked_where_they_should_be() -> None:
    model = nn.Conv2d(3, 4, 3).to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    optimizer = SGD(model.parameters(), lr=0.1)
    masks = half(model)
    Hold(model, optimizer, masks)
    assert torch.equal(model.weight != 0, masks["weight"])


@pytest.mark.parametrize("make", OPTIMIZERS.values(), ids=OPTIMIZERS)
def test_weights_and_states_that_are_loaded_are_zero_again_after_the_next_step(
    make: Callable[[Any], Optimizer],
) -> None:
    model = network()
    optimizer = make(model.parameters())
    step(model, optimizer)
    dense = copy.deepcopy((model.state_dict(), optimizer.state_dict()))
    masks = half(model)
    Hold(model, optimizer, masks)
    model.load_state_dict(dense[0])
    step(model, optimizer)
    require_zero(model, optimizer, masks)
    optimizer.load_state_dict(dense[1])
    step(model, optimizer)
    require_zero(model, optimizer, masks)


def test_two_optimisers_share_the_masks_of_a_network() -> None:
    model = network()
    masks = half(model)
    optimizers = [SGD(model[0].parameters(), lr=0.1, momentum=0.9), Adam(model[4].parameters(), lr=0.1)]
    holds = [Hold(model, optimizer, masks) for optimizer in optimizers]
    for _ in range(3):
        model(torch.randn(5, 1, 8, 8)).square().sum().backward()
        for optimizer in optimizers:
            optimizer.step()
            optimizer.zero_grad()
    assert [list(hold.masks) for hold in holds] == [["0.weight"], ["4.weight"]]
    assert all(torch.equal(weight != 0, masks[name]) for name, weight in prunable(model).items())


def test_a_mask_of_any_numbers_lives_where_they_are_not_zero() -> None:
    model = nn.Linear(3, 1)
    values = model.weight.detach().clone()
    Hold(model, SGD(model.parameters(), lr=0.1), {"weight": torch.tensor([[255, 0, 1]], dtype=torch.uint8)})
    assert torch.equal(model.weight, values * torch.tensor([[1.0, 0.0, 1.0]]))
