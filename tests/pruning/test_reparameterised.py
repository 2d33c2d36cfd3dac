"""What holds for STR and for continuous sparsification alike, beside the same formula written as a network."""

from collections.abc import Callable
from functools import partial

import pytest
import torch
from torch import Tensor, nn
from torch.func import functional_call
from torch.nn.functional import mse_loss

from asni.methods.continuous import Continuous
from asni.methods.soft_threshold import STR
from asni.pruning.reparameterised import Reparameterised
from tests.training.training_by_hand import OPTIMIZERS, small_network, train

METHODS: dict[str, Callable[..., Reparameterised]] = {
    "str": partial(STR, decay=0.1, start=-2.0),
    "continuous": partial(Continuous, sparsity=0.5, epochs=1, steps_per_epoch=100, start=0.05, penalty=0.0),
}


def network() -> tuple[nn.Module, Tensor, Tensor]:
    torch.manual_seed(1)
    return nn.Sequential(nn.Linear(4, 5), nn.Tanh(), nn.Linear(5, 2)), torch.randn(9, 4), torch.randn(9, 2)


ends_early = pytest.mark.filterwarnings("ignore:Continuous ended after step 3 of")


@pytest.mark.parametrize("earlier_steps", [0, 3])
@pytest.mark.parametrize("method", METHODS)
def test_a_step_is_the_step_that_autograd_makes_of_the_folded_formula(method: str, earlier_steps: int) -> None:
    model, images, labels = network()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
    pruner = METHODS[method](model, optimizer)

    def step() -> None:
        optimizer.zero_grad()
        torch.autograd.backward(mse_loss(model(images), labels))
        optimizer.step()

    for _ in range(earlier_steps):
        step()
    latent = {name: value.clone().requires_grad_() for name, value in pruner.latent.items()}
    scores = {name: value.detach().clone().requires_grad_() for name, value in pruner.scores.items()}
    folded = {name: pruner.formula(name, latent[name], scores[name]) for name in latent}
    assert any(0 < int((value == 0).sum()) < value.numel() for value in folded.values()) == (method == "str")
    torch.autograd.backward(mse_loss(functional_call(model, folded, images), labels))

    step()
    for name in latent:
        expected, score = latent[name].grad, scores[name].grad
        assert expected is not None
        assert score is not None
        left = 1 - 0.5 * 0.1 if method == "str" else 1.0
        torch.testing.assert_close(pruner.latent[name], (left * latent[name] - 0.5 * expected).detach())
        torch.testing.assert_close(pruner.scores[name].detach(), (left * scores[name] - 0.5 * score).detach())


@pytest.mark.parametrize("optimizer_name", OPTIMIZERS)
@pytest.mark.parametrize("method", METHODS)
def test_the_layers_always_hold_the_folded_weights(method: str, optimizer_name: str) -> None:
    model = small_network()
    keys = list(model.state_dict())
    optimizer = OPTIMIZERS[optimizer_name](model.parameters())
    pruner = METHODS[method](model, optimizer)

    def look(_: int) -> None:
        for name, weight in pruner.weights.items():
            assert torch.equal(weight, pruner.formula(name, pruner.latent[name], pruner.scores[name]))
        assert list(model.state_dict()) == keys

    train(model, optimizer, range(20), look)


@ends_early
@pytest.mark.parametrize("method", METHODS)
def test_detached_it_leaves_the_optimiser_and_the_folded_network_behind(method: str) -> None:
    model = small_network()
    optimizer = OPTIMIZERS["adam"](model.parameters())
    pruner = METHODS[method](model, optimizer)
    train(model, optimizer, range(3))
    folded = {name: value.clone() for name, value in model.state_dict().items()}
    pruner.detach()
    assert all(torch.equal(value, folded[name]) for name, value in model.state_dict().items())
    group, *own = optimizer.param_groups
    assert all(left is right for left, right in zip(group["params"], model.parameters(), strict=True))
    assert not any(each["params"] for each in own)
    assert len(optimizer.state) == len(list(model.parameters()))
    train(model, optimizer, range(3, 6))


@ends_early
@pytest.mark.parametrize("method", METHODS)
def test_it_finds_its_scores_among_groups_that_are_as_long(method: str) -> None:
    model = nn.Sequential(nn.Linear(6, 8, bias=False), nn.Linear(8, 2, bias=False))
    optimizer = OPTIMIZERS["adam"](model.parameters())
    pruner = METHODS[method](model, optimizer)
    train(model, optimizer, range(3))
    pruner.detach()
    group, *_ = optimizer.param_groups
    assert all(left is right for left, right in zip(group["params"], model.parameters(), strict=True))


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
@pytest.mark.parametrize(("method", "decay"), [("str", 0.1), ("continuous", 0.0)])
def test_the_scores_have_the_weight_decay_of_the_method_and_the_rates_of_their_weights(
    method: str, decay: float, order: tuple[int, int]
) -> None:
    model = nn.Sequential(nn.Linear(6, 8), nn.Linear(8, 2))
    groups = [{"params": model[each].parameters(), "lr": 0.125 * (each + 1), "momentum": 0.5} for each in order]
    optimizer = torch.optim.SGD(groups)
    pruner = METHODS[method](model, optimizer)
    for place in (0, 1):
        [group] = [group for group in pruner.score_groups if group["params"][0] is pruner.scores[f"{place}.weight"]]
        assert (group["weight_decay"], group["lr"], group["momentum"]) == (decay, 0.125 * (place + 1), 0.5)


@pytest.mark.parametrize("method", METHODS)
def test_a_layer_without_a_gradient_keeps_its_score(method: str) -> None:
    model, images, labels = network()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
    pruner = METHODS[method](model, optimizer)
    for group in pruner.score_groups:
        group["weight_decay"] = 0.0
    mse_loss(model(images), labels).backward()
    optimizer.step()
    before = {name: score.detach().clone() for name, score in pruner.scores.items()}
    model.zero_grad()
    model.get_submodule("2")(torch.ones(9, 5)).sum().backward()
    optimizer.step()
    assert torch.equal(pruner.scores["0.weight"], before["0.weight"])
    assert not torch.equal(pruner.scores["2.weight"], before["2.weight"])


@ends_early
@pytest.mark.parametrize("method", METHODS)
def test_after_it_is_detached_a_scheduler_continues(method: str) -> None:
    model = small_network()
    optimizer = OPTIMIZERS["sgd"](model.parameters())
    pruner = METHODS[method](model, optimizer)
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 10)
    train(model, optimizer, range(3), lambda _: scheduler.step())
    for _ in range(2):
        pruner.detach()
    train(model, optimizer, range(3, 6), lambda _: scheduler.step())


@pytest.mark.parametrize("first", [0, 1])
def test_two_on_one_optimiser_can_be_detached_in_any_order(first: int) -> None:
    model = nn.Sequential(nn.Linear(6, 8), nn.Linear(8, 2))
    optimizer = OPTIMIZERS["sgd"](model.parameters())
    pruners = [STR(model, optimizer, decay=0.1, include=[name]) for name in "01"]
    train(model, optimizer, range(3))
    pruners[first].detach()
    trained = [each for group in optimizer.param_groups for each in group["params"]]
    assert all(sum(each is parameter for each in trained) == 1 for parameter in model.parameters())
    pruners[1 - first].detach()
    group, *_ = optimizer.param_groups
    assert {id(each) for each in group["params"]} == {id(each) for each in model.parameters()}
    assert len(group["params"]) == 4
