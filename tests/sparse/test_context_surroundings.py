"""Whoever looks into a block of sparse_training finds a plain model, a plain optimiser, and the current values."""

import copy
import io
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy
from torch.optim import SGD, Adam

from asni.errors import SparsityWarning, UsageError
from asni.pruning.hold import Hold
from asni.pruning.layers import prunable
from asni.sparse.loop.context import SparseTraining, sparse_training
from tests.pruning.processes import failures
from tests.sparse.own_loops import (
    SHAPE,
    batches,
    convolutions,
    dense_layers,
    plain_loop,
    require_close,
    residual,
    sparse,
    step,
)


def require_plain(model: nn.Module, like: nn.Module) -> None:
    """A model of the same class with the same values, which trains in torch."""
    assert type(model) is type(like)
    assert "_compiled_call_impl" not in vars(model)
    assert model.state_dict().keys() == like.state_dict().keys()
    for key, value in like.state_dict().items():
        assert torch.equal(model.state_dict()[key], value)
    assert not isinstance(model(torch.zeros(2, *SHAPE)).grad_fn, torch.autograd.function.BackwardCFunction)


def saved_and_loaded(model: nn.Module) -> nn.Module:
    file = io.BytesIO()
    torch.save(model, file)
    file.seek(0)
    found: nn.Module = torch.load(file, weights_only=False)
    return found


@pytest.mark.parametrize("copied", [copy.deepcopy, copy.copy, saved_and_loaded])
def test_copies_and_files_of_the_model_are_plain_and_current(copied: Callable[[nn.Module], nn.Module]) -> None:
    model = sparse(residual)
    optimizer = Adam(model.parameters())
    with sparse_training(model, optimizer) as training:
        for images, labels in batches(3):
            step(model, optimizer, images, labels)
            require_plain(copied(model), model)
        assert training.sparse_passes == 2
    require_plain(model, model)


def test_the_optimiser_holds_the_current_state_in_the_form_of_torch() -> None:
    model = sparse(dense_layers)
    optimizer = Adam(model.parameters())
    with sparse_training(model, optimizer):
        for number, (images, labels) in enumerate(batches(4)):
            step(model, optimizer, images, labels)
            state = optimizer.state_dict()["state"]
            assert [int(each["step"]) for each in state.values()] == [number + 1] * 6
            assert all(each["exp_avg"].any() for each in state.values())
            with pytest.warns(SparsityWarning, match="this copy of an optimizer does not have the Hold"):
                other = copy.deepcopy(optimizer)
            require_close(other.state_dict(), optimizer.state_dict(), 0.0)


def in_evaluation_mode(model: nn.Module, images: Tensor) -> Tensor:
    model.eval()
    found: Tensor = model(images)
    model.train()
    return found


def without_gradients(model: nn.Module, images: Tensor) -> Tensor:
    with torch.no_grad():
        found: Tensor = model(images)
    return found


def in_inference_mode(model: nn.Module, images: Tensor) -> Tensor:
    with torch.inference_mode():
        found: Tensor = model(images)
    return found.clone()


def in_bfloat16(model: nn.Module, images: Tensor) -> Tensor:
    with torch.autocast("cpu", torch.bfloat16):
        found: Tensor = model(images)
    return found


def by_keyword(model: nn.Module, images: Tensor) -> Tensor:
    found: Tensor = model(input=images)
    return found


def with_a_gradient_of_the_images(model: nn.Module, images: Tensor) -> Tensor:
    images = images.clone().requires_grad_()
    (found,) = torch.autograd.grad(model(images).square().sum(), images)
    return found


def with_other_weights(model: nn.Module, images: Tensor) -> Tensor:
    other = {name: parameter * 2 for name, parameter in model.named_parameters()}
    found: Tensor = torch.func.functional_call(model, other, (images,))
    return found


def each_by_itself(model: nn.Module, images: Tensor) -> Tensor:
    found: Tensor = torch.vmap(lambda image: model(image[None])[0])(images)
    return found


def by_forward(model: nn.Module, images: Tensor) -> Tensor:
    found: Tensor = model.forward(images)
    return found


def compiled(model: nn.Module, images: Tensor) -> Tensor:
    torch.compiler.reset()
    found: Tensor = torch.compile(model, backend="eager")(images)
    return found


def in_a_block_of_checkpoints(model: nn.Module, images: Tensor) -> Tensor:
    found: Tensor = torch.utils.checkpoint.checkpoint(model, images, use_reentrant=False)
    return found


CALLS = (
    in_evaluation_mode, without_gradients, in_inference_mode, in_bfloat16, by_keyword, with_a_gradient_of_the_images,
    with_other_weights, each_by_itself, by_forward, compiled, in_a_block_of_checkpoints,
)  # fmt: skip


