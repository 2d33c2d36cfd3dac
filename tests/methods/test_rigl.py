"""RigL and SET on a layer of eight weights, and what holds through a whole training."""

from itertools import pairwise
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from asni.errors import UsageError
from asni.methods.rigl import SET, DropAndGrow, RigL
from asni.pruning.layers import prunable
from tests.training.training_by_hand import OPTIMIZERS, alive, small_network, train


def layer_before_its_update(optimizer_name: str, method: type[DropAndGrow] = RigL) -> tuple[Tensor, DropAndGrow]:
    """Eight weights, of which 0, 2, 4 and 6 live; the next step is or has an update that replaces two of them."""
    layer = nn.Linear(8, 1, bias=False)
    optimizer = OPTIMIZERS[optimizer_name](layer.parameters())
    pruner = method(layer, optimizer, sparsity=0.5, epochs=1, steps_per_epoch=100, drop=1.0, every=25, until=0.5)
    pruner.masks = {"weight": torch.tensor([[True, False] * 4])}
    with torch.no_grad():
        layer.weight.copy_(torch.tensor([[1.0, 0.0, -0.125, 0.0, 0.25, 0.0, -2.0, 0.0]]))
    layer.weight.grad = torch.full((1, 8), 0.25)
    pruner.steps = 1
    optimizer.step()  # no update: after it the living weights have momentum
    # RigL's update is step 25, SET's follows the 25th step: half of the cosine, so the drop fraction is 1.0 / 2.
    pruner.steps = 25 if method is RigL else 24
    return layer.weight, pruner


def state(pruner: DropAndGrow, weight: Tensor) -> dict[str, Any]:
    return {key: value for key, value in pruner.optimizer.state[weight].items() if torch.is_tensor(value)}


@pytest.mark.parametrize("optimizer_name", OPTIMIZERS)
def test_it_drops_the_smallest_weights_and_grows_the_largest_dense_gradients(optimizer_name: str) -> None:
    weight, pruner = layer_before_its_update(optimizer_name)
    before = weight.detach().clone()
    weight.grad = torch.tensor([[9.0, 1.0, 0.5, -3.0, 0.5, 2.0, 9.0, 1.0]])
    pruner.optimizer.step()
    # 2 and 4 are dropped. Of the free weights 1, 2, 3, 4, 5 and 7, the gradients of 3 and 5 are the largest.
    assert pruner.masks["weight"].tolist() == [[True, False, False, True, False, True, True, False]]
    assert weight[0, [1, 2, 3, 4, 5, 7]].tolist() == [0.0] * 6
    assert torch.equal(weight[0, [0, 6]], before[0, [0, 6]]), "the update takes the place of the gradient step"
    for value in state(pruner, weight).values():
        if value.shape == weight.shape:
            assert value[0, [1, 2, 3, 4, 5, 7]].tolist() == [0.0] * 6
            assert value[0, [0, 6]].all()


@pytest.mark.parametrize("optimizer_name", OPTIMIZERS)
def test_the_update_is_no_step_of_the_optimiser(optimizer_name: str) -> None:
    weight, pruner = layer_before_its_update(optimizer_name)
    kept = {key: value.clone() for key, value in state(pruner, weight).items()}
    weight.grad = torch.ones(1, 8)
    pruner.optimizer.step()
    for key, value in state(pruner, weight).items():
        living = pruner.masks["weight"] & (weight != 0)
        assert torch.equal(value[living], kept[key][living]) if value.shape == weight.shape else value == kept[key]


def test_a_dropped_weight_may_grow_again_and_then_was_never_away() -> None:
    weight, pruner = layer_before_its_update("sgd")
    before = weight.detach().clone()
    weight.grad = torch.tensor([[9.0, 0.0, 8.0, 0.0, 7.0, 0.0, 9.0, 0.0]])
    pruner.optimizer.step()
    assert torch.equal(weight, before)


@pytest.mark.parametrize("seed", range(4))
def test_set_takes_the_step_and_drops_the_smallest_weights_after_it(seed: int) -> None:
    weight, pruner = layer_before_its_update("sgd", SET)
    pruner.seed = seed
    weight.grad = torch.tensor([[0.0, 9.0, 100.0, 9.0, 0.0, 9.0, 0.0, 9.0]])
    pruner.optimizer.step()
    assert pruner.masks["weight"][0, [2, 6]].all()
    assert (weight[0, [2, 6]] < -1).all(), "before the step, 2 was the smallest"
    assert int(pruner.masks["weight"].sum()) == 4
    for value in (weight, *state(pruner, weight).values()):
        assert value[0, [1, 3, 5, 7]].tolist() == [0.0] * 4, "what grows starts at 0 without momentum"


