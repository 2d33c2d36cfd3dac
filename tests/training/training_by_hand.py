"""A user's own small loop, for tests of the methods."""

from collections.abc import Callable
from typing import Any

import torch
from torch import nn
from torch.nn.functional import mse_loss

from asni.pruning.layers import prunable

OPTIMIZERS: dict[str, Callable[..., torch.optim.Optimizer]] = {
    "sgd": lambda parameters: torch.optim.SGD(parameters, lr=0.05, momentum=0.9, weight_decay=1e-2),
    "adam": lambda parameters: torch.optim.Adam(parameters, lr=0.01, weight_decay=1e-2),
}


def small_network(seed: int = 0) -> nn.Module:
    """Batch norm, and a last layer so small that a global threshold empties it."""
    torch.manual_seed(seed)
    last = nn.Linear(5, 2)
    with torch.no_grad():
        last.weight.mul_(1e-3)
    return nn.Sequential(nn.Linear(6, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 5), nn.ReLU(), last)


def two_layers(first: list[list[float]], second: list[list[float]]) -> nn.Module:
    """Two linear layers with these weights and no biases."""
    layers = [nn.Linear(len(rows[0]), len(rows), bias=False) for rows in (first, second)]
    with torch.no_grad():
        for layer, rows in zip(layers, (first, second), strict=True):
            layer.weight.copy_(torch.tensor(rows))
    return nn.Sequential(*layers)


def weights(model: nn.Module) -> list[list[list[float]]]:
    """The weights of its layers."""
    return [weight.tolist() for weight in prunable(model).values()]


def train(
    model: nn.Module, optimizer: torch.optim.Optimizer, steps: range, each: Callable[[int], Any] = lambda step: None
) -> None:
    """Step `n` always sees the same random batch; `each` is called after it."""
    for step in steps:
        generator = torch.Generator().manual_seed(step)
        images, labels = torch.randn(16, 6, generator=generator), torch.randn(16, 2, generator=generator)
        optimizer.zero_grad()
        torch.autograd.backward(mse_loss(model(images), labels))
        optimizer.step()
        each(step)


def alive(model: nn.Module) -> int:
    """Weights of the linear layers that are not zero."""
    return sum(int((weight != 0).sum()) for weight in prunable(model).values())
