"""A ResNet for CIFAR-10 that two cores can train: that of He et al. 2016 with n = 1, and linear shortcuts."""

import torch
from torch import Tensor, nn

WIDTHS = (16, 32, 64)


def resnet8(shape: tuple[int, int, int], classes: int) -> nn.Module:
    """A 3x3 stem, three residual blocks, of which the last two halve the map, and a linear layer."""
    stem = [nn.Conv2d(shape[0], WIDTHS[0], 3, padding=1, bias=False), nn.BatchNorm2d(WIDTHS[0]), nn.ReLU()]
    blocks = [Block(before, width) for before, width in zip((WIDTHS[0], *WIDTHS), WIDTHS, strict=False)]
    return nn.Sequential(*stem, *blocks, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(WIDTHS[-1], classes))


class Block(nn.Module):
    """Two convolutions beside an identity, or beside a convolution where the width changes."""

    def __init__(self, before: int, width: int):
        super().__init__()
        stride = 1 if before == width else 2
        self.branch = nn.Sequential(
            nn.Conv2d(before, width, 3, stride, padding=1, bias=False),
            nn.BatchNorm2d(width),
            nn.ReLU(),
            nn.Conv2d(width, width, 3, padding=1, bias=False),
            nn.BatchNorm2d(width),
        )
        self.shortcut: nn.Module = nn.Identity()
        if before != width:
            self.shortcut = nn.Sequential(nn.Conv2d(before, width, 1, stride, bias=False), nn.BatchNorm2d(width))

    def forward(self, inputs: Tensor) -> Tensor:
        return torch.relu(self.branch(inputs) + self.shortcut(inputs))
