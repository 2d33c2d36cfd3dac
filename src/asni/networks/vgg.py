"""VGG-11, 13, 16 for small images: batch norm after every convolution, average pooling, one linear layer."""

from collections import OrderedDict

from torch import nn

from asni.networks.initial import initialise

WIDTHS = (64, 128, 256, 512, 512)


def vgg11(shape: tuple[int, int, int], classes: int) -> nn.Module:
    """Eight convolutions and a linear layer.

    >>> sum(p.numel() for p in vgg11((3, 32, 32), 10).parameters())
    9231114
    """
    return _vgg(shape, classes, depths=(1, 1, 2, 2, 2))


def vgg13(shape: tuple[int, int, int], classes: int) -> nn.Module:
    """Ten convolutions and a linear layer.

    >>> sum(p.numel() for p in vgg13((3, 32, 32), 10).parameters())
    9416010
    """
    return _vgg(shape, classes, depths=(2, 2, 2, 2, 2))


def vgg16(shape: tuple[int, int, int], classes: int) -> nn.Module:
    """Thirteen convolutions and a linear layer.

    >>> sum(p.numel() for p in vgg16((3, 32, 32), 10).parameters())
    14728266
    """
    return _vgg(shape, classes, depths=(2, 2, 3, 3, 3))


def _vgg(shape: tuple[int, int, int], classes: int, depths: tuple[int, ...]) -> nn.Module:
    channels = shape[0]
    layers: OrderedDict[str, nn.Module] = OrderedDict()
    for block, (wide, depth) in enumerate(zip(WIDTHS, depths, strict=True), start=1):
        for index in range(1, depth + 1):
            layers[f"conv{block}_{index}"] = nn.Conv2d(channels, wide, kernel_size=3, padding=1)
            layers[f"norm{block}_{index}"] = nn.BatchNorm2d(wide)
            layers[f"relu{block}_{index}"] = nn.ReLU(inplace=True)
            channels = wide
        layers[f"pool{block}"] = nn.MaxPool2d(2)
    model = nn.Sequential(
        OrderedDict(
            features=nn.Sequential(layers),
            # Five pools reduce a 32x32 image to one pixel; averaging allows larger images with the same parameters.
            average=nn.AdaptiveAvgPool2d(1),
            flatten=nn.Flatten(),
            linear=nn.Linear(channels, classes),
        )
    )
    initialise(model)
    return model
