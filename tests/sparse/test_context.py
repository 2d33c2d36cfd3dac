"""A user's loop in a block of sparse_training trains as it would without it."""

import copy
import math
from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy
from torch.optim import SGD, Adam, AdamW, Optimizer, RMSprop

import asni
from asni.methods.asni import ASNI
from asni.methods.rigl import SET, RigL
from asni.methods.soft_threshold import STR
from asni.pruning.foreign_steps import pruners_of
from asni.pruning.hold import Hold
from asni.pruning.layers import prunable
from asni.sparse.loop.context import sparse_training
from tests.sparse.own_loops import (
    BATCH,
    NETWORKS,
    batches,
    both,
    convolutions,
    dense_layers,
    masks_of,
    plain_loop,
    require_close,
    residual,
    sparse,
    step,
)

DRIFT = 2e-4
"""By how much of its largest number a tensor may differ after some steps, in which rounding errors grow."""

Make = Callable[[Any], Optimizer]
OPTIMIZERS: dict[str, Make] = {
    "sgd": lambda p: SGD(p, lr=0.05),
    "nesterov": lambda p: SGD(p, lr=0.02, momentum=0.9, nesterov=True, weight_decay=0.01),
    "nesterov fused": lambda p: SGD(p, lr=0.02, momentum=0.9, nesterov=True, weight_decay=0.01, fused=True),
    "adam": lambda p: Adam(p, lr=0.003, weight_decay=0.01),
    "adam fused": lambda p: Adam(p, lr=0.003, fused=True),
    "adamw foreach": lambda p: AdamW(p, lr=0.003, foreach=True),
    "amsgrad": lambda p: Adam(p, lr=0.003, amsgrad=True),
    "rmsprop": lambda p: RMSprop(p, lr=0.0003),
}


def require_same(found: tuple[Any, ...], tolerance: float = DRIFT) -> None:
    model, optimizer, other, optimizer_of_other, _ = found
    require_close(other.state_dict(), model.state_dict(), tolerance)
    require_close(optimizer_of_other.state_dict(), optimizer.state_dict(), tolerance)


@pytest.mark.parametrize("make", NETWORKS.values(), ids=NETWORKS)
def test_gradients_are_those_of_float64(make: Callable[[], nn.Module]) -> None:
    model = sparse(make)
    held = {name: weight != 0 for name, weight in prunable(model).items()}
    optimizer = SGD(model.parameters(), lr=0.01)
    with sparse_training(model, optimizer) as training:
        for images, labels in batches(3):
            exact = copy.deepcopy(model).double()
            cross_entropy(exact(images.double()), labels).backward()
            loss = step(model, optimizer, images, labels)
            torch.testing.assert_close(loss.double(), cross_entropy(exact(images.double()), labels), rtol=1e-5, atol=0)
            for name, parameter in model.named_parameters():
                gradient = exact.get_parameter(name).grad
                assert gradient is not None
                assert parameter.grad is not None
                if name in held:
                    gradient *= held[name]
                    assert not parameter.grad[~held[name]].any()
                require_close(parameter.grad, gradient, 1e-5)
    assert (training.dense_passes, training.sparse_passes) == (1, 2)


@pytest.mark.parametrize("make", NETWORKS.values(), ids=NETWORKS)
@pytest.mark.parametrize("optimizer", OPTIMIZERS.values(), ids=OPTIMIZERS)
def test_every_optimiser_ends_with_the_same_weights_and_the_same_state(
    make: Callable[[], nn.Module], optimizer: Make
) -> None:
    found = both(sparse(make), optimizer)
    require_same(found)
    assert (found[-1].dense_passes, found[-1].sparse_passes) == (1, 9)


def accumulating(model: nn.Module, optimizer: Optimizer) -> None:
    for number, (images, labels) in enumerate(batches(12)):
        (cross_entropy(model(images), labels) / 3).backward()
        if number % 3 == 2:
            optimizer.step()
            optimizer.zero_grad(set_to_none=number % 2 == 0)


def clipping(model: nn.Module, optimizer: Optimizer) -> None:
    for images, labels in batches(10):
        loss = cross_entropy(model(images), labels)
        optimizer.zero_grad()
        loss.backward()
        # In the block pruned weights have no gradients; without it they do until the step.
        (pruner,) = pruners_of(optimizer)
        pruner.mask_gradients()
        nn.utils.clip_grad_norm_(model.parameters(), 0.1)
        optimizer.step()


def scheduled(model: nn.Module, optimizer: Optimizer) -> None:
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 10)
    for images, labels in batches(10):
        step(model, optimizer, images, labels)
        scheduler.step()


def ragged(model: nn.Module, optimizer: Optimizer) -> None:
    for items in (BATCH, BATCH, 7, BATCH, 1, 2 * BATCH + 1, BATCH):
        for images, labels in batches(1, items, items):
            step(model, optimizer, images, labels)


