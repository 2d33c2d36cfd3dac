"""FC: LeNet-300-100, three linear layers."""

from collections import OrderedDict
from math import prod

from torch import nn

from asni.networks.initial import initialise


def fc(shape: tuple[int, int, int], classes: int) -> nn.Module:
    """Pixels - 300 - 100 - classes.

    >>> sum(p.numel() for p in fc((1, 28, 28), 10).parameters())
    266610
    """
    model = nn.Sequential(
        OrderedDict(
            flatten=nn.Flatten(),
            linear1=nn.Linear(prod(shape), 300),
            relu1=nn.ReLU(inplace=True),
            linear2=nn.Linear(300, 100),
            relu2=nn.ReLU(inplace=True),
            linear3=nn.Linear(100, classes),
        )
    )
    initialise(model)
    return model