@pytest.mark.parametrize("call", CALLS, ids=lambda call: call.__name__)
def test_other_calls_of_the_model_are_those_of_torch(call: Callable[[nn.Module, Tensor], Tensor]) -> None:
    model = sparse(convolutions)
    optimizer = SGD(model.parameters(), lr=0.1)
    with sparse_training(model, optimizer) as training:
        for images, labels in batches(4):
            wanted = call(copy.deepcopy(model), images)
            torch.testing.assert_close(call(model, images), wanted)
            step(model, optimizer, images, labels)
    assert training.sparse_passes >= 2


def test_images_of_another_shape_run_in_torch_until_they_stay() -> None:
    model = nn.Sequential(nn.Conv2d(3, 16, 3), nn.ReLU(), nn.AdaptiveAvgPool2d(2), nn.Flatten(), nn.Linear(64, 5))
    model.get_parameter("0.weight").data[1:] = 0
    optimizer = SGD(model.parameters(), lr=0.1)
    passes = []
    with sparse_training(model, optimizer) as training:
        for size in (8, 8, 8, 6, 8, 6, 6, 6):
            images = torch.randn(12, 3, size, size)
            wanted = copy.deepcopy(model)(images)
            logits = model(images)
            torch.testing.assert_close(logits, wanted)
            logits.sum().backward()
            optimizer.step()
            passes.append(training.sparse_passes)
    assert passes == [0, 1, 2, 2, 3, 3, 4, 5]


def test_a_hook_on_a_layer_sees_its_values(caplog: pytest.LogCaptureFixture) -> None:
    model = sparse(dense_layers)
    optimizer = SGD(model.parameters(), lr=0.1)
    seen: list[Tensor] = []
    with sparse_training(model, optimizer) as training:
        for number, (images, labels) in enumerate(batches(8)):
            if number == 4:
                handle = model.get_submodule("1").register_forward_hook(lambda *values: seen.append(values[-1]))
            step(model, optimizer, images, labels)
        handle.remove()
    assert (len(seen), training.sparse_passes) == (4, 3)
    told = [line for line in caplog.messages if "sparse_training" in line]
    assert told == ["sparse_training runs dense kernels: a hook on 1 needs to see its values."]


def test_a_hook_of_the_optimiser_reads_the_weights_before_and_after_each_step() -> None:
    model = sparse(dense_layers)
    optimizer = SGD(model.parameters(), lr=0.1)
    weight = model.get_parameter("1.weight")
    seen: list[tuple[Tensor, Tensor | None]] = []

    def look(*_: Any) -> None:
        seen.append((weight.detach().clone(), None if weight.grad is None else weight.grad.clone()))

    hold = Hold(model, optimizer)
    optimizer.register_step_pre_hook(look)
    optimizer.register_step_post_hook(look)
    with sparse_training(model, optimizer):
        for images, labels in batches(4):
            before = weight._version
            step(model, optimizer, images, labels)
            assert weight._version > before
    for (earlier, gradient), (later, same_gradient) in zip(seen[::2], seen[1::2], strict=True):
        assert gradient is not None
        assert same_gradient is not None
        assert torch.equal(gradient, same_gradient)
        torch.testing.assert_close(later, earlier - 0.1 * gradient)
    hold.detach()


def test_a_drop_out_that_is_changed_is_changed() -> None:
    model = nn.Sequential(nn.Flatten(), nn.Linear(192, 64), nn.Dropout(0.5), nn.Linear(64, 5))
    model.get_parameter("1.weight").data[8:] = 0
    optimizer = SGD(model.parameters(), lr=0.0)
    drop_out = model.get_submodule("2")
    with sparse_training(model, optimizer) as training:
        for images, labels in batches(3):
            step(model, optimizer, images, labels)
        assert not torch.equal(model(images), model(images))
        drop_out.p = 0.0  # type: ignore[assignment]
        for _ in range(3):
            torch.testing.assert_close(model(images), model.eval()(images))
            model.train()
        assert training.sparse_passes >= 4


def test_layers_that_are_exchanged_are_used() -> None:
    model = sparse(dense_layers)
    optimizer = SGD(model.parameters(), lr=0.1)
    with sparse_training(model, optimizer):
        for images, labels in batches(3):
            step(model, optimizer, images, labels)
        model[5] = nn.Linear(30, 5)  # type: ignore[operator]
        for _ in range(2):
            torch.testing.assert_close(model(images), copy.deepcopy(model)(images))


