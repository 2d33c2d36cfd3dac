"""What holds for STR and for continuous sparsification alike, beside the same formula written as a network."""

from collections.abc import Callable, Mapping
from copy import deepcopy
from functools import partial
from io import BytesIO
from itertools import permutations
from math import cos, pi

import pytest
import torch
from torch import Tensor, nn
from torch.func import functional_call
from torch.nn.functional import mse_loss
from torch.optim.lr_scheduler import CosineAnnealingLR

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
    latent = {name: value.detach().clone().requires_grad_() for name, value in pruner.latent.items()}
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
        torch.testing.assert_close(pruner.latent[name].detach(), (left * latent[name] - 0.5 * expected).detach())
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
    assert len(optimizer.state) == len(list(model.parameters()))
    train(model, optimizer, range(3, 6))


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
@pytest.mark.parametrize(("method", "decay"), [("str", 0.1), ("continuous", 0.0)])
def test_the_scores_have_the_weight_decay_of_the_method_and_the_rates_of_their_weights(
    method: str, decay: float, order: tuple[int, int]
) -> None:
    model = nn.Sequential(nn.Linear(6, 8), nn.Linear(8, 2))
    groups = [{"params": model[each].parameters(), "lr": 0.125 * (each + 1), "momentum": 0.5} for each in order]
    optimizer = torch.optim.SGD(groups)
    pruner = METHODS[method](model, optimizer)
    train(model, optimizer, range(1))
    for place in (0, 1):
        [group] = [
            group for group in pruner.inner.param_groups if group["params"][0] is pruner.scores[f"{place}.weight"]
        ]
        assert (group["weight_decay"], group["lr"], group["momentum"]) == (decay, 0.125 * (place + 1), 0.5)


@pytest.mark.parametrize("method", METHODS)
def test_a_layer_without_a_gradient_keeps_its_score(method: str) -> None:
    model, images, labels = network()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
    pruner = METHODS[method](model, optimizer)
    mse_loss(model(images), labels).backward()
    optimizer.step()
    before = {name: score.detach().clone() for name, score in pruner.scores.items()}
    model.zero_grad()
    model.get_submodule("2")(torch.ones(9, 5)).sum().backward()
    optimizer.step()
    assert torch.equal(pruner.scores["0.weight"], before["0.weight"])
    assert not torch.equal(pruner.scores["2.weight"], before["2.weight"])


@ends_early
@pytest.mark.parametrize("optimizer_name", OPTIMIZERS)
@pytest.mark.parametrize("method", METHODS)
def test_it_does_not_change_the_parameter_groups_of_the_optimiser(method: str, optimizer_name: str) -> None:
    model = small_network()
    optimizer = OPTIMIZERS[optimizer_name](model.parameters())
    groups = deepcopy(optimizer.state_dict()["param_groups"])
    pruner = METHODS[method](model, optimizer)
    train(model, optimizer, range(3))
    assert optimizer.state_dict()["param_groups"] == groups
    assert not any(weight in optimizer.state for weight in pruner.weights.values())
    pruner.detach()
    assert optimizer.state_dict()["param_groups"] == groups


@ends_early
@pytest.mark.parametrize("method", METHODS)
def test_a_scheduler_may_be_made_before_or_after_the_pruner(method: str) -> None:
    ends = []
    for scheduler_first in (True, False):
        model = small_network()
        optimizer = OPTIMIZERS["sgd"](model.parameters())
        scheduler = CosineAnnealingLR(optimizer, 10) if scheduler_first else None
        pruner = METHODS[method](model, optimizer)
        scheduler = scheduler or CosineAnnealingLR(optimizer, 10)
        for step in range(3):
            train(model, optimizer, range(step, step + 1))
            assert {group["lr"] for group in pruner.inner.param_groups} == {optimizer.param_groups[0]["lr"]}
            scheduler.step()
        assert optimizer.param_groups[0]["lr"] == pytest.approx(0.05 * (1 + cos(0.3 * pi)) / 2)
        for _ in range(2):
            pruner.detach()
        train(model, optimizer, range(3, 6), lambda _: scheduler.step())  # noqa: B023
        ends.append(model.state_dict())
    assert_same(*ends)


@pytest.mark.parametrize("first", [0, 1])
def test_two_on_one_optimiser_can_be_detached_in_any_order(first: int) -> None:
    model = nn.Sequential(nn.Linear(6, 8), nn.Linear(8, 2))
    optimizer = OPTIMIZERS["sgd"](model.parameters())
    pruners = [STR(model, optimizer, decay=0.1, include=[name]) for name in "01"]
    train(model, optimizer, range(3))
    pruners[first].detach()
    assert len(optimizer.state) == 3
    pruners[1 - first].detach()
    assert len(optimizer.state) == 4


RESUMED: dict[str, Callable[..., Reparameterised]] = {
    "str": partial(STR, decay=10.0),
    "continuous": partial(Continuous, sparsity=0.9, total_steps=40, penalty=1e-3),
}


