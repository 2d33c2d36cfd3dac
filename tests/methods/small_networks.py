"""Networks for tests of the methods, named in recipes by import path."""

from math import prod

import torch
from torch import nn

from asni.networks.initial import initialise

Shape = tuple[int, int, int]


def normed(shape: Shape, classes: int) -> nn.Module:
    """Batch norm and drop-out: state and random numbers that a resumed training must find again."""
    model = nn.Sequential(
        nn.Flatten(),
        nn.Linear(prod(shape), 12),
        nn.BatchNorm1d(12),
        nn.ReLU(),
        nn.Dropout(0.1),
        nn.Linear(12, classes),
    )
    initialise(model)
    return model


def fading(shape: Shape, classes: int) -> nn.Module:
    """A layer in the middle whose weights are so small that a global threshold empties it."""
    middle = nn.Linear(12, 8)
    model = nn.Sequential(nn.Flatten(), nn.Linear(prod(shape), 12), nn.ReLU(), middle, nn.Linear(8, classes))
    initialise(model)
    nn.init.normal_(middle.weight, std=1e-6)
    return model


def tied(shape: Shape, classes: int) -> nn.Module:
    """Two layers that share their weights."""
    first, second = nn.Linear(12, 12), nn.Linear(12, 12)
    model = nn.Sequential(nn.Flatten(), nn.Linear(prod(shape), 12), first, nn.ReLU(), second, nn.Linear(12, classes))
    initialise(model)
    second.weight = first.weight
    return model


def broken(shape: Shape, classes: int) -> nn.Module:
    """A layer without a single number."""
    model = normed(shape, classes)
    nn.init.constant_(model.get_parameter("1.weight"), torch.nan)
    return model


def normalised_front(shape: Shape, classes: int) -> nn.Module:
    """A first layer whose weight is computed, and a second one that is frozen and mostly zero."""
    front, frozen = nn.utils.parametrizations.weight_norm(nn.Linear(prod(shape), 12)), nn.Linear(12, 12)
    nn.init.eye_(frozen.weight)
    for parameter in frozen.parameters():
        parameter.requires_grad = False
    return nn.Sequential(nn.Flatten(), front, frozen, nn.Linear(12, 12), nn.ReLU(), nn.Linear(12, classes))


def convolutional(shape: Shape, classes: int) -> nn.Module:
    """A tenth of its weights takes nine tenths of its multiplications."""
    model = nn.Sequential(
        nn.Conv2d(shape[0], 8, 3, padding=1),
        nn.ReLU(),
        nn.Conv2d(8, 8, 3, padding=1),
        nn.ReLU(),
        nn.Flatten(),
        nn.Linear(8 * prod(shape[1:]), classes),
    )
    initialise(model)
    return model