@pytest.mark.parametrize("fused", [True, False])
@pytest.mark.parametrize(("method", "first"), [(RigL, 0), (SET, 4)])
def test_every_layer_keeps_its_count_and_the_masks_move_until_three_quarters(
    method: type[DropAndGrow], first: int, fused: bool
) -> None:
    """RigL's updates are steps 0, 5, 10, ...; SET's follow the fifth, tenth, ... step, numbers 4, 9, ... from 0."""
    model = small_network()
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01, fused=fused)
    pruner = method(model, optimizer, sparsity=0.6, epochs=4, steps_per_epoch=25, every=5)
    counts = {name: int(mask.sum()) for name, mask in pruner.masks.items()}
    assert sum(counts.values()) == round(98 * 0.4)
    seen, moved = pruner.masks, []

    def look(step: int) -> None:
        nonlocal seen
        masks = pruner.masks
        assert {name: int(mask.sum()) for name, mask in masks.items()} == counts
        assert all(not weight[~masks[name]].any() for name, weight in prunable(model).items())
        if any(not torch.equal(masks[name], seen[name]) for name in masks):
            moved.append(step)
        seen = masks

    train(model, optimizer, range(100), look)
    assert moved[0] == first
    assert set(moved) <= set(range(first, 75, 5)) - {74}
    assert len(moved) > 8


@pytest.mark.parametrize(("method", "replaced"), [(RigL, [0, 5, 10]), (SET, [])])
def test_the_update_of_rigl_replaces_the_step_and_that_of_set_follows_it(
    method: type[DropAndGrow], replaced: list[int]
) -> None:
    model = small_network()
    optimizer = OPTIMIZERS["sgd"](model.parameters())
    method(model, optimizer, sparsity=0.6, epochs=1, steps_per_epoch=20, every=5)
    bias = model.get_parameter("5.bias")
    values = [bias.detach().clone()]
    train(model, optimizer, range(20), lambda _: values.append(bias.detach().clone()))
    assert [step for step, (before, after) in enumerate(pairwise(values)) if torch.equal(before, after)] == replaced


@pytest.mark.parametrize("method", [RigL, SET])
def test_a_layer_that_does_not_train_keeps_its_weights(method: type[DropAndGrow]) -> None:
    model = small_network()
    optimizer = OPTIMIZERS["sgd"](model.parameters())
    frozen = model.get_parameter("3.weight").requires_grad_(False)
    method(model, optimizer, sparsity=0.6, epochs=1, steps_per_epoch=20, every=5)
    before = frozen.clone()
    train(model, optimizer, range(20))
    assert torch.equal(frozen, before)


def test_set_grows_at_random_but_the_same_from_one_seed() -> None:
    grown = []
    for seed in (0, 0, 1, 2):
        weight, pruner = layer_before_its_update("sgd", SET)
        pruner.seed = seed
        weight.grad = torch.tensor([[9.0, 1.0, 0.5, -3.0, 0.5, 2.0, 9.0, 1.0]])
        pruner.optimizer.step()
        grown.append(pruner.masks["weight"].tolist())
    assert grown[0] == grown[1]
    assert len({str(mask) for mask in grown}) > 1


def test_the_published_constants() -> None:
    model = small_network()
    optimizer = OPTIMIZERS["sgd"](model.parameters())
    pruner = RigL(model, optimizer, sparsity=0.9, epochs=50, steps_per_epoch=1000)
    assert (pruner.every, pruner.end, pruner.drop) == (100, 37_500, 0.3)
    assert alive(model) == 10


def test_a_share_that_is_no_share_is_refused() -> None:
    model = small_network()
    with pytest.raises(UsageError, match=r"drop \(30\)"):
        RigL(model, OPTIMIZERS["sgd"](model.parameters()), sparsity=0.9, epochs=1, steps_per_epoch=1, drop=30)


def test_between_two_updates_of_rigl_there_is_a_gradient_step() -> None:
    layer = nn.Linear(4, 1)
    optimizer = torch.optim.SGD(layer.parameters(), lr=0.1)
    RigL(layer, optimizer, sparsity=0.5, epochs=1, steps_per_epoch=8)
    biases = [layer.bias.item()]
    for _ in range(8):
        layer(torch.ones(1, 4)).sum().backward()
        optimizer.step()
        biases.append(layer.bias.item())
        optimizer.zero_grad()
    moved = [after != before for before, after in pairwise(biases)]
    assert moved == [False, True, False, True, False, True, True, True]


def test_an_update_of_rigl_in_every_step_is_refused() -> None:
    model = small_network()
    with pytest.raises(UsageError, match=r"every.* 2, not 1"):
        RigL(model, OPTIMIZERS["sgd"](model.parameters()), sparsity=0.9, epochs=1, steps_per_epoch=9, every=1)