def with_closure(model: nn.Module, optimizer: Optimizer) -> None:
    for images, labels in batches(10):

        def closure(images: Tensor = images, labels: Tensor = labels) -> Tensor:
            optimizer.zero_grad()
            loss = cross_entropy(model(images), labels)
            loss.backward()
            return loss

        optimizer.step(closure)  # type: ignore[arg-type]


def scaled(model: nn.Module, optimizer: Optimizer) -> None:
    scaler = torch.amp.GradScaler("cpu", init_scale=4.0)
    for number, (images, labels) in enumerate(batches(10)):
        optimizer.zero_grad()
        loss = cross_entropy(model(images), labels)
        scaler.scale(loss * math.inf if number == 4 else loss).backward()
        scaler.step(optimizer)
        scaler.update()


def with_a_hook_on_gradients(model: nn.Module, optimizer: Optimizer) -> None:
    def halve(*_: Any) -> None:
        for parameter in model.parameters():
            parameter.grad = None if parameter.grad is None else parameter.grad / 2

    for number, (images, labels) in enumerate(batches(10)):
        if number == 3:
            handle = optimizer.register_step_pre_hook(halve)
        step(model, optimizer, images, labels)
    handle.remove()


def two_backward_passes(model: nn.Module, optimizer: Optimizer) -> None:
    for images, labels in batches(10):
        logits = model(images)
        optimizer.zero_grad()
        cross_entropy(logits, labels).backward(retain_graph=True)
        logits.square().mean().backward()
        optimizer.step()


def a_pass_between_two_backward_passes(model: nn.Module, optimizer: Optimizer) -> None:
    for images, labels in batches(10):
        loss = cross_entropy(model(images), labels)
        optimizer.zero_grad()
        loss.backward(retain_graph=True)
        cross_entropy(model(-images), labels).backward()
        loss.backward()
        optimizer.step()
        del loss


def two_forward_passes(model: nn.Module, optimizer: Optimizer) -> None:
    for images, labels in batches(10):
        first, second = model(images), model(images + 1)
        optimizer.zero_grad()
        (cross_entropy(first, labels) + cross_entropy(second, labels)).backward()
        optimizer.step()


def penalised(model: nn.Module, optimizer: Optimizer) -> None:
    """The gradients of two losses are held side by side."""
    for images, labels in batches(10):
        parameters = list(model.parameters())
        ours = torch.autograd.grad(cross_entropy(model(images), labels), parameters)
        others = torch.autograd.grad(cross_entropy(model(-images), labels), parameters)
        for parameter, one, other in zip(parameters, ours, others, strict=True):
            parameter.grad = one - other / 2
        optimizer.step()


def freezing(model: nn.Module, optimizer: Optimizer) -> None:
    bias = list(model.parameters())[-1]
    for number, (images, labels) in enumerate(batches(10)):
        bias.requires_grad = number < 5
        step(model, optimizer, images, labels)


def loading(model: nn.Module, optimizer: Optimizer) -> None:
    start = copy.deepcopy(model.state_dict())
    for number, (images, labels) in enumerate(batches(10)):
        if number == 5:
            model.load_state_dict(start)
        step(model, optimizer, images, labels)


def adding_noise(model: nn.Module, optimizer: Optimizer) -> None:
    """Somebody else writes to gradients before a step, and to weights after it."""
    torch.manual_seed(1)
    for number, (images, labels) in enumerate(batches(10)):
        optimizer.zero_grad()
        cross_entropy(model(images), labels).backward()
        with torch.no_grad():
            for parameter in model.parameters():
                assert parameter.grad is not None
                parameter.grad.add_(0.1 * torch.rand_like(parameter))
            optimizer.step()
            for parameter in model.parameters():
                changed = parameter * (1 + 0.01 * torch.rand_like(parameter))
                if number % 2:
                    parameter.copy_(changed)
                else:
                    parameter.data = changed


def masking_anew(model: nn.Module, optimizer: Optimizer) -> None:
    """The user changes the masks, and has a pass run in torch before the next step."""
    (pruner,) = pruners_of(optimizer)
    assert isinstance(pruner, Hold)
    for number, (images, labels) in enumerate(batches(10)):
        hook = model.get_submodule("1").register_forward_hook(lambda *_: None) if number == 5 else None
        if hook is not None:
            pruner.masks = {name: mask.flip(0) for name, mask in pruner.masks.items()}
        step(model, optimizer, images, labels)
        if hook is not None:
            hook.remove()


LOOPS = (
    accumulating, clipping, scheduled, ragged, with_closure, scaled, with_a_hook_on_gradients, two_backward_passes,
    a_pass_between_two_backward_passes, two_forward_passes, penalised, freezing, loading, adding_noise, masking_anew,
)  # fmt: skip


