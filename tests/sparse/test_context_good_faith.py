"""What a user may do around a block of sparse_training in good faith, and what would then go wrong silently."""

import copy
import gc
import weakref
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.optim import SGD, Adam
from torch.utils.checkpoint import checkpoint

from asni.pruning.hold import Hold
from asni.pruning.layers import prunable
from asni.sparse.loop.context import sparse_training
from tests.sparse.own_loops import batches, convolutions, dense_layers, residual, sparse, step


def living(references: list[weakref.ref[Tensor]]) -> int:
    gc.collect()
    return sum(reference() is not None for reference in references)


@pytest.mark.parametrize("layer", [nn.ReLU(), nn.GELU()], ids=["kernels", "torch"])
def test_batches_are_not_kept(layer: nn.Module) -> None:
    model = sparse(lambda: nn.Sequential(nn.Flatten(), nn.Linear(192, 40), layer, nn.Linear(40, 5)))
    optimizer = SGD(model.parameters(), lr=0.01)
    seen = []
    with sparse_training(model, optimizer):
        for images, labels in batches(6):
            step(model, optimizer, images, labels)
            seen.append(weakref.ref(images))
        del images, labels
        # The kernels may hold the last one until the next forward pass.
        assert living(seen) <= 1


def changed_statistics(model: nn.Module) -> None:
    for module in model.modules():
        if isinstance(module, nn.BatchNorm2d):
            module.track_running_stats = False


def changed_dilation(model: nn.Module) -> None:
    first = model.get_submodule("0")
    assert isinstance(first, nn.Conv2d)
    first.padding, first.dilation = (2, 2), (2, 2)


def turned_weight(model: nn.Module) -> None:
    weight = model.get_parameter("6.weight")
    weight.data = weight.data.flip(0).clone()


@pytest.mark.parametrize("change", [changed_statistics, changed_dilation, turned_weight])
def test_what_is_changed_in_a_module_is_seen(change: Callable[[nn.Module], None]) -> None:
    model = sparse(residual)
    other = copy.deepcopy(model)
    optimizer = SGD(model.parameters(), lr=0.0)
    with sparse_training(model, optimizer) as training:
        for images, labels in batches(3):
            step(model, optimizer, images, labels)
            other(images)
        assert training.sparse_passes
        change(model)
        change(other)
        [(images, _)] = batches(1, seed=1)
        torch.testing.assert_close(model(images), other(images))
    for name, buffer in other.named_buffers():
        torch.testing.assert_close(model.get_buffer(name), buffer)


class Storing(nn.Module):
    """Keeps something of each pass."""

    def __init__(self, store: Callable[[Any, Tensor], None]) -> None:
        super().__init__()
        self.layer, self.store, self.seen, self.passes = nn.Linear(192, 5), store, list[Tensor](), 0

    def forward(self, x: Tensor) -> Tensor:
        self.store(self, x)
        return self.layer(x.flatten(1))  # type: ignore[no-any-return]


@pytest.mark.parametrize(
    ("store", "name"),
    [
        (lambda self, x: setattr(self, "features", x), "features"),
        (lambda self, x: setattr(self, "passes", self.passes + 1), "passes"),
        (lambda self, x: self.seen.append(x), "seen"),
    ],
)
def test_a_forward_that_stores_something_runs_in_torch(
    store: Callable[[Any, Tensor], None], name: str, caplog: pytest.LogCaptureFixture
) -> None:
    model = sparse(lambda: Storing(store))
    optimizer = SGD(model.parameters(), lr=0.01)
    with sparse_training(model, optimizer) as training:
        for images, labels in batches(4):
            step(model, optimizer, images, labels)
    assert (training.sparse_passes, training.dense_passes) == (0, 4)
    assert f"its forward stores {name}, which the kernels do not" in caplog.text


