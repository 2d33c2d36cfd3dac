"""Whole steps on the nonzeros: the training of masked weights in torch, within what rounding does to it."""

import copy
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy
from torch.optim import SGD, Adam, AdamW, Optimizer

from asni.errors import AsniError
from asni.pruning.hold import Hold
from asni.sparse.network import threads as useful
from asni.sparse.stepper import Stepper
from tests.sparse.small_models import Own

SHAPE, CLASSES, BATCH = (3, 8, 8), 5, 24
Make = Callable[[Any], Optimizer]
OPTIMISERS: dict[str, Make] = {
    "SGD": lambda parameters: SGD(parameters, lr=0.02, momentum=0.9, weight_decay=1e-3),
    "Adam": lambda parameters: Adam(parameters, lr=2e-3, eps=1e-4),
    "AdamW": lambda parameters: AdamW(parameters, lr=2e-3, eps=1e-4, weight_decay=0.1),
}


def residual(*, dropped: float = 0.0) -> nn.Module:
    """Two blocks with batch norm and residuals, the second with a stride and a shortcut.

    A third of the channels are far below zero, the others far above: what a ReLU does is no matter of rounding.
    """

    def forward(self: Any, x: Tensor) -> Any:
        x = self.start(x)
        x = (self.block(x) + x).relu()
        x = (self.down(x) + self.shortcut(x)).relu()
        return self.last(self.drop(x.mean((2, 3))))

    def conv(inputs: int, outputs: int, size: int, *, padding: int = 0, stride: int = 1) -> nn.Sequential:
        layer = nn.Conv2d(inputs, outputs, size, stride, padding, bias=False)
        return nn.Sequential(layer, nn.BatchNorm2d(outputs))

    torch.manual_seed(0)
    model = Own(
        forward, start=nn.Sequential(conv(3, 8, 3, padding=1), nn.ReLU()),
        block=nn.Sequential(conv(8, 8, 3, padding=1), nn.ReLU(), conv(8, 8, 3, padding=1)),
        down=nn.Sequential(conv(8, 12, 3, padding=1, stride=2), nn.ReLU(), conv(12, 12, 3, padding=1)),
        shortcut=conv(8, 12, 1, stride=2), drop=nn.Dropout(dropped), last=nn.Linear(12, CLASSES),
    )  # fmt: skip
    for norm in model.modules():
        if isinstance(norm, nn.BatchNorm2d):
            is_below = torch.arange(norm.num_features) % 3 == 0
            norm.weight.data.fill_(0.4)
            norm.bias.data.copy_(torch.where(is_below, -8.0, 2.0))
    return model


def pruned(model: nn.Module, density: float = 0.3) -> dict[str, Tensor]:
    """Masks of a model, whose other weights become zeros; one layer stays dense."""
    random = torch.Generator().manual_seed(1)
    masks = {
        name: torch.rand(each.shape, generator=random) < density
        for name, each in model.named_parameters()
        if each.ndim > 1 and not name.startswith("start")
    }
    for name, mask in masks.items():
        model.get_parameter(name).data.mul_(mask)
    return masks


def batches(count: int) -> Iterator[tuple[Tensor, Tensor]]:
    """The last of every five is smaller."""
    random = torch.Generator().manual_seed(2)
    for number in range(count):
        size = BATCH if number % 5 < 4 else 7
        images = torch.randn(size, *SHAPE, generator=random)
        yield images, (images.mean((1, 2, 3)) * 20).long().clamp(-2, 2) + 2


def stepper_of(model: nn.Module, optimizer: Optimizer, masks: dict[str, Tensor]) -> Stepper:
    return Stepper(model, optimizer, masks, batch_size=BATCH, shape=SHAPE)


def masked_training(model: nn.Module, make: Make, masks: dict[str, Tensor], steps: int) -> nn.Module:
    """Train in torch, with all weights and a mask, in the model's precision."""
    optimizer = make(model.parameters())
    hold = Hold(model, optimizer, masks)
    dtype = next(model.parameters()).dtype
    for images, labels in batches(steps):
        optimizer.zero_grad()
        cross_entropy(model(images.to(dtype)), labels).backward()
        optimizer.step()
    hold.detach()
    return model


def numbers_of(model: nn.Module) -> Tensor:
    found = [each.detach().double().flatten() for each in (*model.parameters(), *model.buffers())]
    return torch.cat(found)


@pytest.mark.parametrize("make", OPTIMISERS.values(), ids=OPTIMISERS)
def test_steps_are_those_of_masked_weights_in_torch(make: Make) -> None:
    """After 30 steps, as near to float64 as torch's float32 comes."""
    model = residual()
    masks = pruned(model)
    exact = masked_training(copy.deepcopy(model).double(), make, masks, 30)
    single = masked_training(copy.deepcopy(model), make, masks, 30)
    optimizer = make(model.parameters())
    stepper = stepper_of(model, optimizer, masks)
    for images, labels in batches(30):
        stepper.step(images, labels, weight=1.0)
    stepper.store()
    ours, theirs = (float((numbers_of(each) - numbers_of(exact)).norm()) for each in (model, single))
    assert ours <= 4 * theirs
    for name, mask in masks.items():
        assert not model.get_parameter(name)[~mask].any()


