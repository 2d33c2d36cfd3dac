"""Conv2, Conv4, Conv6: pairs of 3x3 convolutions with a pool after each, then three linear layers."""

from collections import OrderedDict

from torch import nn

from asni.networks.initial import initialise

WIDTHS = (64, 128, 256)
HIDDEN = 256


def conv2(shape: tuple[int, int, int], classes: int) -> nn.Module:
    """Two convolutions of 64 channels.

    >>> sum(p.numel() for p in conv2((1, 28, 28), 10).parameters())
    3317450
    """
    return _conv(shape, classes, pairs=1)


def conv4(shape: tuple[int, int, int], classes: int) -> nn.Module:
    """Conv2 plus two convolutions of 128 channels.

    >>> sum(p.numel() for p in conv4((1, 28, 28), 10).parameters())
    1933258
    """
    return _conv(shape, classes, pairs=2)


def conv6(shape: tuple[int, int, int], classes: int) -> nn.Module:
    """Conv4 plus two convolutions of 256 channels.

    >>> sum(p.numel() for p in conv6((1, 28, 28), 10).parameters())
    1802698
    """
    return _conv(shape, classes, pairs=3)


def _conv(shape: tuple[int, int, int], classes: int, pairs: int) -> nn.Module:
    channels, height, width = shape
    layers: OrderedDict[str, nn.Module] = OrderedDict()
    for pair, wide in enumerate(WIDTHS[:pairs], start=1):
        for index in (2 * pair - 1, 2 * pair):
            layers[f"conv{index}"] = nn.Conv2d(channels, wide, kernel_size=3, padding=1)
            layers[f"relu{index}"] = nn.ReLU(inplace=True)
            channels = wide
        layers[f"pool{pair}"] = nn.MaxPool2d(2)
        height, width = height // 2, width // 2
    classifier = OrderedDict(
        flatten=nn.Flatten(),
        linear1=nn.Linear(channels * height * width, HIDDEN),
        relu1=nn.ReLU(inplace=True),
        linear2=nn.Linear(HIDDEN, HIDDEN),
        relu2=nn.ReLU(inplace=True),
        linear3=nn.Linear(HIDDEN, classes),
    )
    model = nn.Sequential(OrderedDict(features=nn.Sequential(layers), classifier=nn.Sequential(classifier)))
    initialise(model)
    return model
