"""Continuous sparsification: the temperature, the penalty on the gates, and the weights that stay."""

from itertools import pairwise

import pytest
import torch

from asni.errors import UsageError
from asni.methods.continuous import Continuous
from asni.pruning.masks import keep_largest
from tests.training.training_by_hand import OPTIMIZERS, alive, small_network, train


def test_the_temperature_rises_from_1_to_200_by_a_constant_factor() -> None:
    model = small_network()
    optimizer = OPTIMIZERS["adam"](model.parameters())
    pruner = Continuous(model, optimizer, sparsity=0.9, epochs=1, steps_per_epoch=20)
    temperatures = [pruner.temperature]
    train(model, optimizer, range(9), lambda step: temperatures.append(pruner.temperature))
    assert temperatures[0] == 1
    assert temperatures[-1] == 200
    ratios = [later / earlier for earlier, later in pairwise(temperatures)]
    assert ratios == pytest.approx([200 ** (1 / 9)] * 9)


@pytest.mark.parametrize("start", [-0.3, 0.0, 0.05])
def test_training_starts_from_the_ungated_network(start: float) -> None:
    model, ungated = small_network(), small_network()
    optimizer = OPTIMIZERS["adam"](model.parameters())
    Continuous(model, optimizer, sparsity=0.9, epochs=1, steps_per_epoch=20, start=start)
    for gated, weight in zip(model.parameters(), ungated.parameters(), strict=True):
        torch.testing.assert_close(gated, weight)


@pytest.mark.parametrize("optimizer_name", OPTIMIZERS)
def test_the_weights_with_the_largest_s_stay_as_their_gates_left_them(optimizer_name: str) -> None:
    model = small_network()
    optimizer = OPTIMIZERS[optimizer_name](model.parameters())
    pruner = Continuous(model, optimizer, sparsity=0.9, epochs=1, steps_per_epoch=20)
    train(model, optimizer, range(9))
    assert alive(model) == 98
    folded = {}

    def fold_by_hand(*_: object) -> None:
        for name, score in pruner.scores.items():
            folded[name] = pruner.formula(name, pruner.latent[name], score).detach()

    optimizer.register_step_post_hook(fold_by_hand)
    train(model, optimizer, range(9, 10))
    masks = keep_largest(pruner.scores, 10, by=lambda score: score)
    assert all(torch.equal(pruner.masks[name], mask) for name, mask in masks.items())
    for name, weight in pruner.weights.items():
        assert torch.equal(weight, torch.where(masks[name], folded[name], 0.0))


@pytest.mark.parametrize("optimizer_name", OPTIMIZERS)
def test_the_rest_of_the_training_tunes_exactly_those_weights(optimizer_name: str) -> None:
    model = small_network()
    optimizer = OPTIMIZERS[optimizer_name](model.parameters())
    pruner = Continuous(model, optimizer, sparsity=0.9, epochs=1, steps_per_epoch=20)
    train(model, optimizer, range(10))
    chosen = pruner.masks
    before = [weight.detach().clone() for weight in pruner.weights.values()]
    train(model, optimizer, range(10, 20))
    assert all(torch.equal(pruner.masks[name], mask) for name, mask in chosen.items())
    assert alive(model) == 10
    assert not all(torch.equal(*pair) for pair in zip(before, pruner.weights.values(), strict=True))


def test_the_penalty_is_the_gradient_of_the_sum_of_the_gates() -> None:
    gates = []
    for penalty in (0.0, 0.5):
        model = small_network()
        optimizer = torch.optim.SGD(model.parameters(), lr=1.0)
        pruner = Continuous(model, optimizer, sparsity=0.9, epochs=1, steps_per_epoch=20, penalty=penalty, start=0.25)
        train(model, optimizer, range(1))
        gates.append(pruner.scores["0.weight"].detach())
    score = torch.full((8, 6), 0.25, requires_grad=True)
    torch.autograd.backward(0.5 * (torch.sigmoid(score) / torch.sigmoid(torch.tensor(0.25))).sum())
    torch.testing.assert_close(gates[0] - gates[1], score.grad)


@pytest.mark.parametrize("search", [0.0, -0.5, 1.5])
def test_a_share_of_the_steps_that_is_none_is_refused(search: float) -> None:
    model = small_network()
    optimizer = OPTIMIZERS["sgd"](model.parameters())
    with pytest.raises(UsageError, match=f"search.*{search}"):
        Continuous(model, optimizer, sparsity=0.9, epochs=1, steps_per_epoch=20, search=search)


def test_a_checkpoint_with_other_gates_is_refused() -> None:
    model = small_network()
    zero, below = (
        Continuous(model, OPTIMIZERS["sgd"](model.parameters()), sparsity=0.5, epochs=1, steps_per_epoch=9, start=start)
        for start in (0.0, -0.01)
    )
    zero.load_state_dict(zero.state_dict())
    with pytest.raises(UsageError, match=r"start is -0\.01 in the state and 0\.0 here"):
        zero.load_state_dict(below.state_dict())