@pytest.mark.parametrize("make", OPTIMISERS.values(), ids=OPTIMISERS)
def test_the_state_of_the_optimiser_is_that_of_torch(make: Make) -> None:
    model = residual()
    masks = pruned(model)
    single = copy.deepcopy(model)
    theirs = make(single.parameters())
    hold = Hold(single, theirs, masks)
    optimizer = make(model.parameters())
    stepper = stepper_of(model, optimizer, masks)
    for images, labels in batches(3):
        theirs.zero_grad()
        cross_entropy(single(images), labels).backward()
        theirs.step()
        stepper.step(images, labels, weight=1.0)
    stepper.store()
    hold.detach()
    found, expected = optimizer.state_dict(), theirs.state_dict()
    assert found["param_groups"] == expected["param_groups"]
    assert found["state"].keys() == expected["state"].keys()
    for number, state in expected["state"].items():
        assert found["state"][number].keys() == state.keys()
        for key, value in state.items():
            torch.testing.assert_close(found["state"][number][key], value, rtol=1e-3, atol=1e-5)


@pytest.mark.parametrize(("name", "threads"), [("SGD", 1), ("Adam", 2), ("AdamW", 3)])
def test_a_stepper_made_anew_continues_with_the_same_bits(
    name: str, threads: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(useful, "MULTIPLICATIONS_PER_THREAD", 1)
    monkeypatch.setattr(torch, "get_num_threads", lambda: threads)
    found = []
    for new_ones in ([], [2, 3]):
        model = residual(dropped=0.3)
        masks, optimizer = pruned(model), OPTIMISERS[name](model.parameters())
        stepper = stepper_of(model, optimizer, masks)
        assert stepper.network.threads == threads
        torch.manual_seed(7)
        losses = []
        for number, (images, labels) in enumerate(batches(6)):
            if number in new_ones:
                stepper.store()
                stepper = stepper_of(model, optimizer, masks)
            losses.append(stepper.step(images, labels, weight=0.5))
        stepper.store()
        states = [each for state in optimizer.state.values() for each in state.values()]
        tensors = (torch.stack(losses), *model.parameters(), *model.buffers(), *states)
        found.append([each.detach().contiguous().numpy().tobytes() for each in tensors])
    assert found[0] == found[1]


def test_storing_and_loading_changes_no_bit() -> None:
    found = []
    for has_stored in (False, True):
        model = residual()
        optimizer = OPTIMISERS["Adam"](model.parameters())
        stepper = stepper_of(model, optimizer, pruned(model))
        for images, labels in batches(6):
            stepper.step(images, labels, weight=1.0)
            if has_stored:
                stepper.store()
                stepper.load()
        stepper.store()
        found.append([each.detach().numpy().tobytes() for each in (*model.parameters(), *model.buffers())])
    assert found[0] == found[1]


def test_other_masks_take_over_from_a_previous_stepper() -> None:
    model = residual()
    masks, optimizer = pruned(model, 0.6), SGD(model.parameters(), 0.05, momentum=0.9)
    first = stepper_of(model, optimizer, masks)
    (images, labels), (later, their_labels) = batches(2)
    first.step(images, labels, weight=1.0)
    first.store()
    fewer = pruned(model, 0.2)
    second = Stepper(model, optimizer, fewer, batch_size=BATCH, shape=SHAPE, previous=first)
    second.step(later, their_labels, weight=1.0)
    second.store()
    for name, mask in fewer.items():
        assert not model.get_parameter(name)[~mask].any()
        assert not optimizer.state[model.get_parameter(name)]["momentum_buffer"][~mask].any()


def test_tensors_in_any_memory_format() -> None:
    found = []
    for is_last in (False, True):
        model = residual()
        stepper = stepper_of(model, SGD(model.parameters(), 0.05), pruned(model))
        for images, labels in batches(3):
            wide = torch.stack([labels, labels], 1)
            given = images.to(memory_format=torch.channels_last) if is_last else images
            stepper.step(given, wide[:, 0] if is_last else labels, weight=1.0)
        logits = stepper.logits(images.to(memory_format=torch.channels_last) if is_last else images)
        found.append((stepper.network.weights.tobytes(), logits.numpy().tobytes()))
    assert found[0] == found[1]


def test_the_loss_is_weighted() -> None:
    images, labels = next(batches(1))
    losses = []
    for weight in (1.0, 0.25):
        model = residual()
        stepper = stepper_of(model, SGD(model.parameters(), 0.1), pruned(model))
        losses.append(float(stepper.step(images, labels, weight=weight)))
    assert losses[1] == pytest.approx(0.25 * losses[0])


def test_weights_that_see_padding_alone_decay() -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Conv2d(3, 4, 3, stride=2, padding=1), nn.Flatten(), nn.Linear(4, CLASSES))
    before = model[0].weight.detach().clone()  # type: ignore[operator]
    optimizer = SGD(model.parameters(), 0.5, weight_decay=0.5)
    stepper = Stepper(model, optimizer, {}, batch_size=2, shape=(3, 1, 1))
    stepper.step(torch.randn(2, 3, 1, 1), torch.tensor([0, 1]), weight=1.0)
    stepper.store()
    after = model[0].weight.detach()  # type: ignore[operator]
    torch.testing.assert_close(after[:, :, 0], before[:, :, 0] * 0.75)
    assert not torch.allclose(after[:, :, 1, 1], before[:, :, 1, 1] * 0.75)


def test_a_batch_that_is_refused_is_no_step() -> None:
    model = nn.Linear(6, 4)
    optimizer = torch.optim.Adam(model.parameters())
    stepper = Stepper(model, optimizer, {}, batch_size=5, shape=(6,))
    stepper.step(torch.randn(5, 6), torch.randint(4, (5,)), weight=1.0)
    with pytest.raises(AsniError, match="label"):
        stepper.step(torch.randn(5, 6), torch.full((5,), 9), weight=1.0)
    stepper.store()
    assert optimizer.state[model.weight]["step"] == 1
