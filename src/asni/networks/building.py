"""Builds networks by name: one of the paper's, or a user's own `package.module:function`."""

import importlib
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from traceback import extract_tb
from typing import Any

import torch
from torch import Tensor, nn

from asni.errors import UsageError, unknown
from asni.networks.conv import conv2, conv4, conv6
from asni.networks.fc import fc
from asni.networks.resnet import resnet18, resnet50
from asni.networks.vgg import vgg11, vgg13, vgg16

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
    if ":" in name:
        return _call(name, _imported(name), shape, classes, dict(options or {}))
    if name not in NETWORKS:
        raise unknown("network", name, [*NETWORKS, "package.module:function"])
    if options:
        raise UsageError(f"network '{name}' takes no options; only a package.module:function does")
    return NETWORKS[name](shape, classes)


def check_output(model: nn.Module, shape: Shape, classes: int) -> None:
    """Raise an error unless the network maps two images of `shape` to an output of shape (2, classes).

    >>> check_output(fc((1, 8, 8), 10), (1, 8, 8), 100)
    Traceback (most recent call last):
    asni.errors.UsageError: the network gives 10 outputs per image, but the dataset has 100 classes
    """
    output = _try_forward(model, shape)
    if not isinstance(output, Tensor):
        raise UsageError(
            f"the network returns {_article(output)}; it must return one tensor with a row of outputs per image"
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
        raise UsageError(f"the network cannot take images of shape {shape}: {_described(error)}") from error
    finally:
        for module in training:
            module.training = True


def _imported(name: str) -> Callable[..., object]:
    module_name, _, attribute = name.partition(":")
    # Permanently, since the user's code may import more when it is called or sent to a worker process.
    if (here := str(Path.cwd())) not in sys.path:
        sys.path.insert(0, here)
    try:
        module = importlib.import_module(module_name)
    except Exception as error:
        raise UsageError(f"cannot import '{module_name}' for network '{name}': {_described(error)}") from error
    if not hasattr(module, attribute):
        public = [key for key, value in vars(module).items() if callable(value) and not key.startswith("_")]
        raise unknown(f"function in module '{module_name}' called", attribute, public)
    function = getattr(module, attribute)
    if not callable(function):
        raise UsageError(
            f"network '{name}' is {_article(function)}; it must be a function (shape, classes) -> nn.Module"
        )
    return function  # type: ignore[no-any-return]


def _call(name: str, function: Callable[..., object], shape: Shape, classes: int, options: dict[str, Any]) -> nn.Module:
    try:
        model = function(shape, classes, **options)
    except Exception as error:
        arguments = ", ".join([str(shape), str(classes), *(f"{key}={value!r}" for key, value in options.items())])
        raise UsageError(f"network '{name}' failed when called with ({arguments}): {_described(error)}") from error
    if not isinstance(model, nn.Module):
        raise UsageError(f"network '{name}' returned {_article(model)}; it must return a torch.nn.Module")
    if not any(parameter.requires_grad for parameter in model.parameters()):
        raise UsageError(f"network '{name}' has no trainable parameters")
    if any(isinstance(parameter, nn.UninitializedParameter) for parameter in model.parameters()):
        _try_forward(model, shape)
    return model


def _described(error: Exception) -> str:
    """The error and the line of the user's code that caused it, since the CLI prints no traceback."""
    not_theirs = ("<", __file__, importlib.__file__, str(Path(torch.__file__).parent))
    theirs = [frame for frame in extract_tb(error.__traceback__) if not frame.filename.startswith(not_theirs)]
    place = f" ({theirs[-1].filename}, line {theirs[-1].lineno})" if theirs else ""
    return f"{type(error).__name__}: {error}{place}"


def _article(value: object) -> str:
    name = type(value).__name__
    return "None" if value is None else f"{'an' if name[0] in 'aeiouAEIOU' else 'a'} {name}"
