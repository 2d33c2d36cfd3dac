"""Your own network for the command line: any function (shape, classes, **network_options) -> nn.Module."""

from torch import nn


def small(shape: tuple[int, int, int], classes: int, width: int = 8) -> nn.Module:
    channels, height, columns = shape
    return nn.Sequential(
        nn.Conv2d(channels, width, 3, padding=1),
        nn.BatchNorm2d(width),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(width * (height // 2) * (columns // 2), classes),
    )
