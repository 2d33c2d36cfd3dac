"""Builds networks by name: one of the paper's, or a user's own `package.module:function`."""

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor, nn

from asni.errors import UsageError, shown, unknown
from asni.networks.conv import conv2, conv4, conv6
from asni.networks.fc import fc
from asni.networks.resnet import resnet18, resnet50
from asni.networks.vgg import vgg11, vgg13, vgg16
from asni.recipes.own_code import article, described, imported, is_code

Shape = tuple[int, int, int]

NETWORKS: dict[str, Callable[[Shape, int], nn.Module]] = {
    "fc": fc,
    "conv2": conv2,
    "conv4": conv4,
    "conv6": conv6,
    "vgg11": vgg11,
    "vgg13": vgg13,
    "vgg16": vgg16,
    "resnet18": resnet18,
    "resnet50": resnet50,
}


def build(name: str, shape: Shape, classes: int, options: Mapping[str, Any] | None = None) -> nn.Module:
    """Build the network of that name for images of `shape` (channels, height, width).

    A `package.module:function` is called as `function(shape, classes, **options)` and keeps its own initialisation;
    modules in the current directory are found too.

    >>> build("fc", (1, 8, 8), 10).linear1
    Linear(in_features=64, out_features=300, bias=True)
    """
    if is_code(name):
        function = imported("network", name, "a function (shape, classes) -> nn.Module")
        return _call(name, function, shape, classes, dict(options or {}))
    if name not in NETWORKS:
        raise unknown("network", name, [*NETWORKS, "package.module:function"])
    if options:
        raise UsageError(f"network '{name}' takes no options; only a package.module:function does")
    try:
        return NETWORKS[name](shape, classes)
    except (RuntimeError, ValueError, TypeError, OverflowError) as error:
        raise UsageError(
            f"network '{name}' cannot be built for images of shape {shown(shape)} and {shown(classes)} classes: "
            f"{shown(str(error).strip().splitlines()[0])}"
        ) from error


def check_output(model: nn.Module, shape: Shape, classes: int) -> None:
    """Raise an error unless the network maps two images of `shape` to an output of shape (2, classes).

    >>> check_output(fc((1, 8, 8), 10), (1, 8, 8), 100)
    Traceback (most recent call last):
    asni.errors.UsageError: the network gives 10 outputs per image, but the dataset has 100 classes
    """
    output = _try_forward(model, shape)
    if not isinstance(output, Tensor):
        raise UsageError(
            f"the network returns {article(output)}; it must return one tensor with a row of outputs per image"
        )
    if output.ndim != 2 or output.shape[0] != 2:
        given = tuple(output.shape)
        raise UsageError(f"the network's output for 2 images has shape {given}; it must be (2, {classes})")
    if output.shape[1] != classes:
        raise UsageError(
            f"the network gives {output.shape[1]} outputs per image, but the dataset has {classes} classes"
        )


def _try_forward(model: nn.Module, shape: Shape) -> object:
    first = next(model.parameters(), torch.empty(0))
    images = torch.zeros(2, *shape, device=first.device)
    training = [module for module in model.modules() if module.training]
    model.eval()
    try:
        with torch.no_grad():
            return model(images)
    except Exception as error:
        raise UsageError(f"the network cannot take images of shape {shape}: {described(error)}") from error
    finally:
        for module in training:
            module.training = True


def _call(name: str, function: Callable[..., object], shape: Shape, classes: int, options: dict[str, Any]) -> nn.Module:
    try:
        model = function(shape, classes, **options)
    except Exception as error:
        arguments = ", ".join([str(shape), str(classes), *(f"{key}={value!r}" for key, value in options.items())])
        raise UsageError(f"network '{name}' failed when called with ({arguments}): {described(error)}") from error
    if not isinstance(model, nn.Module):
        raise UsageError(f"network '{name}' returned {article(model)}; it must return a torch.nn.Module")
    if not any(parameter.requires_grad for parameter in model.parameters()):
        raise UsageError(f"network '{name}' has no trainable parameters")
    if any(isinstance(parameter, nn.UninitializedParameter) for parameter in model.parameters()):
        _try_forward(model, shape)
    return model