@pytest.mark.parametrize("make", [dense_layers, residual])
@pytest.mark.parametrize("loop", LOOPS, ids=lambda loop: loop.__name__)
def test_every_loop_ends_with_the_same_weights(make: Callable[[], nn.Module], loop: Callable[..., None]) -> None:
    if make is residual and loop is ragged:
        pytest.skip("torch refuses a batch norm on one value per channel")
    # So sparse that the optimiser goes from nonzero to nonzero.
    found = both(sparse(make, 0.025), OPTIMIZERS["nesterov"], loop)
    require_same(found)
    assert found[-1].sparse_passes >= 3


def test_weights_in_channels_last_stay_so() -> None:
    def loop(model: nn.Module, optimizer: Optimizer) -> None:
        for images, labels in batches(10):
            step(model, optimizer, images.contiguous(memory_format=torch.channels_last), labels)

    model = sparse(convolutions).to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    found = both(model, OPTIMIZERS["adam"], loop)
    require_same(found)
    assert found[-1].sparse_passes == 9


@pytest.mark.parametrize("fused", [True, False])
def test_a_gradient_scaler_works_with_fused_optimisers_and_others(fused: bool) -> None:
    found = both(sparse(convolutions), lambda p: Adam(p, lr=0.003, fused=fused), scaled)
    require_same(found)
    assert found[-1].sparse_passes >= 8


def test_several_threads_train_the_same() -> None:
    before = torch.get_num_threads()
    try:
        torch.set_num_threads(2)
        found = both(sparse(residual), OPTIMIZERS["adam"])
    finally:
        torch.set_num_threads(before)
    require_same(found)
    assert found[-1].sparse_passes == 9


def test_the_optimiser_may_also_train_what_is_not_in_the_model() -> None:
    ends = []
    for is_sparse in (False, True):
        model, scale = sparse(dense_layers), nn.Parameter(torch.ones(()))
        optimizer = SGD([*model.parameters(), scale], lr=0.1, momentum=0.9)
        hold = Hold(model, optimizer)
        with sparse_training(model, optimizer) if is_sparse else nullcontext():
            for images, labels in batches(6):
                optimizer.zero_grad()
                cross_entropy(model(images) * scale, labels).backward()
                optimizer.step()
        hold.detach()
        ends.append([*model.parameters(), scale])
    require_close(ends[1], ends[0], DRIFT)
    assert ends[1][-1].item() != 1


def test_drop_out_leaves_out_the_same_values_in_a_second_backward_pass() -> None:
    model = nn.Sequential(nn.Flatten(), nn.Linear(192, 64), nn.Dropout(0.5), nn.Linear(64, 5))
    optimizer = SGD(model.parameters(), lr=0.0)
    hold = Hold(model, optimizer, masks_of(model))
    with sparse_training(model, optimizer) as training:
        for images, labels in batches(2):
            step(model, optimizer, images, labels)
        loss, parameters = model(images).square().sum(), list(model.parameters())
        first = torch.autograd.grad(loss, parameters, retain_graph=True)
        assert training.sparse_passes == 2
        model(images).sum().backward()
        second = torch.autograd.grad(loss, parameters)
    for once, again in zip(first, second, strict=True):
        torch.testing.assert_close(again, once)
    hold.detach()


def test_a_gradient_that_was_spoilt_does_not_come_back() -> None:
    model = sparse(dense_layers)
    optimizer = SGD(model.parameters(), lr=0.0)
    with sparse_training(model, optimizer):
        for images, labels in batches(6):
            optimizer.zero_grad()
            cross_entropy(model(images), labels).backward()
            for parameter in model.parameters():
                assert parameter.grad is not None
                assert parameter.grad.isfinite().all()
            optimizer.step()
            for parameter in model.parameters():
                assert parameter.grad is not None
                parameter.grad.mul_(math.nan)


def test_gradients_that_the_user_keeps_stay_as_they_are() -> None:
    model = sparse(dense_layers)
    optimizer = SGD(model.parameters(), lr=0.1)
    kept: list[tuple[Tensor, Tensor]] = []
    with sparse_training(model, optimizer):
        for images, labels in batches(4):
            step(model, optimizer, images, labels)
            gradient = next(model.parameters()).grad
            assert gradient is not None
            kept.append((gradient, gradient.clone()))
    assert all(torch.equal(gradient, then) for gradient, then in kept)


def test_hooks_on_the_gradients_of_parameters_are_called() -> None:
    model = sparse(dense_layers)
    optimizer = SGD(model.parameters(), lr=0.1)
    weight = model.get_parameter("1.weight")
    calls: list[str] = []
    weight.register_hook(lambda gradient: calls.append("before"))
    weight.register_post_accumulate_grad_hook(lambda parameter: calls.append("after"))
    with sparse_training(model, optimizer):
        for images, labels in batches(3):
            step(model, optimizer, images, labels)
    assert calls == ["before", "after"] * 3