def test_tensors_that_move_are_followed() -> None:
    """Whoever sends a state dict to another process moves its tensors to shared memory."""
    model = sparse(dense_layers)
    other = copy.deepcopy(model)
    ends = []
    for trained, shares in ((model, True), (other, False)):
        optimizer = Adam(trained.parameters(), lr=0.01)
        with sparse_training(trained, optimizer) as training:
            for number, (images, labels) in enumerate(batches(8)):
                step(trained, optimizer, images, labels)
                if shares and number == 4:
                    for state in optimizer.state.values():
                        [each.share_memory_() for each in state.values()]
                    [each.grad.share_memory_() for each in trained.parameters() if each.grad is not None]
        assert training.sparse_passes > 4
        ends.append((trained.state_dict(), optimizer.state_dict()["state"]))
    torch.testing.assert_close(*ends, rtol=0, atol=0)


def test_a_state_of_another_shape_is_an_error_of_torch() -> None:
    model = sparse(dense_layers)
    optimizer = Adam(model.parameters())
    weight = model.get_parameter("1.weight")
    with sparse_training(model, optimizer):
        for images, labels in batches(3):
            step(model, optimizer, images, labels)
        optimizer.state[weight]["exp_avg"] = torch.zeros(10, 192)
        with pytest.raises(RuntimeError, match="size"):
            step(model, optimizer, *next(batches(1)))


def test_masks_of_a_new_pruner_are_used_even_at_the_address_of_the_one_before() -> None:
    model = sparse(dense_layers, 1.0)
    optimizer = SGD(model.parameters(), lr=0.01)

    def one_round(seed: int) -> None:
        torch.manual_seed(seed)
        hold = Hold(model, optimizer, {name: torch.rand_like(each) < 0.1 for name, each in prunable(model).items()})
        for images, labels in batches(3):
            step(model, optimizer, images, labels)
            torch.testing.assert_close(model(images), model.forward(images))
        hold.detach()
        with torch.no_grad():
            for weight in prunable(model).values():
                weight.normal_(0, 0.1)

    with sparse_training(model, optimizer) as training:
        for seed in range(60):
            one_round(seed)
    assert training.sparse_passes


def test_two_models_on_one_optimiser_keep_their_zeros() -> None:
    models = [sparse(dense_layers), sparse(convolutions)]
    zeros = [{name: weight == 0 for name, weight in prunable(each).items()} for each in models]
    optimizer = SGD([weight for each in models for weight in each.parameters()], lr=0.1)
    first, second = models
    with sparse_training(first, optimizer) as one, sparse_training(second, optimizer) as other:
        for images, _ in batches(5):
            optimizer.zero_grad()
            (first(images).square().mean() + second(images).square().mean()).backward()
            optimizer.step()
    assert one.sparse_passes
    assert other.sparse_passes
    for model, pruned in zip(models, zeros, strict=True):
        for name, weight in prunable(model).items():
            assert torch.equal(weight == 0, pruned[name])


def test_a_checkpointed_model_runs_in_torch() -> None:
    model = sparse(convolutions)
    optimizer = SGD(model.parameters(), lr=0.01)
    with sparse_training(model, optimizer) as training:
        for images, _ in batches(3):
            optimizer.zero_grad()
            checkpoint(model, images, use_reentrant=False).sum().backward()
            optimizer.step()
    assert training.sparse_passes == 0


def test_a_graph_of_the_gradients_is_made_and_a_second_derivative_is_refused() -> None:
    model = sparse(dense_layers)
    optimizer = SGD(model.parameters(), lr=0.01)
    with sparse_training(model, optimizer) as training:
        for images, labels in batches(3):
            step(model, optimizer, images, labels)
        passes = training.sparse_passes
        loss = nn.functional.cross_entropy(model(images), labels)
        gradients = torch.autograd.grad(loss, list(model.parameters()), create_graph=True)
        assert training.sparse_passes == passes + 1
        with pytest.raises(RuntimeError, match="once_differentiable"):
            gradients[0].square().sum().backward()
