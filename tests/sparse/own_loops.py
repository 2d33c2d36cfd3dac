"""Small sparse networks and loops around them, as users write them."""

import copy
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy
from torch.optim import Optimizer

from asni.pruning.hold import Hold
from asni.pruning.layers import prunable
from asni.pruning.masks import Masks, keep_largest
from asni.sparse.loop.context import SparseTraining, sparse_training

SHAPE, CLASSES, BATCH = (3, 8, 8), 5, 12


class Residual(nn.Module):
    """A block with batch norm, a shortcut and a stride."""

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        self.first = nn.Conv2d(inputs, outputs, 3, stride=2, padding=1, bias=False)
        self.norm = nn.BatchNorm2d(outputs)
        self.second = nn.Conv2d(outputs, outputs, 3, padding=1, bias=False)
        self.second_norm = nn.BatchNorm2d(outputs)
        self.shortcut = nn.Conv2d(inputs, outputs, 1, stride=2)

    def forward(self, x: Tensor) -> Tensor:
        inner = self.second_norm(self.second(torch.relu(self.norm(self.first(x)))))
        return torch.relu(inner + self.shortcut(x))


def dense_layers() -> nn.Module:
    return nn.Sequential(
        nn.Flatten(), nn.Linear(192, 40), nn.ReLU(), nn.Linear(40, 30), nn.ReLU(), nn.Linear(30, CLASSES)
    )


def convolutions() -> nn.Module:
    body = [nn.Conv2d(3, 16, 3, padding=1), nn.ReLU(), nn.Conv2d(16, 16, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2)]
    return nn.Sequential(*body, nn.Flatten(), nn.Linear(256, 32), nn.ReLU(), nn.Linear(32, CLASSES))


def residual() -> nn.Module:
    first = [nn.Conv2d(3, 16, 3, padding=1, bias=False), nn.BatchNorm2d(16), nn.ReLU()]
    return nn.Sequential(*first, Residual(16, 32), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(32, CLASSES))


NETWORKS: dict[str, Callable[[], nn.Module]] = {
    "linear": dense_layers,
    "convolutions": convolutions,
    "residual": residual,
}


def sparse(make: Callable[[], nn.Module], density: float = 0.1) -> nn.Module:
    """A network with zeros in it."""
    torch.manual_seed(0)
    model = make()
    for name, mask in masks_of(model, density).items():
        model.get_parameter(name).data.mul_(mask)
    return model


def masks_of(model: nn.Module, density: float = 0.1) -> Masks:
    """The same density in every layer."""
    layers = prunable(model).items()
    return {name: keep_largest({name: weight}, round(density * weight.numel()))[name] for name, weight in layers}


def batches(count: int, items: int = BATCH, seed: int = 0) -> Iterator[tuple[Tensor, Tensor]]:
    random = torch.Generator().manual_seed(seed)
    for _ in range(count):
        yield torch.randn(items, *SHAPE, generator=random), torch.randint(CLASSES, (items,), generator=random)


def step(model: nn.Module, optimizer: Optimizer, images: Tensor, labels: Tensor) -> Tensor:
    loss = cross_entropy(model(images), labels)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    return loss.detach()


Loop = Callable[[nn.Module, Optimizer], None]


def plain_loop(model: nn.Module, optimizer: Optimizer) -> None:
    for images, labels in batches(10):
        step(model, optimizer, images, labels)


def both(
    model: nn.Module, make: Callable[[Any], Optimizer], loop: Loop = plain_loop, pruner: Callable[..., Any] = Hold
) -> tuple[nn.Module, Optimizer, nn.Module, Optimizer, SparseTraining]:
    """The same loop without and with the kernels."""
    other = copy.deepcopy(model)
    optimizer, optimizer_of_other = make(model.parameters()), make(other.parameters())
    held = pruner(model, optimizer)
    loop(model, optimizer)
    held.detach()
    held = pruner(other, optimizer_of_other)
    with sparse_training(other, optimizer_of_other) as training:
        loop(other, optimizer_of_other)
    held.detach()
    return model, optimizer, other, optimizer_of_other, training


def require_close(ours: Any, torchs: Any, tolerance: float) -> None:
    """Two tensors, or two states that hold tensors, differ by little of the largest number of each tensor."""
    if isinstance(torchs, dict):
        assert ours.keys() == torchs.keys()
        for key, value in torchs.items():
            require_close(ours[key], value, tolerance)
    elif isinstance(torchs, list):
        for one, other in zip(ours, torchs, strict=True):
            require_close(one, other, tolerance)
    elif isinstance(torchs, Tensor):
        largest = float(torchs.detach().abs().max()) if torchs.numel() else 0.0
        assert (ours.shape, ours.stride()) == (torchs.shape, torchs.stride())
        torch.testing.assert_close(ours, torchs, rtol=0, atol=tolerance * largest, check_dtype=False)
    else:
        assert ours == torchs