@pytest.mark.parametrize("method", [ASNI, RigL, SET])
def test_a_pruner_in_the_block_prunes_the_same_weights(method: Callable[..., Any]) -> None:
    def loop(model: nn.Module, optimizer: Optimizer) -> None:
        for images, labels in batches(60):
            step(model, optimizer, images, labels)

    def pruner(model: nn.Module, optimizer: Optimizer) -> Any:
        return method(model, optimizer, sparsity=0.9, total_steps=60, every=20)

    torch.manual_seed(0)
    found = both(dense_layers(), lambda p: SGD(p, lr=0.01, momentum=0.9), loop, pruner)
    for weight, other in zip(prunable(found[0]).values(), prunable(found[2]).values(), strict=True):
        assert torch.equal(weight == 0, other == 0)
    require_same(found, 1e-3)
    assert found[-1].sparse_passes >= 20


def test_a_method_that_trains_pruned_weights_trains_as_before(caplog: pytest.LogCaptureFixture) -> None:
    def pruner(model: nn.Module, optimizer: Optimizer) -> STR:
        return STR(model, optimizer, decay=1e-4)

    torch.manual_seed(0)
    found = both(dense_layers(), OPTIMIZERS["sgd"], pruner=pruner)
    require_close(found[2].state_dict(), found[0].state_dict(), 0.0)
    assert found[-1].sparse_passes == 0
    assert "sparse_training runs dense kernels: STR needs the gradients of pruned weights." in caplog.messages


def test_without_a_pruner_the_zeros_stay_zero_and_nothing_is_left_behind() -> None:
    model = sparse(dense_layers)
    optimizer = SGD(model.parameters(), lr=0.1, momentum=0.9)
    zeros = {name: weight == 0 for name, weight in prunable(model).items()}
    with sparse_training(model, optimizer) as training:
        plain_loop(model, optimizer)
    assert training.sparse_passes == 9
    assert all(not model.get_parameter(name)[zero].any() for name, zero in zeros.items())
    assert not optimizer._optimizer_step_pre_hooks
    assert not optimizer._optimizer_step_post_hooks
    assert "_compiled_call_impl" not in vars(model)


def test_a_checkpoint_of_the_block_continues_without_it() -> None:
    model = sparse(residual)
    make = OPTIMIZERS["adam"]
    optimizer = make(model.parameters())
    with sparse_training(model, optimizer):
        for number, (images, labels) in enumerate(batches(10)):
            if number == 5:
                states = copy.deepcopy((model.state_dict(), optimizer.state_dict()))
            step(model, optimizer, images, labels)
    resumed = residual()
    optimizer_of_resumed = make(resumed.parameters())
    resumed.load_state_dict(states[0])
    optimizer_of_resumed.load_state_dict(states[1])
    hold = Hold(resumed, optimizer_of_resumed)
    for images, labels in list(batches(10))[5:]:
        step(resumed, optimizer_of_resumed, images, labels)
    hold.detach()
    require_close(resumed.state_dict(), model.state_dict(), DRIFT)
    require_close(optimizer_of_resumed.state_dict(), optimizer.state_dict(), DRIFT)


def test_gradients_that_are_written_through_data_are_masked() -> None:
    model = nn.Sequential(nn.Linear(64, 100), nn.ReLU(), nn.Linear(100, 10))
    optimizer = torch.optim.Adam(model.parameters())
    hold = asni.Hold(model, optimizer, asni.keep_largest(asni.prunable(model), keep=700))
    with asni.sparse_training(model, optimizer) as training:
        for _ in range(4):
            optimizer.zero_grad()
            model(torch.rand(60, 64)).square().mean().backward()
            for parameter in model.parameters():
                assert parameter.grad is not None
                parameter.grad.data.add_(0.01)
            optimizer.step()
    assert training.sparse_passes == 3
    assert sum(int((weight != 0).sum()) for weight in hold.weights.values()) == 700


def test_a_backward_pass_after_a_change_of_the_weights_is_refused() -> None:
    model = nn.Sequential(nn.Linear(64, 100), nn.ReLU(), nn.Linear(100, 10))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    asni.Hold(model, optimizer, asni.keep_largest(asni.prunable(model), keep=700))
    with asni.sparse_training(model, optimizer) as training:
        for _ in range(2):
            loss = model(torch.rand(60, 64)).square().mean()
            loss.backward()
            optimizer.step()
        loss = model(torch.rand(60, 64)).square().mean()
        with torch.no_grad():
            model.get_parameter("0.weight").mul_(2.0)
        with pytest.raises(RuntimeError, match="modified by an inplace operation"):
            loss.backward()
    assert training.sparse_passes == 2