@pytest.mark.parametrize(
    ("layer", "why"),
    [
        (nn.Sigmoid(), "1: aten.sigmoid"),
        (nn.LSTM(192, 4), ""),
    ],
    ids=["an activation", "a recurrent layer"],
)
def test_a_network_that_the_kernels_cannot_train_trains_in_torch_and_one_line_says_why(
    layer: nn.Module, why: str, caplog: pytest.LogCaptureFixture
) -> None:
    class Head(nn.Module):
        def forward(self, x: Any) -> Any:
            return x[0] if isinstance(x, tuple) else x

    model = nn.Sequential(nn.Flatten(), layer, Head(), nn.LazyLinear(5))
    model(torch.zeros(2, *SHAPE))
    for weight in prunable(model).values():
        weight.data[:, 1:] = 0
    optimizer = SGD(model.parameters(), lr=0.1)
    other = copy.deepcopy(model)
    optimizer_of_other = SGD(other.parameters(), lr=0.1)
    with sparse_training(model, optimizer) as training:
        plain_loop(model, optimizer)
    hold = Hold(other, optimizer_of_other)
    plain_loop(other, optimizer_of_other)
    hold.detach()
    require_close(model.state_dict(), other.state_dict(), 1e-6)
    assert (training.sparse_passes, training.dense_passes) == (0, 10)
    told = [line for line in caplog.messages if "sparse_training" in line]
    assert len(told) == 1
    assert why in told[0]


def test_a_dense_network_trains_in_torch(caplog: pytest.LogCaptureFixture) -> None:
    model = dense_layers()
    optimizer = SGD(model.parameters(), lr=0.1)
    with sparse_training(model, optimizer) as training:
        plain_loop(model, optimizer)
    assert training.sparse_passes == 0
    assert "sparse_training runs dense kernels: sparse kernels would be 0." in caplog.text


def test_an_error_in_the_block_leaves_everything_as_it_was() -> None:
    model = sparse(dense_layers)
    optimizer = SGD(model.parameters(), lr=0.1)
    with suppress(ZeroDivisionError), sparse_training(model, optimizer):
        plain_loop(model, optimizer)
        raise ZeroDivisionError
    require_plain(model, model)
    assert not optimizer._optimizer_step_pre_hooks
    plain_loop(model, optimizer)


def test_a_block_in_a_block_of_the_same_model_is_refused() -> None:
    model = sparse(dense_layers)
    optimizer = SGD(model.parameters(), lr=0.1)
    with sparse_training(model, optimizer):
        with pytest.raises(UsageError, match="this model is already in a block of sparse_training"):
            sparse_training(model, optimizer).__enter__()
        plain_loop(model, optimizer)
    require_plain(model, model)


def test_what_is_no_model_and_no_optimiser_is_refused() -> None:
    model = sparse(dense_layers)
    with pytest.raises(UsageError, match=r"model must be a torch\.nn\.Module, not int"):
        sparse_training(1, SGD(model.parameters()))  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="optimizer must be an optimizer of torch, not Sequential"):
        sparse_training(model, model)  # type: ignore[arg-type]


def test_the_block_shows_what_ran() -> None:
    model = sparse(dense_layers)
    optimizer = SGD(model.parameters(), lr=0.1)
    with sparse_training(model, optimizer) as training:
        plain_loop(model, optimizer)
    assert isinstance(training, SparseTraining)
    assert repr(training) == "SparseTraining(9 passes by sparse kernels, 1 by torch)"


def two_processes(whole: bool, gradient_as_bucket_view: bool) -> None:
    """Each process trains on half of a batch; one that does so alone trains on the whole of it."""
    model, alone = sparse(convolutions), sparse(convolutions)
    rank = torch.distributed.get_rank()
    averaged = nn.parallel.DistributedDataParallel(model, gradient_as_bucket_view=gradient_as_bucket_view)
    optimizer, optimizer_alone = (
        SGD(model.parameters(), lr=0.1, momentum=0.9),
        SGD(alone.parameters(), lr=0.1, momentum=0.9),
    )
    hold = Hold(alone, optimizer_alone)
    with sparse_training(averaged if whole else model, optimizer) as training:
        for images, labels in batches(8):
            step(averaged, optimizer, images[rank::2], labels[rank::2])
            loss = (
                cross_entropy(alone(images[::2]), labels[::2]) + cross_entropy(alone(images[1::2]), labels[1::2])
            ) / 2
            optimizer_alone.zero_grad()
            loss.backward()
            optimizer_alone.step()
    hold.detach()
    assert training.sparse_passes == 7
    require_close(model.state_dict(), alone.state_dict(), 1e-4)


CHECKS: Mapping[str, Callable[[], None]] = {
    f"{whole} {view}": partial(two_processes, whole, view) for whole in (True, False) for view in (True, False)
}


def test_processes_average_their_gradients(tmp_path: Path) -> None:
    assert failures(CHECKS, 2, tmp_path) == {name: [] for name in CHECKS}
