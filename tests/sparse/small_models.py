"""Models for the tests of tracing."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn


class Own(nn.Module):
    """A network with a function as its forward."""

    def __init__(self, forward: Callable[[Any, Tensor], Any], **parts: Any) -> None:
        super().__init__()
        for name, part in parts.items():
            setattr(self, name, part)
        self._forward = forward

    def forward(self, x: Tensor) -> Any:
        return self._forward(self, x)


def on_images(*layers: nn.Module, size: int = 7) -> nn.Sequential:
    """Layers on maps of four channels, between a convolution and a linear layer."""
    body = nn.Sequential(nn.Conv2d(3, 4, 3, padding=1), *layers, nn.Flatten())
    features = body(torch.zeros(2, 3, size, size)).shape[1]
    return nn.Sequential(*body, nn.Linear(features, 5))