@pytest.mark.parametrize("optimizer_name", OPTIMIZERS)
@pytest.mark.parametrize(("method", "stop"), [("str", 7), ("continuous", 7), ("continuous", 33)])
def test_resumed_in_any_order_it_ends_with_the_same_bits(method: str, stop: int, optimizer_name: str) -> None:
    model = small_network()
    optimizer = OPTIMIZERS[optimizer_name](model.parameters())
    pruner = RESUMED[method](model, optimizer)
    train(model, optimizer, range(stop))
    file = BytesIO()
    torch.save([each.state_dict() for each in (model, optimizer, pruner)], file)
    train(model, optimizer, range(stop, 40))

    for order in permutations(["make pruner", "load model", "load optimizer", "load pruner"]):
        if order.index("make pruner") > order.index("load pruner"):
            continue
        file.seek(0)
        of_model, of_optimizer, of_pruner = torch.load(file, weights_only=True)
        other = small_network(seed=5)
        other_optimizer = OPTIMIZERS[optimizer_name](other.parameters())
        for action in order:
            match action:
                case "make pruner":
                    other_pruner = RESUMED[method](other, other_optimizer)
                case "load model":
                    other.load_state_dict(of_model)
                case "load optimizer":
                    other_optimizer.load_state_dict(of_optimizer)
                case "load pruner":
                    other_pruner.load_state_dict(of_pruner)
        train(other, other_optimizer, range(stop, 40))
        assert_same(model.state_dict(), other.state_dict())


@pytest.mark.parametrize("order", list(permutations(range(3))))
@pytest.mark.parametrize("method", RESUMED)
def test_a_dense_training_is_continued_sparse_in_any_order(method: str, order: tuple[int, ...]) -> None:
    dense = small_network()
    optimizer = OPTIMIZERS["sgd"](dense.parameters())
    train(dense, optimizer, range(3))
    saved = deepcopy((dense.state_dict(), optimizer.state_dict()))
    RESUMED[method](dense, optimizer)
    train(dense, optimizer, range(3, 43))

    model = small_network(seed=5)
    other = OPTIMIZERS["sgd"](model.parameters())
    actions: list[Callable[[], object]] = [
        lambda: model.load_state_dict(saved[0]),
        lambda: other.load_state_dict(saved[1]),
        lambda: RESUMED[method](model, other),
    ]
    for place in order:
        actions[place]()
    train(model, other, range(3, 43))
    assert_same(dense.state_dict(), model.state_dict())


def test_with_a_threshold_of_zero_it_continues_a_dense_training_and_hands_it_back() -> None:
    dense, sparse = small_network(), small_network()
    optimizer, other = (OPTIMIZERS["sgd"](model.parameters()) for model in (dense, sparse))
    train(dense, optimizer, range(9))
    train(sparse, other, range(3))
    pruner = STR(sparse, other, decay=1e-2, threshold_decay=0.0)
    train(sparse, other, range(3, 6))
    pruner.detach()
    train(sparse, other, range(6, 9))
    assert_same(dense.state_dict(), sparse.state_dict())


@pytest.mark.parametrize("set_to_none", [True, False])
@pytest.mark.parametrize("method", METHODS)
def test_after_a_step_the_gradients_of_the_layers_are_there(method: str, set_to_none: bool) -> None:
    model, images, labels = network()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
    METHODS[method](model, optimizer)
    for _ in range(2):
        loss = mse_loss(model(images), labels)
        expected = torch.autograd.grad(loss, list(model.parameters()), retain_graph=True)
        optimizer.zero_grad(set_to_none=set_to_none)
        loss.backward()
        optimizer.step()
        for parameter, gradient in zip(model.parameters(), expected, strict=True):
            assert parameter.grad is not None
            assert torch.equal(parameter.grad, gradient)


FUSED: dict[str, Callable[..., torch.optim.Optimizer]] = {
    "sgd": partial(torch.optim.SGD, lr=0.05, momentum=0.9, fused=True),
    "adam": partial(torch.optim.Adam, lr=0.01, fused=True),
}


@pytest.mark.parametrize("optimizer_name", FUSED)
@pytest.mark.parametrize("method", RESUMED)
def test_a_step_that_a_gradient_scaler_skips_changes_nothing(method: str, optimizer_name: str) -> None:
    (plain, images, labels), (scaled, *_) = network(), network()
    optimizer, other = (FUSED[optimizer_name](model.parameters()) for model in (plain, scaled))
    for model, each in ((plain, optimizer), (scaled, other)):
        RESUMED[method](model, each)
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0**20)
    for step in range(40):
        optimizer.zero_grad()
        mse_loss(plain(images), labels).backward()
        optimizer.step()
        # Torch's own fused SGD has no momentum buffers to keep if its first step is skipped.
        for factor in (torch.inf, 1.0) if step % 8 == 4 else (1.0,):
            other.zero_grad()
            scaler.scale(factor * mse_loss(scaled(images), labels)).backward()
            scaler.step(other)
            scaler.update()
        assert len(optimizer.state) == len(other.state)
    assert scaler.get_scale() == 2.0**15, "five steps were skipped"
    assert_same(plain.state_dict(), scaled.state_dict())


def assert_same(one: Mapping[str, Tensor], other: Mapping[str, Tensor]) -> None:
    assert one.keys() == other.keys()
    for name, value in one.items():
        assert torch.equal(value, other[name]), name
